"""Tables of rotary angles: width of a head that rotates, bytes of an angle, how many tables."""

from __future__ import annotations

from typing import Any

import pytest

from tests.planner.serving.cases import Config, llama, serve

GEMMA: Config = {
    "model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 10240, "vocab_size": 262208,
    "max_position_embeddings": 131072, "sliding_window": 1024, "sliding_window_pattern": 6,
}  # fmt: skip
LINEAR: Config = {
    "model_type": "qwen3_5_text", "hidden_size": 2560, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216, "vocab_size": 248320,
    "linear_num_value_heads": 32, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144,
    "tie_word_embeddings": True,
}  # fmt: skip
KIMI: Config = {
    "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 4, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 72, "intermediate_size": 9216, "vocab_size": 163840,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "num_experts": 8, "num_experts_per_token": 2, "moe_intermediate_size": 1024, "num_shared_experts": 1,
    "first_k_dense_replace": 1, "max_position_embeddings": 1048576, "tie_word_embeddings": False,
    "linear_attn_config": {
        "full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 128, "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "config", "settings", "expected"),
    [
        ("vllm", llama(), {}, 131072 * 128 * 2),
        ("sglang", llama(), {}, 131072 * 128 * 4),
        ("sglang", llama(), {"version": "0.4.1"}, 131072 * 128 * 2),
        # two bases: two tables; SGLang makes every layer with the local one
        ("vllm", GEMMA, {}, 2 * 131072 * 256 * 2),
        ("sglang", GEMMA, {}, 131072 * 256 * 4),
        # a quarter of an attention head rotates, and nothing of a linear layer's
        ("vllm", LINEAR, {}, 262144 * 64 * 2),
        ("vllm", llama(partial_rotary_factor=0.5), {}, 131072 * 64 * 2),
        ("vllm", llama(rope_parameters={"partial_rotary_factor": 0.25}), {}, 131072 * 32 * 2),
        ("vllm", KIMI, {}, 0),
    ],
)
def test_bytes_of_the_table(runtime: str, config: Config, settings: dict[str, Any], expected: int) -> None:
    assert serve(config, runtime, max_model_len=4096, **settings).worst.ledger.total("rope_cache") == expected
