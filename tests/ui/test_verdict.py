"""What the verdict says beyond whether it fits: cards without a release, what is left out, servers that count first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from planner.plan_types import Verdict
from ui import verdict
from ui.answers import answer
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
