"""What must hold for any server: more asked never needs less, order of equal cards is free, shares add up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.memory.kv_cache import shapes_by_count
from planner.model.from_config import model_from_config
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN3_4B,
    QWEN3_30B_A3B,
    Config,
    gpt_oss,
    llama,
    serve,
)

MODELS = {
    "dense": llama(),
    "tied": QWEN3_4B,
    "experts": QWEN3_30B_A3B,
    "latent": DEEPSEEK_V3,
    "windows": gpt_oss(24, 32),
}
ENGINES = ("vllm", "sglang", "tensorrt_llm", "tgi", "mlc_llm", "transformers", "aphrodite")
LLAMA_FAMILY = ("llama_cpp", "ik_llama_cpp", "ollama")

models = st.sampled_from(sorted(MODELS))
engines = st.sampled_from(ENGINES)


def needs(model: str, runtime: str, context: int, sequences: int, **settings: Any) -> int:
    load = {"concurrency": sequences, "prompt_tokens": context - 1, "output_tokens": 1}
    plan = serve(MODELS[model], runtime, workload=load, max_model_len=65536, **settings)
    assert plan.serving is not None
    return plan.serving.needs_bytes


@given(models, engines, st.integers(2, 65536), st.integers(2, 65536), st.integers(1, 64))
def test_a_longer_context_never_needs_less(
    model: str, runtime: str, one: int, two: int, sequences: int
) -> None:
    short, long = sorted((one, two))
    assert needs(model, runtime, short, sequences) <= needs(model, runtime, long, sequences)


@given(models, engines, st.integers(2, 65536), st.integers(1, 200), st.integers(1, 200))
def test_more_sequences_never_need_less(model: str, runtime: str, context: int, one: int, two: int) -> None:
    few, many = sorted((one, two))
    assert needs(model, runtime, context, few) <= needs(model, runtime, context, many)


@given(models, st.sampled_from(LLAMA_FAMILY), st.integers(256, 65536), st.integers(256, 65536))
def test_a_longer_context_never_needs_less_on_llama_cpp(model: str, runtime: str, one: int, two: int) -> None:
    short, long = sorted((one, two))
    peaks = [
        serve(MODELS[model], runtime, max_model_len=n, gpu="unknown").devices[0].peak_bytes
        for n in (short, long)
    ]
    assert peaks[0] <= peaks[1]


@given(models, st.sampled_from(["vllm", "sglang"]), st.integers(1, 3))
def test_tensor_parallelism_never_needs_more_on_a_device(model: str, runtime: str, doublings: int) -> None:
    """Weights and caches; working memory and buffers of the joined ranks have their own rules."""

    def held(tensor: int) -> int:
        plan = serve(
            MODELS[model],
            runtime,
            count=tensor,
            parallel={"tensor": tensor},
            gpu="h200-sxm-141gb",
            max_model_len=4096,
        )
        ledger = plan.devices[0].ledger
        parts = [
            e.bytes
            for e in ledger.entries
            if e.name.startswith(("weights_", "kv_cache")) and e.name != "weights_allocator_tail"
        ]
        return sum(parts)

    assert held(2**doublings) <= held(2 ** (doublings - 1))


@given(st.permutations(["rtx-4090-24gb", "l40s-48gb", "rtx-a6000-48gb", "l4-24gb"]))
def test_the_order_of_cards_in_one_tensor_group_is_free(order: list[str]) -> None:
    devices: list[Config] = [{"gpu": gpu} for gpu in order]
    plan = serve(llama(), devices=devices, parallel={"tensor": 4}, max_model_len=8192)
    base = serve(
        llama(),
        devices=sorted(devices, key=lambda d: str(d["gpu"])),
        parallel={"tensor": 4},
        max_model_len=8192,
    )
    assert plan.serving is not None
    assert base.serving is not None
    assert (plan.serving.kv_tokens, plan.serving.concurrency) == (
        base.serving.kv_tokens,
        base.serving.concurrency,
    )
    assert {d.gpu_id: d.peak_bytes for d in plan.devices} == {d.gpu_id: d.peak_bytes for d in base.devices}


@pytest.mark.parametrize("model", sorted(MODELS))
@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_ranks_together_hold_the_cache_at_least_once(model: str, tensor: int) -> None:
    layers = model_from_config(MODELS[model]).layers
    whole = sum(n * s.token_bytes("bf16", "bf16") for s, n in shapes_by_count(layers, 1).items())
    rank = sum(n * s.token_bytes("bf16", "bf16") for s, n in shapes_by_count(layers, tensor).items())
    assert rank * tensor >= whole


@given(models, st.sampled_from(LLAMA_FAMILY), st.integers(0, 70))
def test_devices_and_host_hold_the_model_together(model: str, runtime: str, gpu_layers: int) -> None:
    """However many layers are sent, weights and caches of host and device come to the same."""

    def total(sent: int) -> tuple[int, int]:
        plan = serve(MODELS[model], runtime, gpu="unknown", gpu_layers=sent, max_model_len=4096)
        answer, ledger = plan.serving, plan.devices[0].ledger
        assert answer is not None
        weights = sum(e.bytes for e in ledger.entries if e.name.startswith("weights_"))
        copied = ledger.total("weights_head") if plan.model.tie_word_embeddings else 0
        caches = sum(e.bytes for e in ledger.entries if e.name.startswith("kv_cache"))
        return weights - copied + answer.host.weights_bytes, caches + answer.host.kv_bytes

    assert total(gpu_layers) == pytest.approx(total(0), abs=32)


@given(st.sampled_from(["fp16", "fp8"]), st.sampled_from(["vllm", "sglang", "tgi"]))
def test_a_smaller_cache_format_holds_more(kv_cache: str, runtime: str) -> None:
    plan = serve(llama(), runtime, kv_cache=kv_cache, max_model_len=8192)
    full = serve(llama(), runtime, kv_cache="fp32", max_model_len=8192)
    assert plan.serving is not None
    assert full.serving is not None
    assert plan.serving.kv_tokens > full.serving.kv_tokens


@given(engines, models)
def test_concurrency_of_one_means_the_longest_sequence_fits(runtime: str, model: str) -> None:
    answer = serve(MODELS[model], runtime, gpu="h200-sxm-141gb", max_model_len=32768, weights="bf16").serving
    assert answer is not None
    assert (answer.concurrency >= 1) == (answer.longest_context_tokens >= 32768)
