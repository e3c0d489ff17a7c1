"""What single engines do with a model: which form its cache has, what its files hold, how many run."""

from __future__ import annotations

import pytest

from planner.estimate import plan
from planner.ledger import Category
from planner.memory.serving_gguf import fitted, mixture
from planner.scenario import Scenario
from tests.planner.serving.cases import DEEPSEEK_V3, Config, gpt_oss, llama, serve, tables
from tests.planner.serving.test_state_blocks import LINEAR

SPARSE: Config = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32", "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048,
}  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "per_layer"),
    [("vllm", 576 * 2), ("sglang", 576 * 2), ("transformers", 128 * (192 + 128) * 2)],
)
def test_transformers_caches_the_heads_of_latent_attention(runtime: str, per_layer: int) -> None:
    """`DeepseekV3Attention.forward` hands whole keys and values of every head to `past_key_values.update`."""
    answer = serve(DEEPSEEK_V3, runtime, count=8, weights="fp8", max_model_len=4096).serving
    assert answer is not None
    assert answer.kv_bytes_per_token == 61 * per_layer


@pytest.mark.parametrize(
    ("runtime", "kv_cache", "per_layer"),
    [
        ("vllm", "bf16", 576 * 2 + 132),
        ("vllm", "fp8", 656 + 132),
        ("sglang", "fp8", 656 + 132),
        ("tensorrt_llm", "bf16", 576 * 2 + 128 * 2),
    ],
)
def test_an_indexer_keeps_its_keys_in_eight_bit(runtime: str, kv_cache: str, per_layer: int) -> None:
    plan = serve(
        SPARSE, runtime, count=8, parallel={"tensor": 8}, weights="fp8", kv_cache=kv_cache, max_model_len=4096
    )
    assert plan.serving is not None
    assert plan.serving.kv_bytes_per_token == 61 * per_layer


@pytest.mark.parametrize(
    ("runtime", "layers", "experts", "published"),
    [
        # ggml-org/gpt-oss-20b-GGUF and -120b-GGUF; gpt-oss:20b and :120b of Ollama's library
        ("llama_cpp", 24, 32, 12.1e9),
        ("llama_cpp", 36, 128, 63.4e9),
        ("ollama", 24, 32, 13.8e9),
        ("ollama", 36, 128, 65.3e9),
    ],
)
def test_gpt_oss_is_run_as_it_was_published(
    runtime: str, layers: int, experts: int, published: float
) -> None:
    plan = serve(gpt_oss(layers, experts), runtime, gpu="h200-sxm-141gb")
    assert plan.resolved.serving.weights == "mxfp4"
    held = sum(e.bytes for e in plan.worst.ledger.entries if e.category is Category.WEIGHTS)
    assert plan.serving is not None
    assert held + plan.serving.host.weights_bytes == pytest.approx(published, rel=0.01)
    assert serve(llama(), runtime).resolved.serving.weights == "q4_k_m"


def test_sglang_counts_three_slots_a_request_where_it_keeps_prefixes() -> None:
    settings: Config = {"gpu": "h200-sxm-141gb", "max_model_len": 4096}
    kept, dropped = (serve(LINEAR, "sglang", prefix_caching=on, **settings).serving for on in (True, False))
    assert kept is not None
    assert dropped is not None
    assert kept.state_slots == dropped.state_slots
    assert kept.concurrency == kept.state_slots // 3
    assert dropped.concurrency > kept.concurrency
    assert kept.state_pool_bytes == (kept.state_slots + 1) * kept.state_bytes_per_sequence


def test_sglang_without_a_known_card_answers_the_load() -> None:
    answer = serve(LINEAR, "sglang", gpu="unknown", max_model_len=4096, workload={"concurrency": 5}).serving
    assert answer is not None
    assert answer.state_slots == 5
    assert answer.concurrency == pytest.approx(5, rel=0.01)


def test_sglang_with_less_than_three_slots_runs_nothing() -> None:
    model = LINEAR | {"num_hidden_layers": 4, "linear_num_value_heads": 65536, "linear_num_key_heads": 32768}
    answer = serve(model, "sglang", gpu="h200-sxm-141gb", max_model_len=4096).serving
    assert answer is not None
    assert answer.state_slots < 3
    assert (answer.concurrency, answer.longest_context_tokens) == (0, 0)


def test_tokens_of_a_recurrent_model_are_those_of_its_sequences() -> None:
    answer = serve(LINEAR, "tensorrt_llm", gpu="h200-sxm-141gb", max_model_len=4096).serving
    assert answer is not None
    assert answer.kv_tokens == pytest.approx(answer.concurrency * 4096, rel=0.001)


@pytest.mark.parametrize(
    ("weights", "bits"), [("iq2_k", 4.5), ("iq3_k_r4", 4.5), ("iq4_k", 5.5), ("iq5_k", 6.5), ("iq6_k", 8.5)]
)
def test_rows_that_are_no_multiple_of_256_fall_back(weights: str, bits: float) -> None:
    """`llama-quantize` of ik_llama.cpp takes IQ4_NL, Q5_0, Q6_0 or Q8_0 for them."""
    mix = mixture(weights)
    assert mix is not None
    assert fitted(mix.base, 1408).bits == bits


def test_both_halves_of_an_encoder_decoder_are_loaded() -> None:
    asked = Scenario.model_validate_json(
        '{"version": 1, "task": "serve", "model": {"id": "google-t5/t5-large"}, "runtime": {"name": "llama_cpp"},'
        ' "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]}, "serving": {"weights": "q8_0", "max_model_len": 512}}'
    )
    made = plan(asked, tables())
    assert made.serving is not None
    held = sum(e.bytes for e in made.worst.ledger.entries if e.category is Category.WEIGHTS)
    total = held + made.serving.host.weights_bytes
    assert total * 8 / 737_668_096 == pytest.approx(8.5, rel=0.06)
