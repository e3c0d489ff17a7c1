"""Ports and clocks of multiprocessors, and the tiles that products are computed in."""

from dataclasses import replace

import pytest

from planner.throughput.processors import pace, unit_cycles_per_s
from planner.throughput.serving_speed import serving_speed
from planner.throughput.serving_work import TILE_ROWS, server_of, tile_rows, token_work
from tests.planner.throughput.cases import TABLES, made, serving

A100, H20 = TABLES.gpus["a100-sxm-80gb"], TABLES.gpus["h20-sxm-96gb"]


def test_units_times_clock_follow_from_the_fp32_rate() -> None:
    assert unit_cycles_per_s(A100) == pytest.approx(108 * 1.41e9, rel=0.01)
    assert unit_cycles_per_s(TABLES.gpus["h100-sxm-80gb"]) == pytest.approx(132 * 1.98e9, rel=0.01)
    assert unit_cycles_per_s(replace(A100, flops=replace(A100.flops, fp32=None))) is None


def test_a_faster_clock_shortens_dependent_kernels() -> None:
    assert pace(A100) == 1
    assert pace(TABLES.gpus["rtx-4090-24gb"]) == pytest.approx(1.41 / 2.5)
    assert pace(TABLES.gpus["mi300x-192gb"]) == pytest.approx(1.41 / 1.7)


def test_a_tile_is_computed_whole() -> None:
    server = server_of(made(serving()), TABLES)
    one, full, more = (token_work(server, rows, 1.0).product_s for rows in (1.0, TILE_ROWS, 2.0 * TILE_ROWS))
    assert one == pytest.approx(full)
    assert more == pytest.approx(2 * full)
    packed = server_of(made(serving(weights="awq4")), TABLES)
    assert tile_rows(packed) == (16, 16)
    assert tile_rows(server_of(made(serving(runtime="llama_cpp")), TABLES)) == (1, 1)


def test_a_card_with_much_bandwidth_and_little_compute_is_bound_by_its_tiles() -> None:
    """An H20 reads a 32B model in 16 ms and takes three times that for a token, as published."""
    found = serving_speed(made(serving("Qwen/Qwen3-32B", gpu="h20-sxm-96gb", runtime="sglang")), TABLES)
    assert 0.038 < (found.tpot_s or 0) < 0.055
    assert {part.name: part.time_s for part in found.parts}["compute"] > 0.3 * (found.tpot_s or 0)
    other = serving_speed(made(serving("Qwen/Qwen3-32B", gpu="h200-sxm-141gb", runtime="sglang")), TABLES)
    assert "compute" not in {part.name for part in other.parts}
