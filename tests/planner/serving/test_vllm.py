"""vLLM: the budget, what it holds, and when the engine refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.ledger import Category
from planner.memory.serving_graphs import capture_sizes
from planner.memory.serving_vllm import switched
from planner.serving.readings import serving_readings
from planner.units import GIB, MIB
from tests.planner.serving.cases import (
    DEEPSEEK_V3,
    QWEN25_HALF_B,
    Config,
    gpt_oss,
    llama,
    serve,
    tables,
    truth,
)

if TYPE_CHECKING:
    from planner.plan_types import Plan

CARD = 85_029_615_043
LOGGED: Config = {
    "weights": "bf16", "kv_cache": "bf16", "max_model_len": 8192, "max_sequences": 1024,
    "batched_tokens": 8192, "memory_utilization": 0.95, "cuda_graph_max_batch": 512,
}  # fmt: skip


def logged(**changes: object) -> Plan:
    devices = [{"gpu": "h100-sxm-80gb", "count": 1, "memory_bytes": CARD}]
    return serve(llama(), version="0.19.0", devices=devices, **(LOGGED | changes))


def test_the_budget_is_spent_to_the_byte() -> None:
    plan = logged()
    readings = serving_readings(plan, 0)
    parts = ("weights_bytes", "activation_peak_bytes", "non_torch_bytes", "kv_bytes")
    assert sum(readings[name] for name in parts) == int(CARD * 0.95)
    assert plan.serving is not None
    assert plan.serving.budget_bytes == int(CARD * 0.95)


def test_figures_of_a_published_log() -> None:
    """Llama-3.1-8B on 0.19: 14.99 GiB, 476016 tokens in 29751 blocks, 58.11 sequences of 8192."""
    readings = serving_readings(logged(), 0)
    assert readings["weights_bytes"] / GIB == pytest.approx(14.99, abs=0.005)
    assert readings["kv_tokens"] == pytest.approx(476_016, rel=2e-3)
    assert readings["kv_blocks"] * 16 == readings["kv_tokens"]
    assert readings["max_concurrency"] == pytest.approx(58.11, rel=2e-3)
    assert readings["max_concurrency"] == readings["kv_blocks"] / 512


@pytest.mark.parametrize("longest", [2048, 16384, 32768])
def test_the_pool_does_not_depend_on_the_longest_sequence(longest: int) -> None:
    assert (
        serving_readings(logged(max_model_len=longest), 0)["kv_bytes"]
        == serving_readings(logged(), 0)["kv_bytes"]
    )


def test_an_fp8_cache_holds_twice_the_tokens() -> None:
    full, half = serving_readings(logged(), 0), serving_readings(logged(kv_cache="fp8"), 0)
    assert half["kv_tokens"] == pytest.approx(2 * full["kv_tokens"], abs=16)


def test_graphs_move_into_the_budget() -> None:
    """`envs.py` of 0.19.1 and 0.20.0."""
    before, after = (
        serve(llama(), version=version, **LOGGED, devices=[{"gpu": "h100-sxm-80gb", "memory_bytes": CARD}])
        for version in ("0.19.1", "0.20.0")
    )
    graphs = before.devices[0].ledger.total("cuda_graphs")
    lost = serving_readings(before, 0)["kv_bytes"] - serving_readings(after, 0)["kv_bytes"]
    assert lost == graphs > 0


@pytest.mark.parametrize(
    ("largest", "sizes"), [(0, 0), (1, 1), (4, 3), (8, 4), (256, 35), (512, 51), (1024, 83)]
)
def test_captured_batch_sizes(largest: int, sizes: int) -> None:
    """Logs: 35 sizes up to 256, 51 up to 512, 83 up to 1024."""
    assert capture_sizes(largest) == sizes


def test_no_graphs_when_eager() -> None:
    assert logged(cuda_graphs=False).devices[0].ledger.total("cuda_graphs") == 0


def test_sampler_of_a_full_batch_is_the_peak_and_shrinks_with_it() -> None:
    wide = logged(max_sequences=1024).devices[0].ledger.total("activation_peak")
    narrow = logged(max_sequences=64).devices[0].ledger.total("activation_peak")
    assert wide / GIB == pytest.approx(1.89, abs=0.02)  # logged
    assert narrow < wide


def test_sampler_before_017_held_more_copies() -> None:
    old = serve(llama(), version="0.11.0", max_sequences=1024, batched_tokens=8192).devices[0].ledger
    assert old.total("activation_peak") / GIB == pytest.approx(4.76, abs=0.05)  # logged


def test_only_the_last_stage_samples() -> None:
    plan = serve(llama(), count=4, parallel={"pipeline": 4}, version="0.19.0", **LOGGED)
    first, middle, _, last = (device.ledger.total("activation_peak") / MIB for device in plan.devices)
    assert last == pytest.approx(2058, rel=0.01)  # logged
    assert middle == pytest.approx(1075, rel=0.01)  # logged
    assert first <= middle < last


def test_joined_cards_hold_communication_buffers_only_where_nvlink_joins_them() -> None:
    nvlink = serve(llama(), count=2, parallel={"tensor": 2}, version="0.19.0").devices[0].ledger
    pcie = (
        serve(llama(), gpu="l40s-48gb", count=2, parallel={"tensor": 2}, version="0.19.0").devices[0].ledger
    )
    assert nvlink.total("non_torch") > 2 * GIB > GIB > pcie.total("non_torch")
    assert nvlink.by_category(nvlink.phases[-1])[Category.COMMUNICATION] == nvlink.total("non_torch")


@pytest.mark.parametrize(
    ("gpu", "joined"),
    [("h100-sxm-80gb", True), ("a100-sxm-80gb", True), ("rtx-3090-24gb", False), ("l4-24gb", False)],
)
def test_which_cards_come_joined(gpu: str, joined: bool) -> None:
    assert switched(tables().gpus[gpu]) is joined


# --- refusals


def test_a_sequence_of_the_longest_length_must_fit() -> None:
    """Qwen3-32B on an 80 GB card at 0.9: 16000 tokens start, 32000 don't (published)."""
    config = {
        "model_type": "qwen3", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 25600, "vocab_size": 151936,
        "tie_word_embeddings": False, "max_position_embeddings": 40960,
    }  # fmt: skip
    devices = [{"gpu": "h100-sxm-80gb", "memory_bytes": 85_018_877_624}]
    for longest, starts in ((16_000, True), (32_000, False)):
        plan = serve(config, version="0.11.0", devices=devices, max_model_len=longest)
        device = plan.worst
        assert device.usable_bytes is not None
        assert (device.peak_bytes <= device.usable_bytes) is starts
        assert device.usable_source == "engine"
        assert plan.serving is not None
        assert (plan.serving.concurrency >= 1) is starts


