"""Configs from GGUF metadata, as llama.cpp's converter writes it: the same models as in the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hardware_db import load_tables
from hardware_db.checkpoint.gguf import Header, Value
from hardware_db.checkpoint.gguf_config import ARCHITECTURES, config_of
from planner.model import MODEL_TYPES, model_from_config, model_from_row

if TYPE_CHECKING:
    from planner.model.spec import ModelSpec

Metadata = dict[str, Value]
COMMON = (
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
)
FILES: dict[str, tuple[str, int, tuple[int, ...], Metadata, tuple[str, ...]]] = {
    "meta-llama/Llama-3.1-8B": ("llama", 128256, (4096, 32, 14336, 32, 8), {}, ("output.weight",)),
    "mistralai/Mixtral-8x7B-v0.1": (
        "llama", 32000, (4096, 32, 14336, 32, 8), {"expert_count": 8, "expert_used_count": 2}, ("output.weight",),
    ),
    "Qwen/Qwen3-8B": (
        "qwen3", 151936, (4096, 36, 12288, 32, 8), {"attention.key_length": 128}, ("output.weight",),
    ),
    "Qwen/Qwen2.5-7B": ("qwen2", 152064, (3584, 28, 18944, 28, 4), {}, ("output.weight",)),
    "Qwen/Qwen3-30B-A3B": (
        "qwen3moe", 151936, (2048, 48, 6144, 32, 4),
        {
            "attention.key_length": 128, "expert_count": 128, "expert_used_count": 8,
            "expert_feed_forward_length": 768,
        },
        ("output.weight",),
    ),
    "google/gemma-2-9b": (
        "gemma2", 256000, (3584, 42, 14336, 16, 8),
        {"attention.key_length": 256, "attention.sliding_window": 4096}, (),
    ),
    "openai/gpt-oss-20b": (
        "gpt-oss", 201088, (2880, 24, 2880, 64, 8),
        {
            "attention.key_length": 64, "expert_count": 32, "expert_used_count": 4,
            "expert_feed_forward_length": 2880, "attention.sliding_window": 128,
        },
        ("output.weight",),
    ),
    "deepseek-ai/DeepSeek-V3": (
        "deepseek2", 129280, (7168, 61, 18432, 128, 1),
        {
            "attention.q_lora_rank": 1536, "attention.kv_lora_rank": 512, "rope.dimension_count": 64,
            "attention.key_length": 576, "attention.key_length_mla": 192, "attention.value_length": 512,
            "attention.value_length_mla": 128, "expert_count": 256, "expert_used_count": 8,
            "expert_feed_forward_length": 2048, "expert_shared_count": 1, "leading_dense_block_count": 3,
        },
        ("output.weight",),
    ),
    "zai-org/GLM-4.5-Air": (
        "glm4moe", 151552, (4096, 47, 10944, 96, 8),
        {
            "attention.key_length": 128, "expert_count": 128, "expert_used_count": 8,
            "expert_feed_forward_length": 1408, "expert_shared_count": 1, "leading_dense_block_count": 1,
            "nextn_predict_layers": 1,
        },
        ("output.weight", "blk.0.attn_q.bias"),
    ),
    "microsoft/phi-4": ("phi3", 100352, (5120, 40, 17920, 40, 10), {}, ("output.weight",)),
}  # fmt: skip


def header(
    architecture: str, vocab: int, sizes: tuple[int, ...], more: Metadata, tensors: tuple[str, ...]
) -> Header:
    keys = dict(zip(COMMON, sizes, strict=True)) | more
    values: Metadata = {"general.architecture": architecture}
    values |= {f"{architecture}.{key}": value for key, value in keys.items()}
    shapes = {"token_embd.weight": (sizes[0], vocab), **dict.fromkeys(tensors, (1,))}
    return Header(values=values, tensors=(), shapes=shapes, needs_bytes=0)


def built(name: str) -> ModelSpec:
    architecture, config = config_of(header(*FILES[name]))
    assert architecture == FILES[name][0]
    assert config is not None
    return model_from_config(config)


@pytest.mark.parametrize("name", FILES)
def test_a_file_describes_the_model_of_the_catalogue(name: str) -> None:
    found, row = built(name), model_from_row(load_tables().models[name])
    assert found.params_total == row.params_total
    assert [layer.attention for layer in found.layers] == [layer.attention for layer in row.layers]
    assert found.tie_word_embeddings == row.tie_word_embeddings


def test_sizes_that_differ_from_layer_to_layer_give_no_config() -> None:
    same: Metadata = {"attention.head_count_kv": [8, 8]}
    other: Metadata = {"attention.head_count_kv": [8, 4]}
    sizes = (4096, 2, 14336, 32, 8)
    assert config_of(header("llama", 100, sizes, same, ()))[1] is not None
    assert config_of(header("llama", 100, sizes, other, ()))[1] is None


def test_every_architecture_of_the_table_can_be_described() -> None:
    assert {known.model_type for known in ARCHITECTURES.values()} <= set(MODEL_TYPES)
