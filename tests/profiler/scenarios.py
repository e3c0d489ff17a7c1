"""Small scenarios for tests."""

import copy
from typing import Any

GPT2: dict[str, Any] = {
    "model_type": "gpt2", "n_embd": 96, "n_layer": 2, "n_head": 4, "vocab_size": 1009, "n_positions": 128,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 24, "intermediate_size": 208, "vocab_size": 1013,
    "max_position_embeddings": 256, "tie_word_embeddings": False,
}  # fmt: skip
PLAIN: dict[str, Any] = {
    "version": 1,
    "task": "full",
    "hardware": {"devices": [{"gpu": "unknown"}]},
    "runtime": {"name": "hf_trainer"},
    "training": {
        "micro_batch": 2,
        "sequence_length": 40,
        "attention": "eager",
        "checkpointing": "none",
        "dropout": 0.0,
        "precision": {"parameters": "fp32", "compute": "fp32", "autocast": False},
        "optimizer": {"name": "adamw", "implementation": "foreach"},
    },
}


def scenario(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A plain step of a model, with changes by dotted path."""
    document = copy.deepcopy(PLAIN) | {"model": {"config": dict(config)}}
    for path, value in changes.items():
        *parents, leaf = path.split(".")
        node = document
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return document
