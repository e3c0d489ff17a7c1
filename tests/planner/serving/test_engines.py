"""Every engine: its defaults, its budget, its gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimate import plan
from planner.memory.serving_demand import LATEST, memory_gib, version_of
from planner.memory.serving_engines import ENGINES
from planner.model.from_config import model_from_config
from planner.placement_fit import _divided
from planner.references import REFERENCES
from planner.runtimes.every import PROFILES
from planner.runtimes.serving import SERVING
from planner.runtimes.sglang import multimodal_factor
from planner.runtimes.sglang_static import static_frac
from planner.scenario import Loading, Scenario
from planner.scenario_values import RuntimeName
from planner.serving.gaps import not_modelled
from planner.serving.readings import serving_readings
from planner.units import GIB
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN25_HALF_B,
    Config,
    llama,
    scenario,
    serve,
    tables,
    truth,
)

if TYPE_CHECKING:
    from planner.plan_types import Plan

NAMES = [profile.name for profile in SERVING]


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_answers_with_its_own_defaults(name: str) -> None:
    plan = serve(llama(), name)
    answer = plan.serving
    assert answer is not None
    assert plan.resolved.serving.weights
    assert plan.resolved.serving.max_model_len
    assert answer.kv_bytes_per_token == 131_072
    assert 0 < answer.longest_context_tokens <= plan.resolved.serving.max_model_len
    assert answer.needs_bytes <= answer.reserves_bytes or answer.concurrency < 1


@pytest.mark.parametrize("name", NAMES)
def test_defaults_cite_a_reference(name: str) -> None:
    assert PROFILES[name].reference in REFERENCES


def test_every_engine_of_the_schema_has_a_profile() -> None:
    serving = {
        "vllm", "sglang", "llama_cpp", "ollama", "tensorrt_llm", "transformers", "ik_llama_cpp", "mlc_llm",
        "tgi", "aphrodite", "pegainfer", "sglang_omni",
    }  # fmt: skip
    assert serving <= set(get_args(RuntimeName))
    assert serving == set(NAMES)
    assert set(ENGINES) <= serving


@pytest.mark.parametrize("name", NAMES)
def test_what_the_user_set_stays(name: str) -> None:
    plan = serve(llama(), name, max_model_len=5120, kv_cache="fp16", weights="fp16", max_sequences=3)
    kept = plan.resolved.serving
    assert (kept.max_model_len, kept.kv_cache, kept.weights, kept.max_sequences) == (5120, "fp16", "fp16", 3)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (None, LATEST),
        ("0.19.0", (0, 19, 0)),
        ("0.4.3.post4", (0, 4, 3, 4)),
        ("b5331", (5331,)),
        ("nightly", LATEST),
    ],
)
def test_versions(text: str | None, numbers: tuple[int, ...]) -> None:
    assert version_of(scenario(llama(), version=text)) == numbers


@pytest.mark.parametrize(
    ("device", "size"),
    [
        ({"gpu": "h100-sxm-80gb"}, 80),
        ({"gpu": "generic-24gb"}, 24),
        ({"gpu": "unknown"}, None),
        ({"gpu": "t4-16gb", "memory_bytes": 3 * GIB}, 3),
    ],
)
def test_size_of_the_first_card(device: Config, size: float | None) -> None:
    assert memory_gib(scenario(llama(), devices=[device])) == size


@pytest.mark.parametrize(
    ("gpu", "version", "sequences", "tokens"),
    [
        ("h100-sxm-80gb", "0.19.0", 1024, 8192),
        ("a100-sxm-80gb", "0.19.0", 256, 2048),
        ("rtx-4090-24gb", "0.19.0", 256, 2048),
        ("rtx-4090-24gb", "0.8.5", 1024, 2048),
    ],
)
def test_batch_defaults_of_vllm(gpu: str, version: str, sequences: int, tokens: int) -> None:
    resolved = serve(llama(), gpu=gpu, version=version, max_model_len=4096).resolved.serving
    assert (resolved.max_sequences, resolved.batched_tokens) == (sequences, tokens)


@pytest.mark.parametrize(
    ("version", "tensor", "gpu", "frac"),
    [
        ("0.4.1", 1, "rtx-3090-24gb", 0.88),
        ("0.4.3", 4, "l4-24gb", 0.85),
        ("0.5.6", 1, "generic-80gb", round(1 - (512 + 8192 * 1.5 + 512 + 128) / (80 * 1024), 3)),
        ("0.5.6", 1, "unknown", 0.88),
    ],
)
def test_static_share_of_sglang(version: str, tensor: int, gpu: str, frac: float) -> None:
    asked = scenario(llama(), "sglang", gpu=gpu, version=version, parallel={"tensor": tensor}, count=tensor)
    assert static_frac(asked, model_from_config(llama()), 8192, 256) == frac


@pytest.mark.parametrize(
    ("version", "vision", "factor"),
    [
        ("0.4.4", {"num_hidden_layers": 27, "hidden_size": 1152}, 0.95),
        ("0.5.6", {"num_hidden_layers": 24, "hidden_size": 1024}, 0.95),
        ("0.5.6", {"num_hidden_layers": 48, "hidden_size": 1024}, 0.95 * 0.9),
        ("0.5.6", {"num_hidden_layers": 96, "hidden_size": 4096}, 0.95 * 0.8),
        ("0.5.6", {"num_hidden_layers": 12, "hidden_size": 512}, 0.95 * 1.05),
    ],
)
def test_a_larger_tower_leaves_sglang_a_smaller_share(version: str, vision: Config, factor: float) -> None:
    """`adjust_mem_fraction_for_vlm` of server_args.py."""
    record = next(r for r in truth("serving.jsonl") if r["id"] == "sglang-4826-gemma3-4b")
    config = record["scenario"]["model"]["config"]
    model = model_from_config(config | {"vision_config": config["vision_config"] | vision})
    found = multimodal_factor(scenario(config, "sglang", version=version), model)
    assert found == pytest.approx(factor)


@pytest.mark.parametrize(
    ("version", "logit_bytes"),
    [("0.4.3", 6 * (1 + 2 + 4 + 8 + 16)), ("0.5.0", 4 * (1 + 2 + 4 + 8 + 16)), ("0.5.6", 4 * 16)],
)
def test_logits_that_sglangs_graphs_keep(version: str, logit_bytes: int) -> None:
    """Smallest batch first: nothing is shared; later each graph's output; later one buffer for all."""
    settings: Config = {"version": version, "cuda_graph_max_batch": 16, "max_model_len": 4096}
    graphs = serve(llama(), "sglang", **settings).devices[0].ledger.total("cuda_graphs")
    fewer = serve(llama(vocab_size=64_000), "sglang", **settings).devices[0].ledger.total("cuda_graphs")
    assert graphs - fewer == (128_256 - 64_000) * logit_bytes


