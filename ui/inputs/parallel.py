"""How the job is divided over the cards. The data degree is what is left of the cards unless it is set."""

from typing import Final

import streamlit as st

from planner.placement import data_degree
from ui.inputs.desk import Desk
from ui.inputs.groups import folded
from ui.inputs.widgets import choice, flag, number, optional_number, worded

DEGREES: Final = ("tensor", "pipeline", "context", "expert")
SHARDING: Final = ("none", "zero1", "zero2", "zero3", "fsdp")
SCHEDULES: Final = ("1f1b", "interleaved", "gpipe", "zero_bubble", "naive")


def draw(desk: Desk) -> None:
    """Degrees, sharding, and what only pipelines need."""
    with folded(desk, "parallel", _summary(desk), "parallel", "hardware.devices_per_node"):
        _degrees(desk)
        if desk.is_training:
            choice(desk, "parallel.sharding", SHARDING, group="sharding", default="none")
            desk.messages("parallel.sharding", "parallel.sharding_degree")
            flag(desk, "parallel.sequence")
        if desk.get("parallel.pipeline", 1) != 1 and desk.is_training:
            choice(desk, "parallel.pipeline_schedule", SCHEDULES, group="schedule")
        optional_number(
            desk, "hardware.devices_per_node", placeholder=desk.words("field.hardware.devices_per_node.auto")
        )
        desk.messages("parallel", "hardware.devices_per_node")


def _degrees(desk: Desk) -> None:
    words = desk.words
    auto = words("parallel.auto")
    scenario = desk.answer.scenario
    if scenario is not None:
        auto = words("parallel.auto_of", n=data_degree(scenario))
    cells = st.columns(2, gap="small", wrap=False), st.columns(2, gap="small", wrap=False)
    with cells[0][0]:
        optional_number(desk, "parallel.data", placeholder=auto)
    for name, cell in zip(DEGREES[:3], (cells[0][1], *cells[1]), strict=True):
        with cell:
            number(desk, f"parallel.{name}", default=1)
    desk.messages("parallel.data", *(f"parallel.{name}" for name in DEGREES[:3]))
    number(desk, "parallel.expert", default=1)
    desk.messages("parallel.expert")


def _summary(desk: Desk) -> list[str]:
    words = desk.words
    parts = []
    for name in ("data", *DEGREES):
        degree = desk.get(f"parallel.{name}")
        if isinstance(degree, int) and degree != 1:
            parts.append(words(f"parallel.short.{name}", n=degree))
    sharding = desk.get("parallel.sharding", "none")
    if sharding != "none":
        parts.append(worded(desk, "sharding", str(sharding)))
    return parts or [words("parallel.auto")]
