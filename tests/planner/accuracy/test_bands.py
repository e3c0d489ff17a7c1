"""Which row of the band table answers, and what its interval is."""

from dataclasses import replace

import pytest

from hardware_db import load_tables
from planner.accuracy.bands import band_for, basis_order, nearest_row, with_floor
from planner.hardware import Band
from planner.ledger import ALWAYS, SERVING_PHASES, Category, Entry, Ledger, make_ledger
from planner.plan_types import PeakBand
from planner.scenario import Scenario

TABLES = load_tables()


def band(runtime: str, task: str, low: float, high: float, n_rows: int = 10) -> Band:
    return Band(
        runtime=runtime,
        task=task,
        layer="device",
        n_rows=n_rows,
        low_frac=low,
        high_frac=high,
        made_on="2026-01-01",
        source="made up",
    )


def scenario(runtime: str, task: str) -> Scenario:
    return Scenario.model_validate(
        {
            "task": task,
            "runtime": {"name": runtime},
            "model": {"id": "a/b"},
            "hardware": {"devices": [{"gpu": "unknown"}]},
        }
    )


ROWS = (
    band("torchtune", "lora", 0.9, 1.1),
    band("*", "lora", 0.8, 1.2, 20),
    band("*", "train", 0.5, 2.0, 99),
    band("*", "serve", 0.7, 1.3),
)


@pytest.mark.parametrize(
    ("runtime", "task", "basis", "low", "high"),
    [
        ("torchtune", "lora", "runtime_task", 900, 1100),
        ("unsloth", "lora", "task", 800, 1200),
        ("torchtune", "qlora", "all", 500, 2000),
        ("vllm", "serve", "task", 700, 1300),
    ],
)
def test_the_nearest_row_answers(runtime: str, task: str, basis: str, low: int, high: int) -> None:
    found = band_for(1000, scenario(runtime, task), replace(TABLES, bands=ROWS))
    assert found is not None
    assert (found.basis, found.low_bytes, found.high_bytes) == (basis, low, high)


def test_serving_never_borrows_from_training_nor_the_other_way_round() -> None:
    training = replace(TABLES, bands=ROWS[:3])
    serving = replace(TABLES, bands=ROWS[3:])
    assert band_for(1000, scenario("vllm", "serve"), training) is None
    assert band_for(1000, scenario("torchtune", "lora"), serving) is None


def test_no_rows_no_band() -> None:
    assert band_for(1000, scenario("torchtune", "lora"), replace(TABLES, bands=())) is None


def test_the_order_ends_with_the_kind_of_job() -> None:
    assert basis_order("vllm", "serve")[-1] == ("task", "*", "serve")
    assert basis_order("litgpt", "full")[-1] == ("all", "*", "train")


def test_runs_read_at_the_allocator_make_a_wider_band_of_the_device() -> None:
    def row(runtime: str, task: str, layer: str, low: float, high: float) -> Band:
        return replace(band(runtime, task, low, high), layer=layer)

    rows = (
        row("litgpt", "lora", "allocated", 0.9, 1.1),
        row("*", "train", "beyond", 0.8, 1.2),
        row("*", "lora", "device", 0.5, 2.0),
    )
    tables = replace(TABLES, bands=rows)
    found = band_for(1000, scenario("litgpt", "lora"), tables)
    assert found is not None
    assert (found.basis, found.low_bytes, found.high_bytes) == ("runtime_task", 781, 1228), (
        "exp of the root of the squares of ln 0.9 and ln 0.8; the same of 1.1 and 1.2"
    )
    unnamed = band_for(1000, scenario("litgpt", "lora"), tables, "unnamed")
    assert unnamed is not None
    assert unnamed.low_bytes == 781, "of a tool not named no row says anything, so the device's answers"
    inner = band_for(1000, scenario("litgpt", "lora"), tables, "allocated")
    assert inner is not None
    assert (inner.low_bytes, inner.high_bytes) == (900, 1100)
    other = band_for(1000, scenario("unsloth", "lora"), tables)
    assert other is not None
    assert (other.basis, other.low_bytes) == ("task", 500)


def test_a_peak_of_a_tool_not_named_is_no_better_known_for_what_the_allocator_was_read_at() -> None:
    rows = (
        replace(band("litgpt", "lora", 0.99, 1.01), layer="allocated"),
        replace(band("*", "train", 0.9, 1.1), layer="beyond"),
        replace(band("*", "train", 0.5, 2.0), layer="unnamed"),
    )
    found = nearest_row("litgpt", "lora", replace(TABLES, bands=rows), "unnamed")
    assert found is not None
    assert (found[0], found[1].low_frac) == ("all", 0.5)


def test_weights_set_a_floor() -> None:
    def weights(size: int, *, estimate: bool) -> Ledger:
        entry = Entry(
            Category.WEIGHTS, "weights_mlp", size, ALWAYS, "P", (("P", size),), "hf_config", estimate=estimate
        )  # fmt: skip
        return make_ledger([entry], SERVING_PHASES)

    band = PeakBand(600, 1400, 0.9, 30, "task")
    assert with_floor(band, weights(900, estimate=False)) == PeakBand(900, 1400, 0.9, 30, "task")
    assert with_floor(band, weights(500, estimate=False)) == band
    assert with_floor(band, weights(900, estimate=True)) == band
    assert with_floor(None, weights(900, estimate=False)) is None
