"""Fragmentation, leaks, ranks and the checklist, from reports made for it."""

import random
from typing import Any

import pytest

from planner.ledger import Layer, Phase
from planner.units import GIB, MIB
from profiler.compare import compare
from profiler.explanation import explain
from profiler.findings import (
    Finding,
    checklist,
    communication,
    findings,
    fragmentation,
    fullest,
    leaks,
    slowest,
)
from profiler.leaks import growth_of
from profiler.report import DeviceReadings, Report
from profiler.report_parts import CardReading, CardSeries, Communication, RankFigures, StepMemory
from tests.profiler.reports import CUDA, LOGITS, SAVED, STATES, TWO_PHASES, WEIGHTS, phase, report

PREDICTED = (
    WEIGHTS.model_copy(update={"name": "layer_weights"}),
    STATES.model_copy(update={"name": "optimizer_states"}),
)
"""The same bytes as formulas call them."""


def only(found: Any) -> Finding:
    (finding,) = found
    assert isinstance(finding, Finding)
    return finding


@pytest.mark.parametrize(
    ("allocated", "split", "code", "setting"),
    [
        (95, 5, "not_fragmented", ""),
        (85, 10, "fragmented", "PYTORCH_ALLOC_CONF=expandable_segments:True"),
        (80, 9, "much_cached", "PYTORCH_ALLOC_CONF=expandable_segments:True"),
        (81, 9, "not_fragmented", ""),
    ],
)
def test_fragmentation_names_the_setting(allocated: int, split: int, code: str, setting: str) -> None:
    stats = {
        "reserved_bytes.all.peak": 100 * MIB,
        "allocated_bytes.all.peak": allocated * MIB,
        "inactive_split_bytes.all.peak": split * MIB,
    }
    found = only(fragmentation(TWO_PHASES.model_copy(update={"memory_stats": stats})))
    assert (found.code, found.setting) == (code, setting)
    assert found.params["split_frac"] == pytest.approx(split / 100)


def test_retries_are_told_beside_the_rest() -> None:
    stats = {"reserved_bytes.all.peak": 100, "allocated_bytes.all.peak": 99, "num_alloc_retries": 3}
    found = list(fragmentation(TWO_PHASES.model_copy(update={"memory_stats": stats})))
    assert [one.code for one in found] == ["allocator_retries", "not_fragmented"]
    assert found[0].params["retries"] == 3


def test_a_processor_has_no_allocator_counters() -> None:
    assert only(fragmentation(TWO_PHASES)).state == "unknown"


def over_steps(values: list[int], counter: str = "after_allocated_bytes", **readings: int) -> Report:
    steps = [
        StepMemory.model_validate(
            {"step": 2 * place + 1, "time_s": 0.1, counter: value, "peak_reserved_bytes": value + MIB}
        )
        for place, value in enumerate(values)
    ]
    return TWO_PHASES.model_copy(
        update={"memory_by_step": tuple(steps), "readings": DeviceReadings(**readings)}
    )


def test_a_leak_is_found_with_its_rate_and_end() -> None:
    values = [GIB + place * 10 * MIB for place in range(40)]
    growth = growth_of(over_steps(values, total_bytes=2 * GIB))
    assert growth is not None
    assert (growth.leaks, growth.counter) == (True, "allocated")
    assert growth.bytes_per_step == 5 * MIB  # every second step was sampled
    assert growth.steps_left == (2 * GIB - values[-1] - MIB) // (5 * MIB)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("flat", [GIB] * 40),
        ("states made in the first steps", [MIB, 300 * MIB, 900 * MIB] + [GIB] * 40),
        ("batches of changing length", [GIB + (place * 7919 % 13) * 20 * MIB for place in range(60)]),
        ("one long batch", [GIB] * 30 + [2 * GIB] + [GIB] * 30),
        ("a fall", [2 * GIB - place * MIB for place in range(40)]),
        ("a few bytes", [GIB + place * 512 for place in range(100)]),
    ],
)
def test_what_is_no_leak(name: str, values: list[int]) -> None:
    growth = growth_of(over_steps(values))
    assert growth is not None, name
    assert not growth.leaks, (name, growth)
    assert only(leaks(over_steps(values))).state == "good"


def test_a_leak_under_noise_is_found() -> None:
    chance = random.Random(0)  # noqa: S311  # noise, no secret
    values = [GIB + place * 4 * MIB + chance.randrange(60 * MIB) for place in range(150)]
    growth = growth_of(over_steps(values))
    assert growth is not None
    assert growth.leaks
    assert growth.bytes_per_step == pytest.approx(2 * MIB, rel=0.1)


