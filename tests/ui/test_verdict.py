"""What the verdict says beyond whether it fits: cards without a release, what is left out, servers that count first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.model.from_row import config_from_row
from planner.plan_types import Verdict
from ui import verdict
from ui.answers import answer, tables
from ui.numbers import small_percent
from ui.words import words_for

if TYPE_CHECKING:
    from planner.plan_types import Plan

WORDS = words_for("en")


def planned(runtime: str, model: str, gpu: str, **more: Any) -> Plan:
    document = {
        "version": 1,
        "task": "serve",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": gpu}]},
        "runtime": {"name": runtime},
    }
    plan = answer(document | more).plan
    assert plan is not None
    return plan


def test_a_card_without_a_release_is_no_fit() -> None:
    plan = planned("vllm", "meta-llama/Meta-Llama-3-8B", "apple-m4-max-128gb")
    assert plan.verdict is Verdict.UNKNOWN
    assert verdict.headline(plan, WORDS).startswith("vLLM has no release for Apple cards; it would need ")


def test_what_does_not_fit_without_a_release_does_not_fit() -> None:
    plan = planned("vllm", "meta-llama/Llama-3.1-405B", "apple-m4-max-128gb")
    assert plan.verdict is Verdict.DOES_NOT_FIT


@pytest.mark.parametrize(("runtime", "said"), [("vllm", True), ("sglang", False)])
def test_a_server_that_counts_first_says_what_it_would_take(runtime: str, *, said: bool) -> None:
    plan = planned(runtime, "meta-llama/Llama-3.1-8B", "rtx-4090-24gb", serving={"max_model_len": 131072})
    assert plan.serving is not None
    sentence = f"refuses 131,072 tokens, and takes up to {plan.serving.longest_context_tokens:,}"
    assert (sentence in verdict.why(plan, (), None, WORDS)) is said


def test_a_model_that_sees_says_that_its_figures_are_for_text() -> None:
    adapter = {"method": "lora", "rank": 16}
    training = {"micro_batch": 1, "sequence_length": 1024}
    seeing, reading = (
        planned("hf_trainer", name, "rtx-4090-24gb", task="lora", adapter=adapter, training=training)
        for name in ("Qwen/Qwen3-VL-2B-Instruct", "Qwen/Qwen3-1.7B")
    )
    assert "That is for text" in verdict.why(seeing, (), None, WORDS)
    assert "That is for text" not in verdict.why(reading, (), None, WORDS)


@pytest.mark.parametrize(
    ("fraction", "shown"), [(0.0012, "0.12"), (0.00004, "0.004"), (0.0, "0"), (0.02, "2"), (1.0, "100")]
)
def test_a_small_share_is_told(fraction: float, shown: str) -> None:
    assert small_percent(fraction) == f"{shown}\u00a0%"


CLIPS: dict[str, Any] = {"serving": {"max_model_len": 4352}, "workload": {"concurrency": 2}}
LEARNS: dict[str, Any] = {
    "task": "lora",
    "adapter": {"method": "lora", "rank": 16},
    "training": {"micro_batch": 1, "sequence_length": 4352},
}


@pytest.mark.parametrize(("more", "part"), [(CLIPS, "decode"), (LEARNS, "encode")])
def test_what_a_clip_leaves_unknown_is_said_in_place_of_a_refusal(more: dict[str, Any], part: str) -> None:
    runtime = "transformers" if more is CLIPS else "generic"
    plan = planned(runtime, "genmo/mochi-1-preview", "h200-sxm-141gb", **more)
    assert plan.verdict is Verdict.UNKNOWN
    assert f"{part[:-1]}ing takes is not known" in verdict.headline(plan, WORDS)
    said = verdict.why(plan, (), None, WORDS)
    assert f"A clip’s {part}r works" in said
    assert "None of the changes" not in said
    if more is CLIPS:
        assert "clips at once: 2" in verdict.scenario_sentence(plan, WORDS)


def test_clips_encoded_beforehand_get_a_verdict() -> None:
    row = tables().pipelines["genmo/mochi-1-preview"]
    alone = {"model": {"config": dict(config_from_row(row))}}
    asked = {"version": 1, "hardware": {"devices": [{"gpu": "h200-sxm-141gb"}]}, **LEARNS, **alone}
    plan = answer(asked).plan
    assert plan is not None
    assert plan.verdict is Verdict.FITS
