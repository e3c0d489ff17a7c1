"""Prediction beside measurement."""

import pytest

from planner.ledger import ALWAYS, TRAINING_PHASES, Category, Entry, Layer, Ledger, Phase, make_ledger
from profiler.compare import BUNDLES, NOT_ON_CPU, compare
from profiler.report import DeviceReadings, Group
from tests.profiler.reports import CUDA, LOGITS, SAVED, STATES, WEIGHTS, phase, report


def entry(
    name: str,
    category: Category,
    size: int,
    phases: frozenset[Phase] = ALWAYS,
    layer: Layer = Layer.ALLOCATED,
) -> Entry:
    return Entry(category, name, size, phases, "f", (), "r", layer)


def ledger(saved: int = 500) -> Ledger:
    forward = frozenset({Phase.FORWARD})
    return make_ledger(
        (
            entry("layer_weights", Category.WEIGHTS, 900),
            entry("embedding_weights", Category.WEIGHTS, 100),
            entry("optimizer_states", Category.OPTIMIZER, 2000),
            entry("saved_activations", Category.ACTIVATIONS, saved, forward),
            entry("logits", Category.LOGITS, 300, forward),
            entry("cublas_workspaces", Category.CONTEXT, 70_000),
            entry("allocator_cache", Category.ALLOCATOR, 400, layer=Layer.RESERVED),
            entry("cuda_context", Category.CONTEXT, 5_000, layer=Layer.PROCESS),
        ),
        TRAINING_PHASES,
    )


MEASURED = report(phase("rest", WEIGHTS, STATES), phase("forward", WEIGHTS, STATES, SAVED, LOGITS))


def test_equal_sides_leave_nothing_to_explain() -> None:
    found = compare(ledger(), MEASURED)
    assert [p.phase for p in found.phases] == [Phase.REST, Phase.FORWARD]
    assert found.is_close
    for part in found.phases:
        assert part.total.residual_bytes == 0
        assert [row.residual_bytes for row in (*part.categories, *part.bundles)] == [0] * (
            len(part.categories) + len(part.bundles)
        )


def test_what_only_cuda_has_is_left_out_on_cpu_with_its_reason() -> None:
    part = compare(ledger(), MEASURED).phases[0]
    assert part.left_out == (("cublas_workspaces", 70_000, "cuda_library"),)
    assert part.total.predicted_bytes == 3000


def test_the_gap_is_pinned_on_the_kind_that_makes_it() -> None:
    found = compare(ledger(saved=100), MEASURED)
    rest, forward = found.phases
    assert rest.is_close
    assert not forward.is_close
    assert forward.explains == "saved_activations"
    assert forward.total.residual_bytes == 400
    assert forward.total.residual_frac == pytest.approx(400 / 3800)
    assert forward.bundles[0].name == "saved_activations"
    assert forward.bundles[0].residual_bytes == 400


def test_both_sides_are_summed_whatever_their_names() -> None:
    odd = Group(category="activations", name="never_heard_of", bytes=77)
    part = compare(ledger(), report(phase("forward", WEIGHTS, odd))).phases[0]
    assert sum(row.measured_bytes or 0 for row in part.bundles) == part.total.measured_bytes == 1077
    assert sum(row.predicted_bytes or 0 for row in part.bundles) == part.total.predicted_bytes
    assert sum(row.predicted_bytes or 0 for row in part.categories) == part.total.predicted_bytes


def test_cpu_compares_live_tensors_only() -> None:
    assert [row.name for row in compare(ledger(), MEASURED).layers] == ["allocated"]


def test_cuda_compares_all_four_layers() -> None:
    readings = DeviceReadings(before_bytes=100, idle_bytes=600, peak_bytes=90_000)
    measured = report(
        phase("rest", WEIGHTS, reserved=4000), phase("forward", WEIGHTS, SAVED, reserved=6000),
        environment=CUDA, readings=readings,
    )  # fmt: skip
    found = compare(ledger(), measured)
    rows = {row.name: (row.predicted_bytes, row.measured_bytes) for row in found.layers}
    assert rows == {
        "allocated": (73_800, 1500),
        "reserved": (74_200, 6000),
        "process": (79_200, 6500),
        "device": (79_200, 90_000),
    }
    assert found.phases[0].left_out == ()


def test_what_the_driver_does_not_say_stays_unknown() -> None:
    measured = report(phase("rest", WEIGHTS), environment=CUDA)
    rows = {row.name: row for row in compare(ledger(), measured).layers}
    assert rows["process"].measured_bytes is None
    assert rows["process"].residual_bytes is None
    assert rows["process"].residual_frac is None


def test_names_stand_in_one_bundle() -> None:
    for side in ("predicted", "measured"):
        names = [(b.category, name) for b in BUNDLES for name in getattr(b, side)]
        assert len(names) == len(set(names))
    assert all(NOT_ON_CPU.values())
