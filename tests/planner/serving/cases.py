"""Small builders for serving scenarios, and the shipped tables."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario

if TYPE_CHECKING:
    from planner.hardware import Tables
    from planner.plan_types import Plan

TRUTH = Path(__file__).parents[2] / "data" / "truth"

Config = dict[str, Any]


def llama(**changes: Any) -> Config:
    """Llama-3.1-8B, or a relative of it."""
    base: Config = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 128256,
        "tie_word_embeddings": False, "max_position_embeddings": 131072,
    }  # fmt: skip
    return base | changes


QWEN3_4B: Config = {
    "model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728, "vocab_size": 151936,
    "tie_word_embeddings": True, "max_position_embeddings": 40960,
}  # fmt: skip

QWEN3_30B_A3B: Config = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936,
    "tie_word_embeddings": False, "max_position_embeddings": 40960, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768,
}  # fmt: skip

DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280,
    "tie_word_embeddings": False, "max_position_embeddings": 163840, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}  # fmt: skip


QWEN25_HALF_B: Config = {
    "model_type": "llama", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 4864, "vocab_size": 151936,
    "tie_word_embeddings": True, "max_position_embeddings": 32768,
}  # fmt: skip
"""Qwen2.5-0.5B without its biases."""


def gpt_oss(layers: int, experts: int) -> Config:
    """gpt-oss-20b (24 layers, 32 experts) or 120b (36, 128)."""
    kinds = ["sliding_attention", "full_attention"] * (layers // 2)
    return {
        "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": layers, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
        "tie_word_embeddings": False, "max_position_embeddings": 131072, "num_local_experts": experts,
        "num_experts_per_tok": 4, "sliding_window": 128, "layer_types": kinds,
    }  # fmt: skip


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The shipped tables."""
    return load_tables()


def scenario(
    config: Config,
    runtime: str = "vllm",
    *,
    gpu: str = "h100-sxm-80gb",
    count: int = 1,
    version: str | None = None,
    parallel: Config | None = None,
    workload: Config | None = None,
    devices: list[Config] | None = None,
    **serving: Any,
) -> Scenario:
    """A serving question."""
    document: Config = {
        "version": 1,
        "task": "serve",
        "model": {"config": config},
        "hardware": {"devices": devices or [{"gpu": gpu, "count": count}]},
        "runtime": {"name": runtime} | ({"version": version} if version else {}),
        "serving": serving,
    }
    if parallel:
        document["parallel"] = parallel
    if workload:
        document["workload"] = workload
    return Scenario.model_validate_json(json.dumps(document))


def serve(config: Config, runtime: str = "vllm", **settings: Any) -> Plan:
    """The plan of a serving question."""
    return plan(scenario(config, runtime, **settings), tables())


@lru_cache(maxsize=2)
def truth(name: str) -> tuple[Config, ...]:
    """Records of a truth file."""
    text = (TRUTH / name).read_text(encoding="utf-8")
    return tuple(json.loads(line) for line in text.splitlines())


def truth_scenario(record: Config) -> Scenario:
    """The question of a record."""
    return Scenario.model_validate_json(json.dumps(record["scenario"]))
