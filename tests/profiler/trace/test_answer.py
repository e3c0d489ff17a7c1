"""What is read from a trace, on traces made by hand."""

import pytest

from planner.ledger import Category, Layer, Phase
from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings, parse_settings
from profiler.trace.answer import MAX_POINTS, answer
from profiler.trace.cards import smallest_bytes
from profiler.trace.text import as_json, lines
from tests.profiler.trace.peaks import tensor_peaks
from tests.profiler.trace.traces import born, died, phase, small_step, storage, trace

PLAIN = AllocatorSettings()


def test_peaks_of_phases_are_tensors_alone() -> None:
    peaks = tensor_peaks(small_step())
    assert {name: size // MIB for name, size in peaks.items()} == {
        "rest": 8,
        "forward": 54,
        "loss": 54,
        "backward": 86,
        "optimizer_step": 16,
    }


def test_each_phase_has_its_owners() -> None:
    seen = answer(small_step(), PLAIN)
    assert [figures.phase for figures in seen.phases] == [
        *("rest", "forward", "loss", "backward", "optimizer_step")
    ]
    assert (seen.phase, seen.peak_tensor_bytes, seen.retries, seen.ran_out) == ("backward", 86 * MIB, 0, None)
    assert seen.categories() == {
        "cuda_context": 32 * MIB,
        "activations": 30 * MIB,
        "logits_and_loss": 16 * MIB,
        "weights": 8 * MIB,
    }
    for figures in seen.phases:
        allocated = sum(group.bytes for group in figures.groups if group.layer == "allocated")
        assert allocated == figures.peak_allocated_bytes
    end = seen.figures("optimizer_step")
    assert end is not None
    assert {group.name: group.bytes // MIB for group in end.groups if group.layer == "allocated"} == {
        "parameters": 8,
        "gradients": 8,
    }
    assert seen.figures("load") is None


def test_the_largest_are_named() -> None:
    fullest = answer(small_step(), PLAIN).fullest
    assert fullest is not None
    assert [(note.name, note.module, note.made_in) for note in fullest.largest] == [
        ("cublas_workspace", "", "backward"),
        ("saved_activations", "layer", "forward"),
        ("logits", "head", "forward"),
        ("parameters", "head.weight", "load"),
    ]