def test_a_busy_card_is_refused_whatever_is_asked() -> None:
    devices = [{"gpu": "h100-sxm-80gb", "memory_bytes": CARD, "free_bytes": CARD // 2}]
    v1 = serve(llama(), version="0.19.0", devices=devices)
    assert (v1.worst.usable_bytes, v1.worst.usable_source) == (0, "engine")
    v0 = serve(llama(), version="0.6.0", devices=devices)
    assert v0.worst.usable_bytes is not None
    assert v0.worst.usable_bytes > 0


def test_the_limit_turns_exactly_where_the_cache_no_longer_fits() -> None:
    """Peak <= limit if and only if the needed cache fits what the budget leaves."""
    for sequences in (40, 60, 80):
        load = {"concurrency": sequences, "prompt_tokens": 8000, "output_tokens": 192}
        plan = serve(llama(), version="0.19.0", workload=load, **LOGGED)
        device, answer = plan.worst, plan.serving
        assert answer is not None
        assert device.usable_bytes is not None
        fits = device.ledger.total("kv_cache") <= answer.kv_pool_bytes
        assert (device.peak_bytes <= device.usable_bytes) is fits
        assert (answer.concurrency >= sequences) is fits


def test_needs_and_reserves_are_told_apart() -> None:
    """A half-billion model needs little; the engine takes the share all the same (J095)."""
    plan = serve(QWEN25_HALF_B, gpu="rtx-4090-24gb", max_model_len=2048)
    answer = plan.serving
    assert answer is not None
    assert answer.budget_bytes is not None
    assert answer.needs_bytes < 6 * GIB < answer.budget_bytes <= answer.reserves_bytes


def test_unknown_cards_still_get_their_needs() -> None:
    plan = serve(llama(), gpu="unknown", max_model_len=4096)
    assert plan.serving is not None
    assert plan.serving.budget_bytes is None
    assert plan.serving.kv_pool_bytes == 4096 * 131_072


# --- versions


def test_old_versions_cached_decompressed_latents() -> None:
    """DeepSeek-V2 on 8 H100: 0.5.4 holds some 30 thousand tokens, later ones many times that."""
    old = serve(DEEPSEEK_V3, count=8, parallel={"tensor": 8}, version="0.5.4", max_model_len=4096).serving
    new = serve(DEEPSEEK_V3, count=8, parallel={"tensor": 8}, version="0.19.0", max_model_len=4096).serving
    assert old is not None
    assert new is not None
    assert old.kv_bytes_per_token == 61 * 16 * (192 + 128) * 2
    assert new.kv_bytes_per_token == 61 * 576 * 2


def test_the_first_generation_reads_whole_prompts_up_to_32k() -> None:
    """Published: 20 thousand fits, 29 thousand is tighter, 35 thousand is read in chunks and fits again."""
    pools = []
    for longest in (20_000, 29_000, 35_000):
        plan = serve(llama(), version="0.6.4", gpu="rtx-3090-24gb", max_model_len=longest)
        pools.append(serving_readings(plan, 0)["kv_bytes"])
    assert pools[1] < pools[0]
    assert pools[2] > pools[1]


def test_windows_save_on_long_sequences_only() -> None:
    answer = serve(gpt_oss(24, 32), weights="mxfp4", max_model_len=131_072, batched_tokens=8192).serving
    short = serve(gpt_oss(24, 32), weights="mxfp4", max_model_len=8192, batched_tokens=8192).serving
    assert answer is not None
    assert short is not None
    assert short.concurrency * 8192 < answer.concurrency * 131_072


def test_mixed_cards_are_limited_by_the_smaller() -> None:
    pair = [{"gpu": "rtx-4090-24gb"}, {"gpu": "l40s-48gb"}]
    mixed = serve(llama(), devices=pair, parallel={"tensor": 2}, max_model_len=4096).serving
    small = serve(llama(), gpu="rtx-4090-24gb", count=2, parallel={"tensor": 2}, max_model_len=4096).serving
    assert mixed is not None
    assert small is not None
    assert mixed.kv_tokens == small.kv_tokens
    assert mixed.concurrency == small.concurrency


def test_replicas_share_the_load() -> None:
    load = {"concurrency": 64, "prompt_tokens": 1000, "output_tokens": 24}
    one = serve(llama(), count=1, workload=load, max_model_len=4096)
    four = serve(llama(), count=4, workload=load, max_model_len=4096)
    assert four.devices[0].ledger.total("kv_cache") == one.devices[0].ledger.total("kv_cache") / 4
    assert four.serving is not None
    assert one.serving is not None
    assert four.serving.concurrency == 4 * one.serving.concurrency


@pytest.mark.parametrize(
    ("layers", "depth", "counts"),
    [(32, 4, [8, 8, 8, 8]), (33, 4, [8, 8, 9, 8]), (34, 4, [8, 9, 9, 8]), (35, 4, [9, 9, 9, 8])],
)
def test_uneven_stages_spare_the_last(layers: int, depth: int, counts: list[int]) -> None:
    config = llama(num_hidden_layers=layers)
    plan = serve(config, count=depth, parallel={"pipeline": depth}, max_model_len=4096)
    assert [last - first for first, last in (device.layers for device in plan.devices)] == counts


def test_later_versions_print_tokens_of_whole_sequences_for_hybrid_models() -> None:
    settings: Config = {"weights": "mxfp4", "max_model_len": 131_072}
    for version, by_sequence in (("0.19.0", False), ("0.21.0", True)):
        answer = serve(gpt_oss(24, 32), version=version, **settings).serving
        assert answer is not None
        assert (answer.kv_tokens == int(answer.concurrency * 131_072)) is by_sequence


def test_j045_a_405b_model_in_fp8_on_eight_cards_refuses_its_full_context() -> None:
    """Published: 79392 tokens of 38.2 GiB over the cards; 131072 would need 63 GiB.

    The engine of that time read prompts whole, so its working memory grew with the longest length.
    """
    record = next(r for r in truth("scenarios.jsonl") if r["id"] == "J045")
    config = llama(hidden_size=16384, num_hidden_layers=126, num_attention_heads=128, intermediate_size=53248)
    plan = serve(config, version="0.5.3", count=8, parallel={"tensor": 8}, weights="fp8")
    answer = plan.serving
    assert answer is not None
    tokens = record["expected"]["value"]
    assert 8 * answer.kv_bytes_per_token * tokens / GIB == pytest.approx(38.2, abs=0.1)
    assert 8 * answer.kv_bytes_per_token * 131_072 / GIB == pytest.approx(63, abs=0.1)
    assert answer.concurrency < 1
    assert answer.longest_context_tokens < 131_072
