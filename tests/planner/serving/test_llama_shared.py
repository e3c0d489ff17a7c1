"""llama.cpp and its kin: one context, shared by the sequences; what the answer says always adds up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.plan_types import ServingAnswer
from tests.planner.serving.cases import QWEN3_30B_A3B, llama, serve

FAMILY = ["llama_cpp", "ollama", "ik_llama_cpp"]


def answer(runtime: str, config: dict[str, Any], **asked: Any) -> ServingAnswer:
    found = serve(config, runtime, gpu="rtx-4090-24gb", **asked).serving
    assert found is not None
    return found


@pytest.mark.parametrize("runtime", FAMILY)
def test_a_given_context_is_divided_among_the_sequences(runtime: str) -> None:
    found = answer(runtime, llama(), max_model_len=8192, workload={"concurrency": 8})
    assert (found.kv_tokens, found.concurrency, found.context_tokens) == (8192, 8, 1024)


def test_slots_without_a_load_share_it_too() -> None:
    found = answer("llama_cpp", QWEN3_30B_A3B, max_model_len=32_768)
    assert (found.kv_tokens, found.concurrency, found.context_tokens) == (32_768, 4, 8192)
    found = answer("llama_cpp", QWEN3_30B_A3B, max_model_len=32_768, max_sequences=2)
    assert (found.concurrency, found.context_tokens) == (2, 16_384)


@pytest.mark.parametrize("runtime", FAMILY)
def test_a_context_that_is_not_given_holds_the_load(runtime: str) -> None:
    load = {"concurrency": 3, "prompt_tokens": 50_000, "output_tokens": 10_000}
    plan = serve(llama(), runtime, gpu="rtx-4090-24gb", workload=load)
    assert plan.resolved.serving.max_model_len == 180_000
    assert plan.resolved.serving.max_sequences == 3
    assert plan.serving is not None
    assert (plan.serving.kv_tokens, plan.serving.concurrency, plan.serving.context_tokens) == (
        180_000,
        3,
        60_000,
    )


@pytest.mark.parametrize("runtime", FAMILY)
def test_a_given_context_too_short_for_the_load_says_how_few_it_holds(runtime: str) -> None:
    load = {"concurrency": 8, "prompt_tokens": 4000, "output_tokens": 96}
    plan = serve(llama(), runtime, gpu="rtx-4090-24gb", max_model_len=8192, workload=load)
    assert plan.serving is not None
    assert (plan.serving.concurrency, plan.serving.context_tokens) == (2, 4096)
    (warning,) = [i for i in plan.issues if i.code == "workload_beyond_context"]
    assert dict(warning.params) | {"given": 4096, "allowed": 1024} == dict(warning.params)
    enough = serve(llama(), runtime, gpu="rtx-4090-24gb", max_model_len=32_768, workload=load)
    assert "workload_beyond_context" not in {i.code for i in enough.issues}


@given(
    st.sampled_from(FAMILY),
    st.none() | st.integers(1, 100_000),
    st.none() | st.integers(1, 64),
    st.none() | st.integers(1, 64),
    st.none() | st.integers(1, 20_000),
)
def test_sequences_times_their_length_are_the_cache(
    runtime: str, context: int | None, slots: int | None, sequences: int | None, prompt: int | None
) -> None:
    serving = {"max_model_len": context, "max_sequences": slots}
    load = {"concurrency": sequences, "prompt_tokens": prompt}
    load = {key: value for key, value in load.items() if value is not None}
    serving = {key: value for key, value in serving.items() if value is not None}
    found = answer(runtime, llama(), workload=load or None, **serving)
    assert found.concurrency * found.context_tokens <= found.kv_tokens * (1 + 1e-9)
    if context is None and sequences and prompt:
        assert found.concurrency * (1 + 1e-9) >= sequences
        assert found.context_tokens == prompt


def test_a_card_without_a_layer_is_not_the_fullest() -> None:
    """Layers by free memory: a card of 8 GB beside one of 288 GB gets none."""
    made = serve(
        llama(),
        "llama_cpp",
        devices=[{"gpu": "gb300-nvl72-288gb"}, {"gpu": "rtx-3070-8gb"}],
        max_model_len=4096,
    )
    assert made.devices[1].peak_bytes == 0
    assert made.worst.peak_bytes > 0
