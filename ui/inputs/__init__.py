"""The form, in the sidebar of every page: task, model, cards, workload, techniques, the rest folded away."""

import streamlit as st

from ui.inputs import (
    adapter,
    hardware,
    model,
    parallel,
    precision,
    runtime,
    start,
    task,
    techniques,
    workload,
)
from ui.inputs.desk import Desk
from ui.tasks import ADAPTER_TASKS

__all__ = ["Desk", "draw_inputs"]


def draw_inputs(desk: Desk) -> None:
    """Draw every group, each with its messages beneath it."""
    with st.sidebar, st.container(key="inputs", gap="small"):
        start.draw(desk)
        task.draw(desk)
        model.draw(desk)
        hardware.draw(desk)
        workload.draw(desk)
        if desk.task in ADAPTER_TASKS:
            adapter.draw(desk)
        techniques.draw(desk)
        with st.container(key="more", gap="xxsmall"):
            parallel.draw(desk)
            precision.draw(desk)
            runtime.draw(desk)
