"""Speed of servers."""

from dataclasses import replace
from typing import Any

import pytest

from planner.throughput.serving_speed import serving_speed, speed_by_concurrency
from planner.throughput.serving_work import server_of, token_work, touched_frac
from tests.planner.throughput.cases import TABLES, made, serving, training


def test_a_token_reads_every_weight_but_the_embedding() -> None:
    plan = made(serving())
    work = token_work(server_of(plan, TABLES), 1.0, 1024.0)
    read = (plan.model.params_total - plan.model.embedding_params) * 2
    assert work.weight_s * 3.35e12 == pytest.approx(read, rel=0.001)
    assert work.kv_s * 3.35e12 == pytest.approx(1024 * 2 * 8 * 128 * 2 * 32, rel=0.001)


def test_parts_add_up_and_the_bound_is_the_weights() -> None:
    found = serving_speed(made(serving()), TABLES)
    assert found.tpot_s is not None
    assert found.tpot_band is not None
    assert sum(item.time_s for item in found.parts) == pytest.approx(found.tpot_s)
    assert found.bound == "weights_read"
    assert found.tpot_band.low_s < found.tpot_s < found.tpot_band.high_s


def test_concurrency_raises_throughput_and_slows_each_answer() -> None:
    table = speed_by_concurrency(made(serving()), TABLES, (1, 8, 64))
    rates = [item.output_tokens_per_s or 0 for item in table]
    steps = [item.tpot_s or 0 for item in table]
    assert rates == sorted(rates)
    assert steps == sorted(steps)
    assert rates[1] > 4 * rates[0]


def test_what_the_pool_cannot_hold_waits() -> None:
    plan = made(serving(load={"concurrency": 2000, "prompt_tokens": 7000, "output_tokens": 500}))
    assert plan.serving is not None
    found = serving_speed(plan, TABLES)
    assert found.load.running == pytest.approx(plan.serving.concurrency)
    assert found.load.waves == pytest.approx(2000 / plan.serving.concurrency)


def test_quantized_weights_are_read_faster() -> None:
    full, packed = (serving_speed(made(serving(weights=w)), TABLES).tpot_s or 0 for w in ("bf16", "awq4"))
    assert 0.25 * full < packed < 0.7 * full


def test_a_mixture_reads_the_experts_its_batch_visits() -> None:
    assert touched_frac(8, 2, 1) == pytest.approx(0.25)
    assert touched_frac(8, 2, 4) == pytest.approx(1 - 0.75**4)
    assert touched_frac(0, 0, 4) == 0
    server = server_of(made(serving("mistralai/Mixtral-8x7B-v0.1", cards=2)), TABLES)
    one, many = token_work(server, 1.0, 1.0).weight_s, token_work(server, 64.0, 1.0).weight_s
    assert 2.5 < many / one < 4


def test_eager_engines_wait_for_launches() -> None:
    small = "Qwen/Qwen2.5-0.5B"
    found = serving_speed(made(serving(small, runtime="transformers")), TABLES)
    assert found.bound == "launches"


def test_a_card_without_bandwidth_has_no_speed() -> None:
    found = serving_speed(made(serving(gpu="generic-80gb")), TABLES)
    assert found.tpot_s is None
    assert found.missing[0].code == "no_bandwidth"


def test_a_card_without_a_peak_rate_still_decodes() -> None:
    gpu = replace(TABLES.gpus["h100-sxm-80gb"], tdp_w=None)
    tables = replace(TABLES, gpus={**TABLES.gpus, gpu.id: gpu})
    found = serving_speed(made(serving()), tables)
    assert found.tpot_s is not None
    assert found.ttft_s is None
    assert found.output_tokens_per_s is None
    assert [item.code for item in found.missing] == ["no_power_limit"]


def test_a_draft_model_is_said_to_be_left_out() -> None:
    assert serving_speed(made(serving(speculative="draft")), TABLES).speculative_left_out


def test_offline_beats_one_at_a_time() -> None:
    queued = serving_speed(made(serving(load={"prompt_tokens": 1024, "output_tokens": 256})), TABLES)
    single = serving_speed(made(serving()), TABLES)
    assert queued.load.is_offline
    assert queued.request_latency_s is None
    assert (queued.output_tokens_per_s or 0) > 10 * (single.output_tokens_per_s or 0)


def test_a_training_job_has_no_serving_speed() -> None:
    with pytest.raises(ValueError, match="task: full"):
        serving_speed(made(training()), TABLES)


@pytest.mark.parametrize(
    ("settings", "known"),
    [
        ({"gpu_layers": 33}, True),
        ({"gpu_layers": 20}, False),
        ({"no_kv_offload": True}, False),
        ({}, True),
    ],
)
def test_what_stays_on_the_host_has_no_time(settings: dict[str, Any], known: bool) -> None:
    found = serving_speed(made(serving(runtime="llama_cpp", weights="q4_k_m", **settings)), TABLES)
    assert (found.tpot_s is not None) is known
    assert ("no_host_memory_rate" in {item.code for item in found.missing}) is not known