def test_full_graphs_of_vllm_stop_at_the_most_sequences() -> None:
    """Published for 0.16 with 256 sequences: 35 full graphs beside 51 piecewise ones up to 512."""
    settings: Config = {"version": "0.16.0", "gpu": "l40s-48gb", "max_model_len": 4096}
    formula = {
        n: dict(entry.symbols)["g"]
        for n in (256, 1024)
        for entry in serve(llama(), max_sequences=n, **settings).devices[0].ledger.entries
        if entry.name == "cuda_graphs"
    }
    assert formula == {256: 35 + 51, 1024: 51 + 51}


def test_sglang_pool_is_the_share_less_the_weights() -> None:
    plan = serve(llama(), "sglang", version="0.4.1", gpu="rtx-3090-24gb", memory_utilization=0.88)
    ledger, answer = plan.devices[0].ledger, plan.serving
    assert answer is not None
    usable = tables().gpus["rtx-3090-24gb"].usable_bytes
    assert usable is not None
    weights = serving_readings(plan, 0)["weights_bytes"]
    left = int((usable - ledger.total("cuda_context")) * 0.88) - weights
    assert answer.kv_tokens == left // 131_072


def test_a_users_cap_on_the_pool() -> None:
    """Published: Qwen2.5-0.5B capped at 20480 tokens holds 0.24 GiB."""
    answer = serve(QWEN25_HALF_B, "sglang", max_total_tokens=20480, max_model_len=32768).serving
    assert answer is not None
    assert (answer.kv_tokens, answer.kv_pool_bytes) == (20480, 20480 * 24 * 2 * 64 * 2 * 2)


def test_recurrent_states_take_their_share_of_sglangs_pool() -> None:
    record = next(r for r in truth("serving.jsonl") if "granite4" in r["id"])
    plan = serve(record["scenario"]["model"]["config"], "sglang", gpu="generic-16gb", version="0.5")
    readings = serving_readings(plan, 0)
    assert readings["state_bytes"] / readings["kv_bytes"] == pytest.approx(0.9, abs=0.03)
    observed = record["observed"]
    assert readings["state_bytes"] / readings["state_slots"] == pytest.approx(
        observed["state_bytes"] / observed["state_slots"], rel=0.05
    )


def test_tensorrt_takes_a_share_of_what_is_left() -> None:
    half = serve(llama(), "tensorrt_llm", memory_utilization=0.45, max_model_len=4096).serving
    whole = serve(llama(), "tensorrt_llm", memory_utilization=0.9, max_model_len=4096).serving
    assert half is not None
    assert whole is not None
    assert whole.kv_pool_bytes == pytest.approx(2 * half.kv_pool_bytes, abs=4)