def test_rounding_and_cache_have_their_own_entries() -> None:
    odd = storage(11, "forward")
    seen = answer(trace([phase("forward", 1), born(odd, "forward", 1)]), PLAIN)
    figures = seen.figures("forward")
    assert figures is not None
    assert {group.name: (group.bytes // MIB, group.layer) for group in figures.groups} == {
        "saved_activations": (11, "allocated"),
        "block_rounding": (1, "allocated"),
    }
    small = answer(trace([phase("forward", 1), born(storage(1, "forward"), "forward", 1)]), PLAIN)
    assert [(g.name, g.bytes // MIB, g.layer) for g in small.phases[0].groups][-1] == ("cache", 1, "reserved")


def test_the_ledger_is_the_answer() -> None:
    seen = answer(small_step(), PLAIN)
    ledger = seen.ledger()
    assert ledger.peak(Layer.ALLOCATED) == (Phase.BACKWARD, 86 * MIB)
    assert ledger.by_category(Phase.FORWARD, Layer.ALLOCATED) == {
        Category.WEIGHTS: 8 * MIB,
        Category.ACTIVATIONS: 30 * MIB,
        Category.LOGITS: 16 * MIB,
    }
    for figures in seen.phases:
        assert ledger.phase_bytes(Phase(figures.phase), Layer.ALLOCATED) == figures.peak_allocated_bytes


def test_a_card_too_small_stops_at_the_right_storage() -> None:
    seen = answer(small_step(), PLAIN, 70 * MIB)
    stop = seen.ran_out
    assert stop is not None
    assert (stop.phase, stop.step, stop.op, stop.at.cause) == ("backward", 1, "aten::mm", "demand")
    assert (stop.at.requested_bytes, stop.at.allocated_bytes) == (32 * MIB, 54 * MIB)
    assert seen.phase == "backward"
    assert [figures.phase for figures in seen.phases] == ["rest", "forward", "loss", "backward"]
    early = answer(small_step(), PLAIN, 6 * MIB)
    assert early.ran_out is not None
    assert (early.ran_out.phase, early.ran_out.step, early.phases, early.timeline) == ("load", 0, (), ())


def test_the_smallest_card_is_found() -> None:
    made = small_step()
    free = answer(made, PLAIN)
    assert smallest_bytes(made, PLAIN, free, [size * MIB for size in (200, 80, 90, 97, 99)]) == 99 * MIB
    assert smallest_bytes(made, PLAIN, free, [80 * MIB]) is None
    growing = parse_settings("expandable_segments:True")
    assert smallest_bytes(made, growing, answer(made, growing), [90 * MIB, 100 * MIB]) == 100 * MIB


def test_the_timeline_is_bounded_and_keeps_the_peak() -> None:
    changes = [phase("forward", 1)]
    for number in range(2000):
        one = storage(3 if number == 1234 else 1, "forward")
        changes += [born(one, "forward", 1), died(one, "forward", 1)]
    seen = answer(trace(changes), PLAIN)
    assert len(seen.timeline) <= MAX_POINTS
    assert max(point.allocated_bytes for point in seen.timeline) == seen.peak_allocated_bytes
    assert {point.phase for point in seen.timeline} == {"forward"}
    for point in seen.timeline:
        assert sum(size for _, size in point.categories) <= point.allocated_bytes <= point.reserved_bytes


def test_only_the_last_step_is_read_but_the_whole_run_counts() -> None:
    one, other = storage(40, "forward"), storage(12, "forward")
    made = trace(
        [
            *(phase("forward", 1), born(one, "forward", 1), died(one, "forward", 1), phase("rest", 1)),
            *(phase("forward", 2), born(other, "forward", 2)),
        ],
        steps=2,
    )
    seen = answer(made, PLAIN)
    assert seen.peak_allocated_bytes == 40 * MIB
    assert [figures.peak_allocated_bytes for figures in seen.phases] == [12 * MIB]


@pytest.mark.parametrize("capacity", [None, 70 * MIB, 500 * MIB])
def test_text_and_json_say_the_same(capacity: int | None) -> None:
    made = small_step()
    seen = answer(made, PLAIN, capacity)
    document = as_json(made, seen, capacity)
    assert document.keys() >= {
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "phase",
        "categories",
        "seconds",
    }
    assert document["seconds"] == 3.0
    assert (document["ran_out"] is None) == (capacity != 70 * MIB)
    text = "\n".join(lines(made, seen, capacity))
    assert "cublas_workspace" in text or capacity == 70 * MIB
    assert ("runs out (demand)" in text) == (capacity == 70 * MIB)


def test_a_short_phase_is_on_the_timeline_too() -> None:
    changes = [phase("forward", 1)]
    for number in range(4000):
        if number == 3000:
            changes.append(phase("loss", 1))
        if number == 3003:
            changes.append(phase("backward", 1))
        one = storage(1, "forward")
        changes += [born(one, "forward", 1), died(one, "forward", 1)]
    timeline = answer(trace(changes), PLAIN).timeline
    assert len(timeline) <= MAX_POINTS
    assert len([point for point in timeline if point.phase == "loss"]) == 6
    assert [point.event for point in timeline] == sorted({point.event for point in timeline})


def test_a_timeline_of_more_phases_than_points_is_bounded() -> None:
    changes = []
    for _ in range(2 * MAX_POINTS):
        one = storage(1, "forward")
        changes += [phase("forward", 1), born(one, "forward", 1), died(one, "forward", 1)]
    assert len(answer(trace(changes), PLAIN).timeline) <= MAX_POINTS
