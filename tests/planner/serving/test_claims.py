"""Claims about serving memory with their right figures: G8, G15, G24, G25."""

from __future__ import annotations

import pytest

from planner.memory.weight_formats import FORMATS
from planner.serving.ledgers import cache_bytes
from planner.units import gb, gib
from tests.planner.serving.cases import llama, serve

LLAMA_2_7B = llama(
    num_key_value_heads=32, intermediate_size=11008, vocab_size=32000, max_position_embeddings=4096
)
SEVENTY = {
    "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "intermediate_size": 28672,
    "head_dim": 128,
}  # fmt: skip
TOKENS = {"prompt_tokens": 1024, "output_tokens": 1024}


def cache_gib(kv_heads: int, sequences: int) -> float:
    """Caches of a 70B's 80 layers, in all."""
    plan = serve(
        llama(**SEVENTY, num_key_value_heads=kv_heads), count=8, parallel={"tensor": 8}, weights="bf16",
        max_model_len=2048, workload=TOKENS | {"concurrency": sequences},
    )  # fmt: skip
    return 8 * gib(cache_bytes(plan.worst.ledger))


def test_g8_2048_tokens_of_a_70b_are_5_gib_and_not_48_gb() -> None:
    # 2 x 80 layers x 8192 x 2 bytes = 2.5 MiB a token where every head has its own keys and values.
    assert cache_gib(64, 1) == pytest.approx(5.0)
    assert cache_gib(64, 4) == pytest.approx(20.0)
    # The model has 8 key and value heads for its 64: an eighth.
    assert cache_gib(8, 1) == pytest.approx(0.625)
    assert 48e9 / (cache_gib(64, 1) * 2**30) == pytest.approx(8.94, abs=0.01)


@pytest.mark.parametrize("name", ["awq4", "gptq4"])
def test_g15_awq_stores_4_bits_and_computes_in_16(name: str) -> None:
    form = FORMATS[name]
    assert 4.0 < form.bits < 4.2
    # Weights alone are in 4 bits: caches and working memory are those of the 16-bit model.
    packed, plain = serve(llama(), weights=name).worst.ledger, serve(llama(), weights="bf16").worst.ledger
    assert cache_bytes(packed) == cache_bytes(plain)
    assert packed.total("activation_peak") == plain.total("activation_peak")


def test_g15_a_gguf_of_3_bits_has_3_44_bits_and_mixtures_more() -> None:
    assert FORMATS["q3_k"].bits == pytest.approx(3.4375)
    plan = serve(llama(), "llama_cpp", gpu="rtx-4090-24gb", weights="q3_k_m", max_model_len=4096)
    host = plan.serving.host.weights_bytes if plan.serving is not None else 0
    weights = host + sum(e.bytes for e in plan.worst.ledger.entries if e.category.value == "weights")
    assert 3.6 < weights * 8 / plan.model.params_total < 4.3


def test_g24_four_bits_save_75_percent_of_16_and_three_bits_81() -> None:
    assert 1 - 4 / 16 == 0.75
    assert 1 - 3 / 16 == 0.8125
    assert 1 - 4 / 32 == 0.875
    # Scales and zero points take some of it back.
    assert 1 - FORMATS["awq4"].bits / 16 == pytest.approx(0.74, abs=0.002)
    assert 1 - FORMATS["q3_k"].bits / 16 == pytest.approx(0.785, abs=0.002)


def test_g25_llama_2_7b_in_gptq_takes_3_9_gb_and_not_3() -> None:
    plan = serve(LLAMA_2_7B, weights="gptq4", max_model_len=4096)
    weights = sum(e.bytes for e in plan.worst.ledger.entries if e.category.value == "weights")
    assert plan.model.params_total == 6_738_415_616
    # 3.89: packed integers, scales and zero points, embeddings and output matrix in 16 bit. Published files of
    # this model have 3.90, with the order of inputs in them.
    assert gb(weights) == pytest.approx(3.9, abs=0.05)
    assert weights > 7e9 * 0.5 > 3e9
