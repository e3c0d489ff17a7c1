"""A sweep gives what a plan gives for each point: bytes, verdict, phase, components."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.records import load
from hardware_db import load_tables
from planner.accuracy.truth import Record
from planner.estimate import SEVERITY, plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.ledger import Phase
from planner.scenario import Scenario
from planner.sweep import Sweep, sweep
from planner.sweep.grid import REFUSED, UNKNOWN_BYTES
from planner.sweep.region import DeviceProgram, Planner, compiled
from planner.validation import parse_scenario

ROOT = Path(__file__).parents[3]
TABLES = load_tables()
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))
BATCHES = (1, 2, 3, 8, 64)
LENGTHS = (96, 1000, 1024, 4096, 16384)
CONTEXTS = (500, 2048, 5000, 32768)
LOADS = (1, 2, 7, 64, 300)
EVERY = 37
"""Of the published training runs, one in so many is swept."""
RUNS = [record for record in load(("training.jsonl", "training_fits.jsonl")) if record.scenario][::EVERY]


def _example(path: Path) -> Scenario:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if document["task"] == "serve":
        document.setdefault("workload", {}).setdefault("concurrency", 4)
        document.setdefault("serving", {}).setdefault("max_model_len", 8192)
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return scenario


def _put(scenario: Scenario, sizes: Mapping[tuple[str, str], int]) -> Scenario:
    for (block, name), size in sizes.items():
        part = getattr(scenario, block)
        scenario = scenario.model_copy(update={block: part.model_copy(update={name: size})})
    return scenario


def _check_point(found: Sweep, i: int, j: int, scenario: Scenario) -> None:
    try:
        one = plan(scenario, TABLES)
    except ScenarioError:
        assert found.verdicts[i, j] == REFUSED
        return
    worst = one.worst
    assert found.peak_bytes[i, j] == worst.peak_bytes
    assert found.verdicts[i, j] == SEVERITY.index(one.verdict)
    headroom = UNKNOWN_BYTES if worst.headroom_bytes is None else worst.headroom_bytes
    assert found.headroom_bytes[i, j] == headroom
    assert tuple(Phase)[found.phases[i, j]] == worst.peak_phase
    parts = {category: int(sizes[i, j]) for category, sizes in found.categories.items() if sizes[i, j]}
    assert parts == worst.ledger.by_category(worst.peak_phase)


def _check(scenario: Scenario, rows: Sequence[int], columns: Sequence[int]) -> None:
    row, column = ("micro_batch", "sequence_length")
    fields = (("training", row), ("training", column))
    if not scenario.is_training:
        row, column = ("max_model_len", "concurrency")
        fields = (("serving", row), ("workload", column))
    found = sweep(scenario, TABLES, (row, rows), (column, columns))
    for i, x in enumerate(rows):
        for j, y in enumerate(columns):
            _check_point(found, i, j, _put(scenario, {fields[0]: x, fields[1]: y}))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples(path: Path) -> None:
    scenario = _example(path)
    _check(scenario, *((BATCHES, LENGTHS) if scenario.is_training else (CONTEXTS, LOADS)))


@pytest.mark.parametrize("record", RUNS, ids=lambda record: record.id)
def test_published_runs(record: Record) -> None:
    assert record.scenario is not None
    _check(record.scenario, BATCHES, LENGTHS)


def test_what_a_plan_leaves_out_of_clips_is_no_fit_in_the_grid_either() -> None:
    document = {
        "version": 1,
        "task": "lora",
        "model": {"id": "genmo/mochi-1-preview"},
        "hardware": {"devices": [{"gpu": "h200-sxm-141gb"}]},
        "training": {"micro_batch": 1, "sequence_length": 4352},
        "adapter": {"rank": 16},
    }
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    _check(scenario, (1, 2), (4352, 17408))


def test_the_components_add_up_to_the_peak() -> None:
    found = sweep(
        _example(ROOT / "examples" / "llama-3.1-8b-lora-rtx4090.json"),
        TABLES,
        ("micro_batch", range(1, 40)),
        ("sequence_length", range(128, 8192, 64)),
    )
    assert np.array_equal(sum(found.categories.values()), found.peak_bytes)
    assert np.all(np.diff(found.peak_bytes, axis=0) >= 0)
    assert np.all(np.diff(found.peak_bytes, axis=1) >= 0)


@pytest.mark.parametrize("sizes", [(), (0, 1), (2, 1), (1, 1)])
def test_an_axis_ascends_from_one(sizes: tuple[int, ...]) -> None:
    scenario = _example(ROOT / "examples" / "llama-3.1-8b-lora-rtx4090.json")
    with pytest.raises(ValueError, match="micro_batch"):
        sweep(scenario, TABLES, ("micro_batch", sizes), ("sequence_length", (128,)))


def test_a_symbol_that_steps_at_one_length_cuts_the_grid_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def counted(
        xs: Sequence[int], ys: Sequence[int], plan_at: Planner, tables: Tables
    ) -> tuple[DeviceProgram, ...] | None:
        nonlocal asked
        asked += 1
        return compiled(xs, ys, plan_at, tables)

    monkeypatch.setattr("planner.sweep.grid.compiled", counted)
    scenario = _example(ROOT / "examples" / "llama-7b-full-four-3090.json")
    lengths = [128 * k for k in range(1, 65)]
    found = sweep(scenario, TABLES, ("micro_batch", range(1, 65)), ("sequence_length", lengths))
    assert asked == 3
    for i, j in ((0, 0), (0, 5), (0, 6), (31, 5), (31, 6), (31, 7), (63, 63)):
        sizes = {("training", "micro_batch"): i + 1, ("training", "sequence_length"): lengths[j]}
        _check_point(found, i, j, _put(scenario, sizes))
