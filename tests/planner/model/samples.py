"""Rows, records and configs that the tests of the model descriptions read."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[3]

LLAMA: dict[str, object] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
}
MIXTRAL: dict[str, object] = {
    **LLAMA,
    "model_type": "mixtral",
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
DEEPSEEK_V3: dict[str, object] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "vocab_size": 129280,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_nextn_predict_layers": 1,
}
MEGATRON: dict[str, object] = {
    "model_type": "megatron_gpt",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 2048,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "max_position_embeddings": 128,
    "position_embedding": "learned",
    "norm": "layer_norm",
    "gated_mlp": False,
    "add_bias_linear": True,
}


def read_lines(path: Path) -> list[dict[str, object]]:
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def catalogue() -> list[dict[str, object]]:
    """Every row of the model table, pipelines included."""
    return read_lines(ROOT / "hardware_db" / "data" / "models.jsonl")


def class_counts() -> list[dict[str, object]]:
    """Configs with the parameters of their class.

    Each class of transformers 5.24.0 was built on torch's meta device and its parameters summed.
    """
    return read_lines(Path(__file__).with_name("class_counts.jsonl"))
