"""Looking cards up, constants by name."""

import pytest

from planner.hardware import (
    Constant,
    Gpu,
    Tables,
    UnknownGpuError,
    cuda_context_bytes,
    gpu_for,
    has_gpu,
    usable_bytes_rule,
)
from planner.units import GIB

CARD = Gpu(
    id="card-24gb",
    name="Card",
    vendor="NVIDIA",
    arch="Hopper",
    usable_bytes=23 * GIB,
    usable_source="read",
    usable_rule="runtime_total",
    usable_recalled=True,
    interconnect_bidir_bytes_per_s=900e9,
)


def constant(name: str, value: float) -> Constant:
    return Constant(
        name=name, value=value, unit="bytes", how="told", versions="any", date="2026", source="a test"
    )


TABLES = Tables(
    gpus={CARD.id: CARD},
    constants={
        c.name: c
        for c in (
            constant("cuda_context_default_bytes", 400.0),
            constant("cuda_context_hopper_bytes", 500.0),
            constant("cuda_context_eager_bytes", 900.0),
        )
    },
)


def test_a_card_of_the_table() -> None:
    assert gpu_for("card-24gb", TABLES) is CARD
    assert CARD.interconnect_bytes_per_s == 450e9
    assert Gpu(id="x", name="x").interconnect_bytes_per_s is None


def test_memory_that_is_told_overrides_the_table() -> None:
    gpu = gpu_for("card-24gb", TABLES, 20 * GIB)
    assert (gpu.usable_bytes, gpu.usable_source, gpu.usable_rule) == (20 * GIB, "given", "given")
    assert not gpu.usable_recalled
    assert gpu.arch == "Hopper"
    assert CARD.usable_bytes == 23 * GIB


@pytest.mark.parametrize("size", [1, 6, 24, 80, 141])
def test_a_generic_card_has_its_size_in_gib(size: int) -> None:
    gpu = gpu_for(f"generic-{size}gb", TABLES)
    assert gpu.usable_bytes == gpu.memory_nominal_bytes == size * GIB
    assert gpu.vendor is None
    assert gpu.bandwidth_bytes_per_s is None
    assert gpu_for(f"generic-{size}gb", TABLES, 7).usable_bytes == 7


def test_an_unknown_card_has_no_size_unless_told() -> None:
    assert gpu_for("unknown", TABLES).usable_bytes is None
    assert gpu_for("unknown", TABLES, GIB).usable_bytes == GIB


@pytest.mark.parametrize(
    "gpu_id", ["", "h100", "generic-0gb", "generic-gb", "generic-24", "generic-99999gb", "UNKNOWN"]
)
def test_other_ids_are_refused_by_name(gpu_id: str) -> None:
    assert not has_gpu(gpu_id, TABLES)
    with pytest.raises(UnknownGpuError, match="unknown GPU") as caught:
        gpu_for(gpu_id, TABLES)
    assert caught.value.gpu_id == gpu_id
    assert "generic-24gb" in str(caught.value)


@pytest.mark.parametrize("gpu_id", ["card-24gb", "generic-24gb", "unknown"])
def test_has_gpu_agrees_with_gpu_for(gpu_id: str) -> None:
    assert has_gpu(gpu_id, TABLES)
    assert gpu_for(gpu_id, TABLES).id == gpu_id


def test_a_constant_by_name() -> None:
    assert TABLES.value("cuda_context_hopper_bytes") == 500
    with pytest.raises(LookupError, match="no constant 'nccl'; known: cuda_context_default_bytes"):
        TABLES.value("nccl")


def test_the_cuda_context_of_an_architecture_else_of_any() -> None:
    assert cuda_context_bytes(CARD, TABLES) == 500
    assert cuda_context_bytes(Gpu(id="x", name="x", vendor="NVIDIA", arch="Volta"), TABLES) == 400
    assert cuda_context_bytes(gpu_for("generic-24gb", TABLES), TABLES) == 400
    assert cuda_context_bytes(CARD, TABLES, lazy_loading=False) == 900
    assert cuda_context_bytes(Gpu(id="x", name="x", vendor="AMD"), TABLES) is None


def test_the_usable_rule_takes_a_base_and_a_share() -> None:
    assert usable_bytes_rule(1000, base_bytes=50, reserve_frac=0.01) == 940
    assert isinstance(usable_bytes_rule(1000, base_bytes=0.5, reserve_frac=0.0079), int)


def test_tables_are_told_apart_by_identity() -> None:
    other = Tables(gpus=TABLES.gpus)
    assert other != Tables(gpus=TABLES.gpus)
    assert len({other, TABLES}) == 2
