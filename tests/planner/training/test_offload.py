"""Parameters, gradients and states in host memory or on disk: what still lies on the card, what the host pins."""

from typing import Any

import pytest

from planner.ledger import Entry, Phase
from planner.training.gaps import not_modelled
from planner.training.ledgers import host_need
from tests.planner.training import cases

ALL_AWAY = {"parameters": "cpu", "gradients": "cpu", "optimizer": "cpu"}
HEAD = 128256 * 4096
PARAMS = 8_030_261_248
LAYER = (PARAMS - 2 * HEAD - 4096) // 32


def entries(sharding: str, runtime: str, devices: int = 1) -> tuple[Entry, ...]:
    parallel = {"sharding": sharding, "offload": ALL_AWAY}
    return cases.ledger(
        cases.LLAMA_8B,
        devices=devices,
        runtime={"name": runtime},
        parallel=parallel,
        training={"sequence_length": 512},
    ).entries


def named(found: tuple[Entry, ...], name: str, phase: Phase) -> int:
    return sum(e.bytes for e in found if e.name == name and phase in e.phases)


def test_one_card_fetches_from_the_host_what_others_fetch_from_each_other() -> None:
    """ZeRO-3 on one card holds up to a thousand million elements beside the output matrix, as on many."""
    found = entries("zero3", "deepspeed")
    assert not [e for e in found if e.name.endswith("_weights")]
    assert named(found, "gathered_layers", Phase.FORWARD) == (1_000_000_000 + HEAD) * 2
    assert named(found, "gathered_layers", Phase.BACKWARD) == 1_050_000_000 * 2


@pytest.mark.parametrize("devices", [1, 8])
def test_fsdp_brings_units_to_the_card_one_by_one(devices: int) -> None:
    found = entries("fsdp", "hf_trainer", devices)
    assert not [e for e in found if e.name.endswith("_weights")]
    assert named(found, "gathered_layers", Phase.FORWARD) == 2 * LAYER * 2
    assert named(found, "gathered_root", Phase.LOSS) == (2 * HEAD + 4096) * 2


@pytest.mark.parametrize("sharding", ["zero3", "fsdp", "none"])
def test_what_comes_by_units_is_no_gap(sharding: str) -> None:
    blocks: dict[str, Any] = {
        "runtime": {"name": "generic"},
        "parallel": {"sharding": sharding, "offload": ALL_AWAY},
    }
    resolved, model, _ = cases.shares(cases.LLAMA_8B, **blocks)
    said = ("parallel.offload.parameters", "buffers_ignored") in not_modelled(resolved, model)
    assert said is (sharding == "none")


@pytest.mark.parametrize(
    ("devices", "parameters", "optimizer", "pinned"),
    [
        (1, "cpu", "nvme", 4 * 1_000_000_000 * 4),
        (16, "cpu", "nvme", 4 * (PARAMS // 16) * 4),
        (1, "nvme", "cpu", (5 * 100_000_000 + 1_000_000_000) * 2),
        (16, "nvme", "cpu", (5 * 100_000_000 + PARAMS // 16) * 2),
    ],
)
def test_reading_from_disk_pins_host_memory(
    devices: int, parameters: str, optimizer: str, pinned: int
) -> None:
    def memory(**offload: str) -> int:
        parallel = {"sharding": "zero3", "offload": offload}
        resolved, model, groups = cases.shares(
            cases.LLAMA_8B, devices=devices, runtime={"name": "deepspeed"}, parallel=parallel
        )
        return host_need(groups[0], resolved, model).memory_bytes

    moved = {"parameters": parameters, "optimizer": optimizer, "gradients": "none"}
    stays = {key: "none" if where == "nvme" else where for key, where in moved.items()}
    assert memory(**moved) - memory(**stays) == pinned


@pytest.mark.parametrize("runtime", ["deepspeed", "hf_trainer"])
@pytest.mark.parametrize(
    ("sharding", "offload", "where"),
    [
        ("zero3", {"optimizer": "cpu"}, "cpu"),
        ("zero2", {"optimizer": "nvme"}, "cpu"),
        ("zero1", {"optimizer": "cpu"}, "none"),
        ("zero3", {"optimizer": "cpu", "gradients": "none"}, "none"),
        ("zero3", {}, "none"),
    ],
)
def test_gradients_follow_the_optimizer_unless_asked(
    runtime: str, sharding: str, offload: dict[str, str], where: str
) -> None:
    parallel = {"sharding": sharding, "offload": offload}
    resolved, _, _ = cases.shares(cases.LLAMA_8B, runtime={"name": runtime}, parallel=parallel)
    assert resolved.parallel.offload.gradients == where
