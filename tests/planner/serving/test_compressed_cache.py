"""DeepSeek-V4 and V4.1: a window for every sequence, and few entries for all that lies before it."""

from __future__ import annotations

import pytest

from planner.estimate import plan
from planner.model import model_from_config
from planner.plan_types import Plan
from planner.validation import parse_scenario
from tests.planner.serving.cases import tables

MILLION = 1 << 20
V4 = {
    # 21 layers keep 512 + 128 elements for every 4 tokens, 20 keep 512 for every 128; all 43 the newest 128 tokens.
    "growing": MILLION * 2 * (21 * (512 + 128) // 4 + 20 * 512 // 128),
    "window": 43 * 128 * 512 * 2,
}
V41 = {
    # Three layers keep 512 + 128 elements for every 2 tokens, one keeps them for each; the others read theirs.
    "growing": MILLION * 2 * (3 * (512 + 128) // 2 + (512 + 128)),
    "window": 40 * 128 * 512 * 2,
}


def served(model: str, runtime: str, context: int = MILLION) -> Plan:
    document = {
        "version": 1,
        "task": "serve",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": "b300-sxm-270gb", "count": 8}]},
        "runtime": {"name": runtime},
        "parallel": {"tensor": 8},
        "serving": {"max_model_len": context},
    }
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, tables())


@pytest.mark.parametrize(
    ("model", "sizes"), [("deepseek-ai/DeepSeek-V4-Flash", V4), ("deepseek-ai/DeepSeek-V4.1-Flash", V41)]
)
def test_one_sequence_of_a_million_tokens(model: str, sizes: dict[str, int]) -> None:
    ledger = served(model, "sglang").worst.ledger
    assert ledger.total("kv_cache") == sizes["growing"]
    assert ledger.total("kv_cache_window") == sizes["window"]


def test_vllm_gives_both_pages_of_one_size() -> None:
    """Pages of 16 tokens of windows hold the entries of 102 tokens; the window needs room for one more step."""
    ledger = served("deepseek-ai/DeepSeek-V4-Flash", "vllm").worst.ledger
    page = 43 * 16 * 512 * 2
    tokens = page * MILLION // V4["growing"]
    blocks = -(-MILLION // tokens) + -(-(127 + 8192) // 16) + 1
    assert tokens == 102
    assert ledger.total("kv_cache") == blocks * page


def test_a_longer_context_holds_fewer_sequences() -> None:
    short, long = (served("deepseek-ai/DeepSeek-V4-Flash", "sglang", n).serving for n in (8192, MILLION))
    assert short is not None
    assert long is not None
    held = (V4["growing"] + V4["window"]) * long.concurrency
    assert held == pytest.approx(long.kv_pool_bytes, rel=1e-3)
    assert short.concurrency > 50 * long.concurrency


def test_v41_has_the_published_size_beside_its_tables() -> None:
    """Published: 552 B, without the tables of n-grams; 16 B work on an answer's token."""
    row = tables().models["deepseek-ai/DeepSeek-V4.1-Flash"]
    extra = row["extra"]
    assert isinstance(extra, dict)
    model = served("deepseek-ai/DeepSeek-V4.1-Flash", "sglang").model
    rows = sum(extra["engram_num_embeddings"])
    assert sum(block.params for block in model.blocks if block.table) == rows * 256
    assert (model.params_total - rows * 256) / 1e9 == pytest.approx(552, rel=1e-3)
    assert model.params_active / 1e9 == pytest.approx(16, rel=0.06)


def test_tables_are_divided_and_kept_in_their_own_format() -> None:
    ledger = served("deepseek-ai/DeepSeek-V4.1-Flash", "sglang").worst.ledger
    entry = next(e for e in ledger.entries if e.name == "weights_other")
    assert dict(entry.symbols)["n_fp8"] == (384_006_168 + 384_016_682) * 256 // 8


def test_the_released_config_reads_as_the_row_does() -> None:
    row = tables().models["deepseek-ai/DeepSeek-V4.1-Flash"]
    extra = row["extra"]
    assert isinstance(extra, dict)
    text = {
        "model_type": "deepseek_v41_text", "vocab_size": 129280, "hidden_size": 5120, "moe_intermediate_size": 2304,
        "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
        "qk_rope_head_dim": 64, "q_lora_rank": 1280, "n_routed_experts": 384, "n_shared_experts": 1,
        "num_experts_per_tok": 6, "sliding_window": 128, "max_position_embeddings": MILLION,
        "num_nextn_predict_layers": 3, **{key: value for key, value in extra.items() if key != "expert_dtype"},
    }  # fmt: skip
    config = {
        "model_type": "deepseek_v41", "text_config": text,
        "vision_config": {"model_type": "deepseek_v41_vision", "hidden_size": 1024},
    }  # fmt: skip
    model = model_from_config(config)
    assert model.params_total == row["params_total"]
    assert "vision_tower_not_counted" in model.approximate