def test_host_memory_has_to_grow_more() -> None:
    small = over_steps([GIB + place * MIB // 2 for place in range(40)], "resident_bytes")
    large = over_steps([GIB + place * 8 * MIB for place in range(40)], "resident_bytes")
    assert [only(leaks(one)).code for one in (small, large)] == ["does_not_grow", "grows"]


def test_few_steps_say_nothing() -> None:
    assert only(leaks(over_steps([GIB * place for place in range(1, 9)]))).code == "too_few_steps"


def rank(number: int, step_s: float, held: int, share: float | None = None, **more: Any) -> RankFigures:
    talk = None if share is None else Communication(time_s=share * step_s, step_s=step_s)
    return RankFigures(rank=number, step_s=step_s, peak_allocated_bytes=held, communication=talk, **more)


def with_ranks(*ranks: RankFigures) -> Report:
    return TWO_PHASES.model_copy(update={"ranks": ranks})


def test_ranks_that_talk_and_wait() -> None:
    made = with_ranks(rank(0, 1.0, 100, 0.1), rank(1, 2.0, 130, 0.45))
    found = {one.code: one for one in communication(made)}
    assert found["talks_much"].params == {
        "frac": pytest.approx(0.45), "rank": 1, "least_frac": pytest.approx(0.1),
    }  # fmt: skip
    assert found["times_differ"].params["most"] == found["memory_differs"].params["most"] == 1
    assert found["times_differ"].params["spread_frac"] == pytest.approx(0.5)
    assert {one.state for one in found.values()} == {"attention"}
    assert (slowest(made), fullest(made)) == (made.ranks[1], made.ranks[1])


def test_even_ranks_are_good() -> None:
    found = list(communication(with_ranks(rank(0, 1.0, 100, 0.3), rank(1, 1.1, 101, 0.2))))
    assert [one.code for one in found] == ["talks_little", "times_differ_little", "memory_differs_little"]
    assert {one.state for one in found} == {"good"}


def test_a_rank_that_ended_is_named() -> None:
    silent = RankFigures(rank=1, outcome="silent")
    found = list(communication(with_ranks(rank(0, 1.0, 100), silent)))
    assert [(one.code, one.state) for one in found] == [
        ("talk_not_measured", "unknown"),
        ("rank_ended", "attention"),
    ]


def test_one_rank_talks_to_nobody() -> None:
    assert list(communication(TWO_PHASES)) == []
    assert slowest(TWO_PHASES) is fullest(TWO_PHASES) is None


def checks(made: Report) -> dict[str, Finding]:
    return {one.code: one for one in checklist(made)}


def test_what_was_not_measured_is_not_ticked() -> None:
    states = {code: one.state for code, one in checks(TWO_PHASES).items()}
    assert states["versions"] == "good"
    assert {states[code] for code in ("precision", "checkpointing", "utilisation", "swapping")} == {"unknown"}


@pytest.mark.parametrize(("processors", "state"), [(None, "unknown"), (16, "good"), (15, "attention")])
def test_ranks_share_processors(processors: int | None, state: str) -> None:
    """Two ranks on one host, one on another, eight threads each."""
    made = with_ranks(rank(0, 1.0, 1, host="a"), rank(1, 1.0, 1, host="a"), rank(2, 1.0, 1, host="b"))
    where = made.environment.model_copy(update={"threads": 8, "processors": processors})
    assert checks(made.model_copy(update={"environment": where}))["threads"].state == state


@pytest.mark.parametrize(("swapped", "state"), [(None, "unknown"), (0, "good"), (4096, "attention")])
def test_swapping(swapped: int | None, state: str) -> None:
    readings = DeviceReadings(swapped_bytes=swapped)
    assert checks(TWO_PHASES.model_copy(update={"readings": readings}))["swapping"].state == state


def test_the_checklist_is_ticked_from_scenario_and_readings() -> None:
    heavy = SAVED.model_copy(update={"bytes": 9_000})
    made = report(phase("forward", WEIGHTS, STATES, heavy), environment=CUDA)
    readings = [
        CardReading(at_s=1.0, gpu_frac=0.9, memory_frac=0.5),
        CardReading(at_s=2.0, gpu_frac=0.8, memory_frac=0.5),
        CardReading(at_s=3.0, stale=True),
    ]
    scenario = {
        "training": {"precision": {"compute": "fp32"}, "checkpointing": "none"},
        "parallel": {"offload": {"optimizer": "cpu"}},
    }
    cards = (CardSeries(index=0, readings=tuple(readings)),)
    found = checks(made.model_copy(update={"scenario": scenario, "cards": cards}))
    assert found["utilisation"].state == "good"
    assert found["utilisation"].params["frac"] == pytest.approx(0.85)
    for code in ("precision", "checkpointing", "offload", "bandwidth", "versions"):
        assert found[code].state == "attention", code
    assert found["checkpointing"].params["activations_frac"] == pytest.approx(0.75)


def test_every_report_gets_all_topics() -> None:
    topics = [one.topic for one in findings(with_ranks(rank(0, 1.0, 1), rank(1, 1.0, 1)))]
    assert topics == sorted(
        topics, key=["fragmentation", "leak", "communication", "ranks", "checklist"].index
    )


def test_the_entry_that_explains_most() -> None:
    """The measurement holds more logits than predicted, and less of something else."""
    measured = report(phase("forward", WEIGHTS, STATES, SAVED, LOGITS))
    expected = report(
        phase(
            "forward",
            *PREDICTED,
            SAVED.model_copy(update={"bytes": 540}),
            LOGITS.model_copy(update={"bytes": 100}),
        )
    )
    found = explain(compare(expected.ledger(), measured))
    assert found is not None
    assert (found.layer, found.phase, found.entry) == (Layer.ALLOCATED, Phase.FORWARD, "logits_and_loss")
    assert (found.gap_bytes, found.entry_bytes, found.is_close) == (160, 200, False)
    assert found.share_frac == pytest.approx(1.25)


def test_a_gap_beyond_the_tensors_is_the_allocators() -> None:
    measured = report(phase("forward", WEIGHTS, STATES, SAVED, LOGITS, reserved=6_000), environment=CUDA)
    expected = report(phase("forward", *PREDICTED, SAVED, LOGITS), environment=CUDA)
    found = explain(compare(expected.ledger(), measured))
    assert found is not None
    assert (found.layer, found.entry, found.entry_bytes) == (Layer.RESERVED, "allocator_cache", 2_200)


def test_nothing_to_compare_explains_nothing() -> None:
    assert explain(compare(TWO_PHASES.ledger(), report())) is None
