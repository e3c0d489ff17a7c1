"""The search's shortcuts against the planner itself: times, fits, lower bounds, and the best of every plan tried."""

import random

import numpy as np
import pytest

from benchmarks.search import one_by_one, reduced
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.plan_types import Verdict
from planner.scenario import Scenario
from planner.search.engine import Engine
from planner.search.find import search
from planner.search.rigs import Rig, rents
from planner.search.space import variants
from planner.search.types import SAME_RESULT, Found, Limits, Machine, Technique
from planner.throughput.training_speed import training_speed
from planner.validation import model_for
from tests.planner.search.questions import LLAMA_8B, LLAMA_70B, QWEN_MOE, TABLES, machine, question

ALL = frozenset(Technique)
MACHINES = (
    machine("h100-sxm-80gb", 8),
    machine("l40s-48gb", 4),
    machine("rtx-4090-24gb", 1),
    machine("a100-sxm-80gb", 4),
    machine("mi300x-192gb", 8, per_card=True),
    machine("gb200-nvl72-186gb", 4),
    machine("v100-sxm-16gb", 8),
)
ASKED: dict[str, tuple[Scenario, Limits]] = {
    "70B, every framework": (
        question(LLAMA_70B),
        Limits(techniques=SAME_RESULT | {Technique.FRAMEWORKS, Technique.FP16}),
    ),
    "batches of three": (
        question(LLAMA_8B, "lora", "torchtune", training={"micro_batch": 3, "sequence_length": 1000}),
        Limits(techniques=ALL, sequences=96),
    ),
    "experts, long": (
        question(
            QWEN_MOE,
            runtime="megatron_lm",
            parallel={"expert": 4},
            training={"sequence_length": 32_768},
        ),
        Limits(),
    ),
    "tight counts": (question(LLAMA_8B, "qlora", "hf_trainer"), Limits(techniques=ALL, accept_tight=True)),
    "activations on the host": (
        question(LLAMA_8B, runtime="torchtune", training={"activation_offload": True}),
        Limits(techniques=ALL - {Technique.QLORA}),
    ),
}


def rigs(machines: tuple[Machine, ...], limits: Limits, asked: Scenario) -> list[Rig]:
    return [
        rent.rig for one in machines for rent in rents(one, limits.most_cards, asked.hardware.links, TABLES)
    ]


LONG = ("activations on the host",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in ASKED]
)
def test_times_fits_and_bounds_are_those_of_the_planner(name: str) -> None:
    asked, limits = ASKED[name]
    model = model_for(asked, TABLES)
    engine = Engine(asked, variants(asked, model, limits), model, TABLES, limits)
    chance = random.Random(7)  # noqa: S311
    accepted = {Verdict.FITS, Verdict.TIGHT} if limits.accept_tight else {Verdict.FITS}
    compared = 0
    for rig in chance.sample(rigs(MACHINES, limits, asked), 12):
        grid = engine.grid(rig)
        if grid is None:
            continue
        times, _ = engine.clock.times(grid, rig.gpu, rig.links, rig.devices)
        floors = engine.memory.floors(grid.rows, grid.data, grid.accumulation, engine.clock.batches)
        points = np.argwhere(grid.accumulation > 0)
        for row, column in points[[chance.randrange(len(points)) for _ in range(3)]]:
            key = int(grid.rows[row]), int(grid.data[row]), engine.batches[column]
            try:
                found = plan(engine.choice(key, rig).scenario, TABLES)
            except ScenarioError:
                assert not engine.sound(key)
                continue
            speed = training_speed(found, TABLES)
            if speed.step_time_s is None:
                assert np.isnan(times[row, column])
            else:
                assert times[row, column] == pytest.approx(speed.step_time_s, rel=1e-9)
            assert engine.memory.fits(key, rig.gpu) is (found.verdict in accepted)
            assert floors[row, column] <= found.worst.peak_bytes
            compared += 1
    assert compared > 10


REDUCED = reduced(TABLES)


@pytest.mark.parametrize("name", REDUCED)
def test_the_best_is_that_of_trying_every_plan(name: str) -> None:
    asked, machines = REDUCED[name]
    limits = Limits(most_cards=8, sequences=16)
    every = one_by_one(asked, machines, TABLES, limits)
    result = search(asked, machines, TABLES, limits)
    cheapest, fastest = result.cheapest, result.fastest
    assert cheapest is not None
    assert fastest is not None
    assert cheapest.usd == pytest.approx(min(usd for usd, _ in every))
    assert fastest.days == pytest.approx(min(days for _, days in every))
    assert [point(one) for one in result.frontier] == [pytest.approx(pair) for pair in best_pairs(every)]


def point(one: Found) -> tuple[float, float]:
    return one.usd or 0.0, one.days or 0.0


def best_pairs(every: list[tuple[float, float]]) -> list[tuple[float, float]]:
    kept: list[tuple[float, float]] = []
    for pair in sorted(every):
        if not kept or pair[1] < kept[-1][1] * (1 - 1e-12):
            kept.append(pair)
    return kept
