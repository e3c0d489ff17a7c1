"""Speed of training steps."""

from dataclasses import replace

import pytest

from planner.scenario import Runtime
from planner.throughput.training_flops import writes_scores
from planner.throughput.training_speed import TrainingSpeed, training_speed
from planner.throughput.training_time import runtime_key, step_parts, training_rates
from planner.throughput.training_work import bubble_frac, training_work
from tests.planner.throughput.cases import TABLES, made, serving, training


def speed(**job: object) -> TrainingSpeed:
    return training_speed(made(training(**job)), TABLES)  # type: ignore[arg-type]


def part(found: TrainingSpeed, name: str) -> float:
    return sum(item.time_s for item in found.parts if item.name == name)


def test_parts_add_up_to_the_step_and_the_band_holds_it() -> None:
    found = speed()
    assert found.step_time_s is not None
    assert found.band is not None
    assert sum(item.time_s for item in found.parts) == pytest.approx(found.step_time_s)
    assert found.band.low_s < found.step_time_s < found.band.high_s
    assert found.tokens_per_s == pytest.approx(found.step_tokens / found.step_time_s)
    assert found.bound == "matrix_products"


def test_no_step_beats_the_peak_rate() -> None:
    for gpu in ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb", "rtx-4090-24gb"):
        found = speed(gpu=gpu)
        assert found.hfu is not None
        assert 0.05 < found.hfu < 1


def test_bubble_of_each_schedule() -> None:
    others = 3.0
    assert bubble_frac("1f1b", others, 12, 1) == pytest.approx(3 / 12)
    assert bubble_frac("gpipe", others, 12, 1) == pytest.approx(3 / 12)
    assert bubble_frac("interleaved", others, 12, 3) == pytest.approx(1 / 12)
    assert bubble_frac("zero_bubble", others, 12, 1) == pytest.approx(1 / 12)
    assert bubble_frac("naive", others, 12, 1) == 3


def test_more_micro_batches_shrink_the_bubble() -> None:
    few, many = (speed(parallel={"pipeline": 4, "tensor": 2}, gradient_accumulation=m) for m in (4, 64))
    assert few.step_time_s is not None
    assert many.step_time_s is not None
    assert part(few, "pipeline_bubble") / few.step_time_s > 0.3
    assert part(many, "pipeline_bubble") / many.step_time_s < 0.06


def test_tensor_parallelism_over_pcie_costs_more_than_over_the_fabric() -> None:
    fabric = speed(parallel={"tensor": 8})
    pcie = speed(parallel={"tensor": 8}, hardware={"links": {"intra_node": "pcie5_x16"}})
    assert part(pcie, "tensor_parallel") > 3 * part(fabric, "tensor_parallel") > 0


def test_machines_of_one_card_each_have_no_fabric_between_them() -> None:
    one = speed(parallel={"tensor": 8})
    apart = speed(parallel={"tensor": 8}, hardware={"devices_per_node": 1})
    assert one.network_bytes == 0
    assert apart.network_bytes is not None
    assert apart.network_bytes > 0
    assert part(apart, "tensor_parallel") > 3 * part(one, "tensor_parallel")


def test_a_slow_network_shows_in_the_waiting() -> None:
    fast, slow = (
        speed(cards=64, parallel={"sharding": "fsdp"}, hardware={"links": {"inter_node_gbit": rate}})
        for rate in (3200, 25)
    )
    assert fast.communication_frac is not None
    assert slow.communication_frac is not None
    assert fast.communication_frac < 0.3
    assert slow.communication_frac > 0.5
    assert slow.network_bytes == pytest.approx(fast.network_bytes)


def test_offloaded_states_pass_the_host_link() -> None:
    job = {"sharding": "zero3", "offload": {"optimizer": "cpu"}}
    kept, moved = speed(parallel={"sharding": "zero3"}), speed(parallel=job)
    assert part(kept, "host_transfers") == 0
    assert part(moved, "host_transfers") > 0
    assert part(moved, "optimizer_step") == 0


def test_a_disk_needs_a_rate() -> None:
    job = {"sharding": "zero3", "offload": {"optimizer": "nvme"}}
    assert [item.code for item in speed(parallel=job).missing] == ["no_disk_rate"]
    known = speed(parallel=job, hardware={"links": {"nvme_gb_per_s": 7}})
    assert known.step_time_s is not None
    assert part(known, "host_transfers") > part(
        speed(parallel={**job, "offload": {"optimizer": "cpu"}}), "host_transfers"
    )


def test_what_the_table_lacks_is_said_and_nothing_is_guessed() -> None:
    gpu = replace(TABLES.gpus["h100-sxm-80gb"], tdp_w=None, bandwidth_bytes_per_s=None)
    tables = replace(TABLES, gpus={**TABLES.gpus, gpu.id: gpu})
    found = training_speed(made(training()), tables)
    assert found.step_time_s is None
    assert found.band is None
    assert [item.code for item in found.missing] == ["no_power_limit", "no_bandwidth"]
    assert found.step_tokens > 0


def test_fp8_needs_a_rate() -> None:
    found = speed(gpu="a100-sxm-80gb", precision={"fp8": "tensorwise"})
    assert (found.missing[0].code, found.missing[0].params) == ("no_peak_rate", (("dtype", "fp8"),))


