"""Cards that the user describes (SEEDS E4): HBM3e of 141 to 288 GB, links of 900 to 1800 GB/s."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.cards import gpu_at, gpu_of
from planner.estimate import plan
from planner.hardware import gpu_for
from planner.issues import ScenarioError
from planner.link import decode, encode
from planner.plan_types import Verdict
from planner.scenario import Device, OwnCard, Scenario
from planner.throughput.training_speed import training_speed
from planner.units import GB, gib_bytes

FULL: dict[str, Any] = {
    "memory_gib": 288,
    "bandwidth_gb_per_s": 8000,
    "bf16_tflops": 2500,
    "link_gb_per_s": 1800,
    "power_w": 1200,
}


def asked(card: dict[str, Any] | None, name: str = "next card", **parallel: Any) -> Scenario:
    row = {"gpu": name, "count": 4} | ({} if card is None else {"card": card})
    return Scenario.model_validate(
        {
            "version": 1,
            "task": "full",
            "model": {"id": "meta-llama/Llama-2-70b-hf"},
            "hardware": {"devices": [row]},
            "training": {"micro_batch": 1, "sequence_length": 2048, "checkpointing": "full"},
            "parallel": {"sharding": "fsdp", **parallel},
        }
    )


@pytest.mark.parametrize(("memory_gib", "verdict"), [(130, Verdict.DOES_NOT_FIT), (288, Verdict.FITS)])
def test_memory_of_the_described_card_decides(memory_gib: float, verdict: Verdict) -> None:
    found = plan(asked({"memory_gib": memory_gib}), load_tables())
    assert found.worst.gpu_name == "next card"
    kept = 1 - (found.worst.usable_bytes or 0) / gib_bytes(memory_gib)
    assert 0.007 < kept < 0.011
    assert found.verdict is verdict


def test_a_faster_described_link_shortens_the_step() -> None:
    tables = load_tables()
    steps = [
        training_speed(plan(asked(FULL | {"link_gb_per_s": link}), tables), tables).step_time_s
        for link in (900, 1800)
    ]
    assert steps[0] is not None
    assert steps[1] is not None
    assert steps[1] < steps[0]


def test_what_is_not_told_is_unknown_and_named() -> None:
    tables = load_tables()
    speed = training_speed(plan(asked({"memory_gib": 288}), tables), tables)
    assert speed.step_time_s is None
    assert {each.code for each in speed.missing} >= {"no_peak_rate", "no_bandwidth", "no_power_limit"}


def test_a_card_like_another_takes_its_other_figures() -> None:
    tables = load_tables()
    gpu = gpu_of(Device(gpu="mine", card=OwnCard(memory_gib=288, like="h200-sxm-141gb")), tables)
    base = gpu_for("h200-sxm-141gb", tables)
    assert gpu.memory_nominal_bytes == gib_bytes(288)
    assert gpu.bandwidth_bytes_per_s == base.bandwidth_bytes_per_s
    assert (gpu.arch, gpu.flops) == (base.arch, base.flops)
    assert gpu.list_price is None


def test_units_of_the_description() -> None:
    gpu = gpu_of(Device(gpu="mine", card=OwnCard(**FULL)), load_tables())
    assert gpu.bandwidth_bytes_per_s == 8000 * GB
    assert gpu.interconnect_bytes_per_s == 900 * GB
    assert gpu.flops.of("bf16") == gpu.flops.of("fp16") == 2.5e15
    assert gpu.flops.of("fp8") is None


def test_a_reading_of_memory_still_overrides() -> None:
    row = Device(gpu="mine", card=OwnCard(memory_gib=288), memory_bytes=gib_bytes(200))
    assert gpu_of(row, load_tables()).usable_bytes == gib_bytes(200)


@pytest.mark.parametrize(
    ("name", "card", "code", "field"),
    [
        ("h200-sxm-141gb", {"memory_gib": 288}, "card_name_taken", "hardware.devices.0.gpu"),
        ("generic-24gb", {"memory_gib": 24}, "card_name_taken", "hardware.devices.0.gpu"),
        ("mine", {"memory_gib": 288, "like": "h300"}, "gpu_unknown", "hardware.devices.0.card.like"),
    ],
)
def test_names_that_cannot_be(name: str, card: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        plan(asked(card, name), load_tables())
    assert (caught.value.issues[0].code, caught.value.issues[0].field) == (code, field)


def test_a_link_carries_the_description() -> None:
    question = asked(FULL)
    again, issues = decode(encode(question))
    assert not issues
    assert again == question
    assert gpu_at(3, question.hardware, load_tables()).memory_nominal_gb == 288
