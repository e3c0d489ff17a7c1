"""Training and price questions of published threads: every one is mapped or left out, the wrong answers are named."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from benchmarks.training_scenarios import MAPPED, Answered, answers, rows, table
from planner.estimate import plan
from planner.plan_types import Verdict
from planner.units import gib
from planner.validation import parse_scenario
from tests.benchmarks.test_serving_scenarios import TRAINING
from tests.planner.serving.cases import tables

WRONG = {
    ("J034", "verdict"): "right at the card's size in the thread; the band decides between tight and fits",
    (
        "J037",
        "verdict",
    ): "eight cards hold the estimate; the band decides between tight and fits, the thread ran out",
    (
        "J037",
        "fits",
    ): "the estimate lies under the card by less than its band: the plan says tight, the thread ran out",
    (
        "J040",
        "runs",
    ): "that 8-bit bases can't be sharded is a limit of one program's version, which no check knows",
    (
        "J041",
        "weights_bytes",
    ): "the row doesn't say that the constants of nf4 are quantized again, as axolotl does",
    ("J041", "verdict"): "for the same reason 4 GiB more",
    (
        "J042",
        "loading_fits",
    ): "the program put a whole copy on each card first; our whole copy is in host memory",
    (
        "J049",
        "vocabulary_bytes",
    ): "the matrix is kept in fp32 as PEFT's preparation does; the thread's run kept 16 bit",
    (
        "J128",
        "tokens_per_s_band",
    ): "the page's figures are its own and unverified (quality C); with checkpointing, 6,000 tokens a second would "
    "take over nine tenths of an A100's peak",
}
"""Answers that differ today, and why."""


@cache
def found() -> tuple[Answered, ...]:
    """Everything answered once."""
    return tuple(answers(tables()))


def test_every_row_of_the_kinds_is_answered_or_left_out_for_a_reason() -> None:
    path = MAPPED.parent / "truth" / "scenarios.jsonl"
    published: list[dict[str, Any]] = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    asked = {row["id"] for row in published if row["kind"] == "fit-question"} & TRAINING
    prices = {row["id"] for row in published if row["kind"] == "cloud-cost"}
    assert {row["id"] for row in rows()} == asked | prices
    for row in rows():
        assert bool(row.get("left_out")) != bool(row.get("questions"))
        assert row["blanks"]


def test_wrong_answers_are_the_named_ones() -> None:
    wrong = {(each.row, each.field) for each in found() if not each.right}
    assert wrong <= WRONG.keys()
    assert sum(each.right for each in found()) >= 30


def test_fits_is_said_wrongly_once_and_then_not_for_sure() -> None:
    said = [each for each in found() if each.field == "fits" and not each.right]
    assert [each.row for each in said] == ["J037"]
    row = next(row for row in rows() if row["id"] == "J037")
    seven, _ = parse_scenario(row["questions"][0]["scenario"])
    assert seven is not None
    assert plan(seven, tables()).verdict is not Verdict.FITS


def test_states_lie_where_the_thread_reckoned_them() -> None:
    states = {each.row: each.found for each in found() if each.field == "states_bytes"}
    for row, low, high in (("J030", 157, 174), ("J036", 43, 53), ("J037", 69.7, 78.5), ("J039", 265, 281)):
        value = states[row]
        assert isinstance(value, int | float)
        assert low <= gib(value) <= high, row


def test_the_table_tells_how_many() -> None:
    text = table(list(found()), [row for row in rows() if "left_out" in row])
    right = sum(each.right for each in found())
    assert f"{right} of {len(found())} right" in text
    assert "left out: J051" in text
