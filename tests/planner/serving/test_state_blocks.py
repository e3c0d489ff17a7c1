"""Blocks of recurrent layers in vLLM's pool, against published block counts."""

from __future__ import annotations

from typing import Any

import pytest

from planner.accuracy.predict import devices_of
from planner.estimate import plan
from planner.memory.kv_cache import CacheShape
from planner.memory.serving_state_blocks import StateBlocks, caches_prefixes, state_blocks, widened
from planner.model import model_from_config
from planner.model.spec import AttentionKind
from planner.plan_types import Plan
from planner.resolve import resolve
from planner.serving.readings import serving_readings
from tests.planner.serving.cases import Config, llama, scenario, tables, truth, truth_scenario

LINEAR: Config = {
    "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "vocab_size": 151936,
    "linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144,
    "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "tie_word_embeddings": False,
}  # fmt: skip
GRANITE: Config = {
    "model_type": "granitemoehybrid", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 8192, "shared_intermediate_size": 8192, "vocab_size": 100352,
    "tie_word_embeddings": True, "max_position_embeddings": 131072, "mamba_n_heads": 64, "mamba_d_head": 64,
    "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_chunk_size": 256,
    "num_local_experts": 0, "num_experts_per_tok": 0, "layer_types": ["mamba", "mamba", "mamba", "attention"],
    "position_embedding_type": "nope",
}  # fmt: skip


def rule(config: Config, version: str | None, **serving: Any) -> StateBlocks:
    asked = scenario(config, "vllm", version=version, **serving)
    model = model_from_config(config)
    return state_blocks(resolve(asked, model)[0], model)


@pytest.mark.parametrize(
    ("config", "version", "serving", "expected"),
    [
        (llama(), "0.30.0", {}, StateBlocks()),
        (LINEAR, "0.19.0", {}, StateBlocks()),
        (LINEAR, "0.19.0", {"prefix_caching": True}, StateBlocks(fixed=2)),
        (LINEAR, "0.11.0", {"prefix_caching": True}, StateBlocks(fixed=1)),
        (LINEAR, "0.28.1", {}, StateBlocks(fixed=2)),
        (LINEAR, None, {"prefix_caching": False}, StateBlocks(fixed=1)),
        (GRANITE, "0.28.1", {}, StateBlocks(fixed=0, each_block=True, step_tokens=256)),
        (GRANITE, "0.23.0", {}, StateBlocks()),
    ],
)
def test_the_rule(
    config: Config, version: str | None, serving: dict[str, Any], expected: StateBlocks
) -> None:
    assert rule(config, version, **serving) == expected


def tokens(name: str) -> tuple[int, Plan]:
    """Tokens of the pool of a record, and its plan."""
    record = next(record for record in truth("serving.jsonl") if record["id"] == name)
    made = plan(truth_scenario(record), tables())
    return int(serving_readings(made, devices_of(made, record["rank"])[0])["kv_tokens"]), made


def test_models_of_states_alone_keep_no_prefix() -> None:
    config = {"model_type": "mamba2", "hidden_size": 768, "num_hidden_layers": 2, "vocab_size": 50288}
    config |= {
        "state_size": 128,
        "num_heads": 24,
        "head_dim": 64,
        "n_groups": 1,
        "expand": 2,
        "conv_kernel": 4,
    }
    assert not caches_prefixes(scenario(config, "vllm"), model_from_config(config))


def test_a_published_pool() -> None:
    """Qwen3.6-27B over two cards: 411 blocks, 174 a sequence of 262144 tokens: 168 and two in each of three groups."""
    found, made = tokens("vllm-club104-qwen36-27b-int4")
    assert made.serving is not None
    assert found == made.serving.kv_blocks * 262144 // 174
    assert found == pytest.approx(411 * 262144 // 174, rel=0.02)


def test_latent_attention_wants_larger_blocks() -> None:
    """Kimi-Linear, published: 75840 tokens = 79 blocks of 960; 2.48 sequences of 120000 = 125 blocks and three."""
    found, made = tokens("vllm-28228-kimi-linear-awq")
    assert found % 960 == 0
    assert made.worst.ledger.total("kv_cache") == (125 + 3) * 7 * 960 * 1152


def test_states_at_every_block_grow_with_the_context() -> None:
    def cache(tokens: int, **serving: Any) -> int:
        asked = scenario(GRANITE, "vllm", max_model_len=tokens, **serving)
        return plan(asked, tables()).worst.ledger.total("kv_cache")

    kept, dropped = cache(131072) / cache(65536), cache(131072, prefix_caching=False)
    assert kept == pytest.approx(2.0, rel=0.01)
    assert cache(131072) / dropped == pytest.approx(4.0, rel=0.1)


def test_a_convolution_keeps_an_input_for_every_drafted_token() -> None:
    model = model_from_config(LINEAR)
    shape = CacheShape(kind=AttentionKind.LINEAR, state=100, conv=30)
    asked = resolve(scenario(LINEAR, "vllm", speculative="mtp", draft_tokens=3), model)[0]
    assert list(widened({shape: 2}, asked, model)) == [
        CacheShape(kind=AttentionKind.LINEAR, state=100, conv=60)
    ]
    assert widened({shape: 2}, resolve(scenario(LINEAR, "vllm"), model)[0], model) == {shape: 2}
