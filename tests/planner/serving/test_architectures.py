"""Ten kinds of models, each with figures that somebody published, and where."""

from __future__ import annotations

from typing import Any

import pytest

from planner.accuracy.predict import devices_of
from planner.estimate import plan
from planner.serving.readings import serving_readings
from planner.units import GIB, MIB
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN3_30B_A3B,
    Config,
    gpt_oss,
    serve,
    tables,
    truth,
    truth_scenario,
)

MIXTRAL: Config = {
    "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8,
    "num_experts_per_tok": 2, "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
FALCON_7B: Config = {
    "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
    "vocab_size": 65024, "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False,
    "bias": False, "alibi": False, "max_position_embeddings": 2048, "tie_word_embeddings": True,
}  # fmt: skip
GPT2: Config = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    "vocab_size": 50257, "tie_word_embeddings": True,
}  # fmt: skip
SIZES = [
    # DeepSeek-V3: arXiv 2412.19437, 671 B parameters, 37 B of them active for a token
    pytest.param(DEEPSEEK_V3, "params_total", 671.0e9, 0.001, id="deepseek-v3-671B"),
    # Mixtral of experts, arXiv 2401.04088: 46.7 B in the announcement, 47 B in the paper
    pytest.param(MIXTRAL, "params_total", 46.7e9, 0.001, id="mixtral-8x7b-46.7B"),
    # PEFT prints 6,926,439,296 with an adapter of 4,718,592
    pytest.param(FALCON_7B, "params_total", 6_921_720_704, 0, id="falcon-7b"),
    # num_parameters of the class in transformers
    pytest.param(GPT2, "params_total", 124_439_808, 0, id="gpt2"),
    # llama.cpp prints `model params = 30.53 B`
    pytest.param(QWEN3_30B_A3B, "params_total", 30.53e9, 0.0002, id="qwen3-30b-a3b"),
]
PER_TOKEN = [
    # arXiv 2505.09343 table 1: 70.272 KB a token
    pytest.param(DEEPSEEK_V3, "sglang", 70_272, id="deepseek-v3-70.272-KB"),
    # 48 layers of 4 heads of 128: llama.cpp prints 384 MiB at 4096, 1536 MiB at 16384
    pytest.param(QWEN3_30B_A3B, "llama_cpp", 1536 * MIB // 16384, id="qwen3-30b-1536-MiB-at-16384"),
    # arXiv 2401.04088: 8 key-value heads of 128, 32 layers
    pytest.param(MIXTRAL, "vllm", 2 * 32 * 8 * 128 * 2, id="mixtral-grouped-queries"),
    # arXiv 2311.16867: one key and value head of 64 for 71 query heads
    pytest.param(FALCON_7B, "vllm", 2 * 32 * 64 * 2, id="falcon-one-head"),
    pytest.param(GPT2, "vllm", 2 * 12 * 768 * 2, id="gpt2-all-heads"),
]


@pytest.mark.parametrize(("config", "field", "published", "share"), SIZES)
def test_parameters(config: Config, field: str, published: float, share: float) -> None:
    model = serve(config, "transformers", max_model_len=1024).model
    assert getattr(model, field) == pytest.approx(published, rel=share, abs=0)


@pytest.mark.parametrize(("config", "runtime", "published"), PER_TOKEN)
def test_bytes_of_a_cached_token(config: Config, runtime: str, published: int) -> None:
    answer = serve(config, runtime, gpu="h200-sxm-141gb", max_model_len=1024, kv_cache="fp16").serving
    assert answer is not None
    assert answer.kv_bytes_per_token == published


PRINTED: list[Any] = [
    # (published record, reading, value as printed there, share)
    pytest.param("vllm-019-meta-llama-llama-4-scout-tp4pp1dp1-8192", "weights_bytes", 53.12 * GIB, 0.005,
                 id="llama-4-scout-weights-of-a-rank"),
    pytest.param("vllm-019-meta-llama-llama-4-scout-tp4pp1dp1-8192", "kv_tokens", 365_968, 0.03,
                 id="llama-4-scout-tokens"),
    pytest.param("vllm-019-google-gemma-3-27b-it-tp1pp1dp1-8192", "weights_bytes", 51.45 * GIB, 0.005,
                 id="gemma-3-27b-weights"),
    pytest.param("vllm-019-google-gemma-3-27b-it-tp1pp1dp1-8192", "kv_tokens", 36_560, 0.03,
                 id="gemma-3-27b-tokens"),
    pytest.param("vllm-23278-gptoss120b-h100", "weights_bytes", 65.965 * GIB, 0.002,
                 id="gpt-oss-120b-in-marlin"),
    pytest.param("vllm-011-gpt-oss-20b-tp1", "weights_bytes", 13.47 * GIB, 0.005,
                 id="gpt-oss-20b-in-triton"),
    pytest.param("vllm-019-moonshotai-kimi-vl-a3b-i-tp1pp1dp1-8192", "weights_bytes", 30.74 * GIB, 0.005,
                 id="kimi-vl-weights-with-its-tower"),
    pytest.param("vllm-019-moonshotai-kimi-vl-a3b-i-tp1pp1dp1-8192", "kv_tokens", 1_426_368, 0.03,
                 id="kimi-vl-tokens"),
    pytest.param("vllm-10517-l31-8b-3090-20000", "kv_tokens", 31_232, 0.01,
                 id="context-inside-the-budget-of-0.6.4"),
    pytest.param("vllm-10517-l31-8b-3090-29000", "kv_tokens", 23_648, 0.01,
                 id="context-inside-the-budget-of-0.6.4-at-29000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "reading", "printed", "share"), PRINTED)
def test_what_engines_print(name: str, reading: str, printed: float, share: float) -> None:
    record = next(r for r in truth("serving.jsonl") if r["id"] == name)
    made = plan(truth_scenario(record), tables())
    found = serving_readings(made, devices_of(made, record["rank"])[0])
    assert found[reading] == pytest.approx(printed, rel=share)


def test_a_hybrid_keeps_a_state_of_fixed_size() -> None:
    """Published for Granite-4-H-Micro in SGLang: 38 slots of 2.77 GiB, 74 MiB each."""
    record = next(r for r in truth("serving.jsonl") if "granite4" in r["id"])
    made = plan(truth_scenario(record), tables())
    answer = made.serving
    assert answer is not None
    assert answer.state_bytes_per_sequence / MIB == pytest.approx(2.77 * 1024 / 38, rel=0.03)


@pytest.mark.parametrize(
    ("gpu", "version", "padded"),
    [
        ("h100-sxm-80gb", "0.10.1", True),
        ("h100-sxm-80gb", "0.11.0", False),
        ("rtx-4090-24gb", "0.19.0", True),
        ("b200-sxm-180gb", "0.19.0", False),
    ],
)
def test_marlin_pads_the_experts_of_gpt_oss(gpu: str, version: str, padded: bool) -> None:
    """vLLM's mxfp4_round_up: hidden size to 256, intermediate to 128, where Marlin runs them."""
    ledger = serve(gpt_oss(24, 32), gpu=gpu, version=version, weights="mxfp4").devices[0].ledger
    marlin = 24 * 32 * 3 * 2944 * 3072 * 17 / 32
    assert (ledger.total("weights_experts") >= marlin) is padded
