"""The way from the plain job to a question: real plans, one technique after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ui.answers import answer
from ui.charts.waterfall import alternative, waterfall
from ui.effects import effects, techniques
from ui.words import words_for

if TYPE_CHECKING:
    from planner.plan_types import Plan
    from ui.document import Document

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.json"))


def example(name: str) -> tuple[Document, Plan]:
    path = next(path for path in EXAMPLES if name in path.stem)
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    plan = answer(document).plan
    assert plan is not None
    return document, plan


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_last_step_is_the_question_itself(path: Path) -> None:
    document, plan = example(path.stem)
    found = effects(document, plan)
    if not plan.resolved.is_training:
        assert found is None
        return
    assert found is not None
    assert found.steps[-1].peak_bytes == plan.worst.peak_bytes
    names = [name for step in found.steps for name in step.names]
    assert names == [technique.name for technique in techniques(plan.resolved)]


def test_each_step_is_a_plan_with_one_thing_more() -> None:
    found = effects(*example("qlora-rtx3090"))
    assert found is not None
    peaks = [found.plain_bytes, *(step.peak_bytes for step in found.steps)]
    assert peaks == sorted(peaks, reverse=True)
    assert [step.names for step in found.steps][:2] == [("lora",), ("packed_base",)]


def test_a_job_without_techniques_has_no_way() -> None:
    document: Document = {
        "version": 1,
        "task": "full",
        "model": {"id": "openai-community/gpt2"},
        "hardware": {"devices": [{"gpu": "rtx-3090-24gb", "count": 1}]},
        "training": {"sequence_length": 512, "attention": "eager", "checkpointing": "none"},
    }
    plan = answer(document).plan
    assert plan is not None
    assert effects(document, plan) is None


def test_the_chart_names_every_step_and_says_it_in_words() -> None:
    words = words_for("en")
    found = effects(*example("gpt3-175b"))
    assert found is not None
    markup, said = waterfall(found, words), alternative(found, words)
    for step in found.steps:
        for name in step.names:
            assert words(f"waterfall.step.{name}") in markup
            assert words(f"waterfall.step.{name}") in said
    assert markup.count("<p>") == len(found.steps) + 2