def test_transformers_grows_its_cache_with_the_load() -> None:
    load = {"concurrency": 4, "prompt_tokens": 1000, "output_tokens": 24}
    ledger = serve(llama(), "transformers", workload=load).devices[0].ledger
    assert ledger.total("kv_cache") == 4 * 1024 * 131_072


def test_encoder_decoders_keep_the_prompts_keys_for_every_layer() -> None:
    t5 = {
        "model_type": "t5", "d_model": 512, "num_layers": 6, "num_decoder_layers": 6, "num_heads": 8,
        "d_kv": 64, "d_ff": 2048, "vocab_size": 32128, "feed_forward_proj": "relu",
    }  # fmt: skip
    load = {"concurrency": 2, "prompt_tokens": 100, "output_tokens": 28}
    ledger = serve(t5, "tgi", workload=load).devices[0].ledger
    layer = 2 * 8 * 64 * 2
    assert ledger.total("kv_cache") == 2 * 6 * layer * (128 + 100)


FLAN_T5_XL: Config = {
    "model_type": "t5", "d_model": 2048, "num_layers": 24, "num_decoder_layers": 24, "num_heads": 32,
    "d_kv": 64, "d_ff": 5120, "vocab_size": 32128, "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(("length", "batch", "prompts"), [(4501, 8192, 2), (1024, 4096, 4), (4096, 4096, 1)])
def test_t5_holds_every_heads_scores(length: int, batch: int, prompts: int) -> None:
    """Published for flan-t5-xl: of 12 bytes a score, the last 4 (4.83 GiB) are refused on 24 GB."""
    settings: Config = {
        "gpu": "a10g-24gb",
        "max_model_len": length,
        "batched_tokens": batch,
        "weights": "fp16",
    }
    made = serve(FLAN_T5_XL, "tgi", **settings)
    assert made.devices[0].ledger.total("activation_peak") == prompts * 32 * length**2 * 12
    assert (made.devices[0].peak_bytes > (made.devices[0].usable_bytes or 0)) is (length == 4501)


# --- gaps


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"serving": {"speculative": "eagle3"}}, ("serving.speculative", "draft_model")),
        ({"serving": {"split_mode": "row"}}, ("serving.split_mode", "row_split")),
        ({"serving": {"weights": "mixed"}}, ("serving.weights", "weight_format_size")),
        ({"runtime": {"name": "pegainfer"}}, ("runtime.name", "engine_like_another")),
        ({"parallel": {"context": 2}}, ("parallel.context", "context_parallel_serving")),
    ],
)
def test_what_is_given_and_not_used_is_said(document: Config, found: tuple[str, str]) -> None:
    base: Config = {
        "task": "serve", "model": {"config": llama()}, "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "runtime": {"name": "vllm"},
    }  # fmt: skip
    asked = Scenario.model_validate(base | document)
    assert found in not_modelled(asked, model_from_config(llama()))


def test_nothing_is_said_of_a_plain_question() -> None:
    assert not_modelled(serve(llama()).resolved, model_from_config(llama())) == []


def test_the_models_own_prediction_layers_are_counted_as_a_draft() -> None:
    with_mtp = DEEPSEEK_V3 | {"num_nextn_predict_layers": 1}
    settings: Config = {"count": 16, "parallel": {"tensor": 16}, "weights": "fp8"}
    draft = serve(with_mtp, speculative="mtp", **settings)
    plain = serve(with_mtp, **settings)
    assert plain.devices[0].ledger.total("draft_weights") == 0
    assert draft.devices[0].ledger.total("draft_weights") > 0
    assert ("not_modelled", "serving.speculative") not in {(i.code, i.field) for i in draft.issues}


# --- device_map


def spread(devices: list[Config]) -> Plan:
    asked = scenario(llama(), "transformers", devices=devices, max_model_len=4096)
    return plan(asked.model_copy(update={"loading": Loading(method="device_map")}), tables())


def test_device_map_divides_layers_by_memory() -> None:
    made = spread([{"gpu": "l40s-48gb"}, {"gpu": "rtx-4090-24gb"}])
    assert [last - first for first, last in (device.layers for device in made.devices)] == [21, 11]
    whole = serve(llama(), "transformers", max_model_len=4096).devices[0].ledger
    assert sum(d.ledger.total("kv_cache") for d in made.devices) == whole.total("kv_cache")


def test_without_device_map_every_card_holds_the_model() -> None:
    made = serve(llama(), "transformers", count=2, max_model_len=4096)
    assert [device.layers for device in made.devices] == [(0, 32)]
    assert made.devices[0].indices == (0, 1)


@given(st.integers(1, 60), st.lists(st.integers(1, 100), min_size=1, max_size=12))
def test_every_layer_is_dealt_out_once(total: int, sizes: list[int]) -> None:
    counts = _divided(max(total, len(sizes)), sizes)
    assert sum(counts) == max(total, len(sizes))
    assert all(count >= 1 for count in counts)
