"""Popular models on every engine, in every cache format, over more and more cards: figures that can be.

Weights are the parameters times their bits, a token takes what its heads take, more ranks never make a share larger.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Final

import pytest

from planner.estimate import plan
from planner.issues import ScenarioError
from planner.ledger import Category
from planner.memory.kv_cache import element_bytes
from planner.model import ModelSpec, model_from_row
from planner.model.spec import AttentionKind
from planner.plan_types import Plan
from planner.scenario import Scenario
from tests.planner.serving.cases import tables

FEW: Final = (
    "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-12b-pt",
    "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
)  # fmt: skip
MORE: Final = (
    "meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.2-1B", "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B", "Qwen/Qwen3.5-27B", "google/gemma-2-9b", "google/gemma-4-31B-it",
    "mistralai/Mistral-7B-v0.3", "mistralai/Mixtral-8x7B-v0.1", "mistralai/Mistral-Small-24B-Base-2501",
    "deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Flash", "openai/gpt-oss-120b",
    "microsoft/phi-4", "microsoft/Phi-4-mini-instruct", "zai-org/GLM-4.5-Air", "zai-org/GLM-4.7-Flash",
    "moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-Linear-48B-A3B-Instruct", "nvidia/Nemotron-H-56B-Base-8K",
    "MiniMaxAI/MiniMax-M2.5", "MiniMaxAI/MiniMax-Text-01", "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1",
    "LiquidAI/LFM2-8B-A1B", "Qwen/Qwen3-VL-8B-Instruct", "google/gemma-3n-E4B",
)  # fmt: skip
FORMATS: Final = {
    "vllm": ("bf16", "fp8"), "sglang": ("bf16", "fp8"), "tensorrt_llm": ("bf16", "fp8"), "transformers": ("bf16",),
    "llama_cpp": ("fp16", "q8_0", "q4_0"), "ollama": ("fp16", "q8_0"),
}  # fmt: skip
DIVIDES: Final = frozenset({"vllm", "sglang", "tensorrt_llm", "transformers"})
CLEAR: Final = frozenset({"tensor_splits_heads", "tensor_splits_kv_heads"})
GROWING: Final = frozenset({AttentionKind.FULL, AttentionKind.SLIDING, AttentionKind.CHUNKED})
OWN_LAYOUT: Final = frozenset({
    ("vllm", "gemma4"), ("tensorrt_llm", "gemma4"), ("vllm", "nemotron_h"),
})  # fmt: skip
"""Pools whose layers are padded to groups of one size, or that keep a state at every block."""


def answered(model_id: str, engine: str, kv_cache: str, cards: int) -> Plan | None:
    document = {
        "version": 1, "task": "serve", "model": {"id": model_id},
        "hardware": {"devices": [{"gpu": "h200-sxm-141gb", "count": cards}]}, "runtime": {"name": engine},
        "parallel": {"tensor": cards if engine in DIVIDES else 1},
        "serving": {"kv_cache": kv_cache, "max_model_len": 8192},
    }  # fmt: skip
    try:
        return plan(Scenario.model_validate_json(json.dumps(document)), tables())
    except ScenarioError as refusal:
        if {issue.code for issue in refusal.issues} <= CLEAR:
            return None
        raise


def token_bytes(model: ModelSpec, engine: str, kv_cache: str, cards: int) -> float | None:
    """Heads times width times bytes, summed over the layers; None where a model has a rule of its own."""
    total = 0.0
    for layer in model.layers:
        shape, bits = layer.attention, element_bytes(kv_cache)
        if shape.kv_tied or shape.index_head_dim:
            return None
        if shape.kind is AttentionKind.MLA:
            whole = shape.num_heads * (shape.head_dim + shape.v_head_dim)
            latent = shape.kv_lora_rank + shape.qk_rope_head_dim
            total += (math.ceil(whole / cards) if engine == "transformers" else latent) * bits
        elif shape.kind in GROWING and not shape.shares_kv:
            total += (
                max(1, math.ceil(shape.num_kv_heads / cards)) * (shape.head_dim + shape.v_head_dim) * bits
            )
    return total


def figures(made: Plan) -> Iterator[float]:
    answer = made.serving
    assert answer is not None
    yield from (
        answer.kv_bytes_per_token,
        answer.state_bytes_per_sequence,
        answer.kv_pool_bytes,
        answer.kv_tokens,
    )
    yield from (answer.longest_context_tokens, answer.concurrency, answer.needs_bytes, answer.reserves_bytes)
    yield from (entry.bytes for device in made.devices for entry in device.ledger.entries)


def weights(made: Plan) -> int:
    return sum(e.bytes for e in made.worst.ledger.entries if e.category is Category.WEIGHTS)


def check(model_id: str, engine: str, kv_cache: str) -> None:
    model = model_from_row(tables().models[model_id])
    before: Plan | None = None
    for cards in (1, 2, 4, 8):
        made = answered(model_id, engine, kv_cache, cards)
        if made is None:
            continue
        assert all(math.isfinite(value) and value >= 0 for value in figures(made))
        assert made.serving is not None
        assert made.serving.needs_bytes > 0
        assert (made.serving.kv_tokens > 0) == (made.serving.concurrency > 0)
        if engine in DIVIDES:
            expected = token_bytes(model, engine, kv_cache, cards)
            if expected is not None and (engine, model.model_type) not in OWN_LAYOUT:
                assert made.serving.kv_bytes_per_token == pytest.approx(expected, rel=1e-4, abs=1)
            if before is not None:
                assert weights(made) <= weights(before)
                assert made.serving.kv_bytes_per_token <= before.serving.kv_bytes_per_token  # type: ignore[union-attr]
            elif made.resolved.serving.weights == "bf16":
                assert weights(made) == pytest.approx(2 * model.params_total, rel=0.03)
        before = made


@pytest.mark.parametrize("engine", FORMATS)
@pytest.mark.parametrize("model_id", FEW)
def test_figures_that_can_be(model_id: str, engine: str) -> None:
    check(model_id, engine, FORMATS[engine][-1])


@pytest.mark.long
@pytest.mark.parametrize("engine", FORMATS)
@pytest.mark.parametrize("model_id", [*FEW, *MORE])
def test_figures_of_more_models(model_id: str, engine: str) -> None:
    for kv_cache in FORMATS[engine]:
        check(model_id, engine, kv_cache)