def test_a_server_has_no_training_speed() -> None:
    with pytest.raises(ValueError, match="task: serve"):
        training_speed(made(serving()), TABLES)


def test_names_of_runtimes() -> None:
    assert runtime_key(Runtime(name="torchtitan")) == "torchtitan"
    assert runtime_key(Runtime(name="megatron_lm", version="2021-05")) == "megatron_lm"
    assert (
        runtime_key(Runtime(name="megatron_lm", version="Megatron-Bridge 26.06"))
        == "megatron_lm_megatron_bridge"
    )
    assert runtime_key(Runtime(name="generic", version="llm.q")) == "generic_llm_q"


def test_unequal_cards_share_one_mfu() -> None:
    devices = [{"gpu": "a100-sxm-80gb", "count": 1}, {"gpu": "rtx-3090-24gb", "count": 1}]
    job = training("meta-llama/Llama-2-7b-hf", cards=2, gradient_accumulation=8, parallel={"pipeline": 2})
    job["hardware"] = {"devices": devices, "devices_per_node": 2}
    found = training_speed(made(job), TABLES)
    assert found.mfu is not None
    assert found.step_time_s is not None
    rates = [TABLES.gpus[str(row["gpu"])].flops.bf16 or 0 for row in devices]
    assert found.mfu == pytest.approx(found.model_flops / sum(rates) / found.step_time_s)
    assert found.mfu < 0.5


def test_stages_hand_on_activations_unless_they_are_interleaved() -> None:
    def handed_on(**parallel: int) -> float:
        job = training("meta-llama/Llama-2-70b-hf", cards=16, gradient_accumulation=16)
        job |= {"runtime": {"name": "megatron_lm"}, "parallel": {"tensor": 8, "pipeline": 2, **parallel}}
        job["hardware"]["links"] = {"inter_node_gbit": 100}
        parts = {part.name: part.time_s for part in training_speed(made(job), TABLES).parts}
        return parts.get("stage_transfers", 0.0)

    sent = 16 * 2 * 4096 * 8192 * 2 / 8
    assert handed_on() > sent / (100e9 / 8 / 8)
    assert handed_on(virtual_stages=2) == 0


def test_old_megatron_reduces_after_the_last_backward_pass() -> None:
    def waiting(version: str) -> float:
        job = training(micro_batch=4) | {
            "runtime": {"name": "megatron_lm", "version": version},
            "parallel": {},
        }
        parts = {part.name: part.time_s for part in training_speed(made(job), TABLES).parts}
        return parts["data_parallel"]

    assert waiting("2021-05") > 3 * waiting("Megatron-Bridge 26.06")


def test_scores_went_through_memory_before_flash_attention() -> None:
    assert writes_scores("eager", None)
    assert writes_scores("flash", "Megatron-DeepSpeed 2022-02")
    assert not writes_scores("flash", "mcore 2026-08")
    assert not writes_scores("flash", None)


def test_kernels_made_for_the_card_run_attention_at_its_rate() -> None:
    def attention(version: str | None, gpu: str) -> float:
        job = training(gpu=gpu, sequence_length=8192)
        job |= {"runtime": {"name": "megatron_lm", "version": version}, "parallel": {}}
        parts = {part.name: part.time_s for part in training_speed(made(job), TABLES).parts}
        return parts["attention"] / parts["matrix_products"]

    assert attention(None, "h100-sxm-80gb") > 1.2 * attention("mcore 2026-08", "h100-sxm-80gb")
    assert attention(None, "a100-sxm-80gb") == pytest.approx(attention("mcore 2026-08", "a100-sxm-80gb"))


def test_consumer_cards_run_above_their_rating() -> None:
    work, _, _ = training_work(made(training(cards=1, gpu="rtx-4090-24gb", parallel={})), TABLES)
    assert work is not None
    assert work.peak == pytest.approx(165.2e12 * 1.08, rel=0.001)


def test_what_is_computed_again_is_a_part_of_its_own() -> None:
    def parts(checkpointing: str) -> dict[str, float]:
        found = training_speed(made(training(checkpointing=checkpointing)), TABLES)
        return {part.name: part.time_s for part in found.parts}

    plain, full = parts("none"), parts("full")
    assert "recompute" not in plain
    for name in ("matrix_products", "attention", "memory_traffic"):
        assert full[name] == pytest.approx(plain[name])
    forward = plain["matrix_products"] / 3 + plain["attention"] / 3.5 + plain["memory_traffic"] / 3
    assert full["recompute"] == pytest.approx(forward, rel=0.15)


def test_products_of_experts_are_slower_than_those_of_one_matrix() -> None:
    work, _, _ = training_work(made(training("mistralai/Mixtral-8x7B-v0.1", checkpointing="full")), TABLES)
    dense, _, _ = training_work(made(training()), TABLES)
    assert work is not None
    assert dense is not None
    assert 0.7 < work.full_expert_flops / work.full_flops < 1
    assert dense.full_expert_flops == 0
    rates = training_rates(TABLES)
    alike = step_parts(work, replace(rates, expert_slow=0.0))
    slow = step_parts(work, rates)
    assert slow.matrix_products > 1.2 * alike.matrix_products
    assert slow.recompute > alike.recompute
    assert slow.attention == alike.attention
