"""Scenarios, models and cards that the tests of training memory share."""

from collections.abc import Mapping
from typing import Any

from planner.hardware import Gpu, Tables
from planner.ledger import Ledger
from planner.model import ModelSpec, model_from_config
from planner.placement import Share, place
from planner.resolve import resolve
from planner.scenario import Scenario
from planner.training.ledgers import training_ledger

CARD = "test-80gb"
HOPPER = "test-hopper"
TABLES = Tables(
    gpus={
        CARD: Gpu(id=CARD, name=CARD, vendor="NVIDIA", arch="Ampere", compute_capability=(8, 0)),
        HOPPER: Gpu(id=HOPPER, name=HOPPER, vendor="NVIDIA", arch="Hopper", compute_capability=(9, 0)),
    }
)
WORKSPACES = 2 * 8_519_680
"""Two cuBLAS workspaces on a card before Hopper; a trace on tensors without storage sees none."""


def llama(
    hidden: int, layers: int, heads: int, kv: int, width: int, vocab: int, **more: object
) -> dict[str, Any]:
    """A Llama config."""
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": width,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
        **more,
    }


LLAMA_1B = llama(2048, 16, 32, 8, 8192, 128256, tie_word_embeddings=True)
LLAMA_8B = llama(4096, 32, 32, 8, 14336, 128256)
LLAMA_70B = llama(8192, 80, 64, 8, 28672, 128256)
MIXTRAL = {
    **llama(4096, 32, 32, 8, 14336, 32000),
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
QWEN3_30B = {
    **llama(2048, 48, 32, 4, 6144, 151936, head_dim=128),
    "model_type": "qwen3_moe",
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "vocab_size": 50257,
    "n_positions": 4096,
}
MPT_1B = {
    "model_type": "mpt",
    "hidden_size": 2048,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 8192,
    "vocab_size": 50368,
    "tie_word_embeddings": True,
    "max_position_embeddings": 2048,
    "hidden_act": "gelu",
    "gated_mlp": False,
    "norm": "layer_norm",
    "attention_bias": True,
    "mlp_bias": True,
    "learned_pos_emb": True,
    "no_bias": False,
}
TINY = llama(64, 4, 4, 2, 128, 512)
BERT = {
    "model_type": "bert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "q_lora_rank": 96,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "intermediate_size": 1024,
    "moe_intermediate_size": 256,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 4096,
    "tie_word_embeddings": False,
}


def scenario(config: Mapping[str, Any], *, devices: int = 1, card: str = CARD, **blocks: object) -> Scenario:
    """A scenario with the given blocks."""
    document = {
        "version": 1,
        "task": "full",
        "model": {"config": dict(config)},
        "hardware": {"devices": [{"gpu": card, "count": devices}]},
        **blocks,
    }
    return Scenario.model_validate(document)


def shares(config: Mapping[str, Any], **blocks: Any) -> tuple[Scenario, ModelSpec, tuple[Share, ...]]:
    """The resolved scenario, the model, and every group's share."""
    model = model_from_config(config)
    resolved, _ = resolve(scenario(config, **blocks), model)
    return resolved, model, place(resolved, model, TABLES)


def ledgers(config: Mapping[str, Any], **blocks: Any) -> tuple[Ledger, ...]:
    """The ledger of every group."""
    resolved, model, groups = shares(config, **blocks)
    return tuple(training_ledger(group, resolved, model, TABLES) for group in groups)


def ledger(config: Mapping[str, Any], **blocks: Any) -> Ledger:
    """The ledger of the first group."""
    return ledgers(config, **blocks)[0]
