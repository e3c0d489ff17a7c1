"""Serving questions of published threads: every one is mapped or left out, and the wrong answers are named."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from benchmarks.serving_scenarios import MAPPED, Answered, answers, rows, table
from tests.planner.serving.cases import tables

KINDS = {"fit-question", "wrong-estimate-by-tool"}
TRAINING = {
    "J005", "J022", "J024", "J027", "J030", "J033", "J034", "J036", "J037", "J039", "J040", "J041", "J042",
    "J049", "J051", "J052",
}  # fmt: skip
"""Rows of these kinds that ask about training; J051 trains with an engine beside it."""
WRONG = {
    (
        "J045",
        "longest_context_tokens",
    ): (
        "Meta's FP8 files keep attention and two layers in 16 bit (9.5 GiB more a card), and neither the share of the "
        "card nor how prompts were cut is told; all linears in 8 bit and whole prompts are assumed: 106,608 tokens"
    ),
    ("J047", "kv_pool_bytes"): (
        "the log is worded as the first engine's, with 2.51 GiB of activations: 256 sequences at once; neither "
        "engine nor length is told, and the second engine of 0.8.3 takes 1024 sequences: logits of 5.0 GiB"
    ),
}
"""Answers that are wrong today, and why."""


@cache
def found() -> tuple[Answered, ...]:
    """Everything answered once."""
    return tuple(answers(tables()))


def test_every_row_of_the_kinds_is_answered_or_left_out_for_a_reason() -> None:
    path = MAPPED.parent / "truth" / "scenarios.jsonl"
    published: list[dict[str, Any]] = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
    ]
    asked = {row["id"] for row in published if row["kind"] in KINDS}
    assert {row["id"] for row in rows()} == asked - TRAINING
    for row in rows():
        assert bool(row.get("left_out")) != bool(row.get("questions"))
        assert isinstance(row["blanks"], list)


def test_wrong_answers_are_the_named_ones() -> None:
    wrong = {(each.row, each.field) for each in found() if not each.right}
    assert wrong <= WRONG.keys()


def test_no_wrong_answer_says_that_it_fits() -> None:
    assert [each for each in found() if each.field == "fits" and not each.right] == []


def test_the_table_tells_how_many() -> None:
    text = table(list(found()), [row for row in rows() if "left_out" in row])
    right = sum(each.right for each in found())
    assert f"{right} of {len(found())} right" in text
    assert "left out: J011" in text
