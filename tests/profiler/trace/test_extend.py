"""Runs laid side by side and extended, on small runs made by hand."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from profiler.trace.alignment import ExtendError, Reader, align, deaths_in_order
from profiler.trace.extend import extend
from profiler.trace.record import Change, Columns, Trace
from profiler.worker.storages import Storage
from tests.profiler.trace.traces import born, died, phase, storage, trace

STACK = "layers"


def run(layers: int, *, odd: Callable[[int], float] = lambda _: 0.0, uneven: int = -1) -> Trace:
    """Weights, a forward pass that keeps one storage a layer, a backward pass that frees them in turn.

    Args:
        layers: How many.
        odd: More MiB for the activation of a layer.
        uneven: A layer whose activation is freed at the very end.
    """
    changes: list[Change] = []
    weights = [
        storage(4, "load", kind="parameter", module=f"layers.{index}.weight", op="")
        for index in range(layers)
    ]
    changes += [born(one, "load", 0) for one in weights]
    changes.append(phase("forward", 1))
    kept: list[Storage] = []
    for index in range(layers):
        inside = storage(3, "forward", module=f"layers.{index}")
        kept.append(storage(2 + odd(index), "forward", module=f"layers.{index}"))
        changes += [born(inside, "forward", 1), born(kept[-1], "forward", 1), died(inside, "forward", 1)]
    changes.append(phase("backward", 1))
    late: list[Storage] = []
    flowing = storage(1, "backward")
    changes.append(born(flowing, "backward", 1))
    for index in reversed(range(layers)):
        gradient = storage(4, "backward", kind="gradient", module=f"layers.{index}.weight")
        before, flowing = flowing, storage(1, "backward")
        changes += [born(gradient, "backward", 1), born(flowing, "backward", 1)]
        changes.append(died(before, "backward", 1))
        late.append(gradient)
        if index != uneven:
            changes.append(died(kept[index], "backward", 1))
    norms = storage(layers / 1024, "optimizer_step", shape=(layers,))
    changes += [phase("optimizer_step", 1), born(norms, "optimizer_step", 1)]
    changes += [died(one, "optimizer_step", 1) for one in (*reversed(late), norms)]
    if uneven >= 0:
        changes.append(died(kept[uneven], "optimizer_step", 1))
    return trace(changes)


def as_trace(columns: Columns, like: Trace) -> Trace:
    parts: dict[str, Any] = {name: getattr(columns, name) for name in ("storages", "events", "marks")}
    return like.model_copy(update=parts)


@pytest.mark.parametrize("layers", [5, 6, 9, 30])
def test_two_short_runs_give_the_long_one(layers: int) -> None:
    whole = run(layers)
    found = extend(run(4), run(5), STACK, layers - 5)
    assert found.storages == whole.storages
    assert found.marks == whole.marks
    assert deaths_in_order(as_trace(found, whole)) == deaths_in_order(whole)


def test_a_pattern_of_two_layers_is_extended_by_two() -> None:
    def odd(index: int) -> float:
        return index % 2

    whole = run(15, odd=odd)
    found = extend(run(7, odd=odd), run(9, odd=odd), STACK, 3)
    assert found.storages == whole.storages
    assert deaths_in_order(as_trace(found, whole)) == deaths_in_order(whole)


def test_what_does_not_repeat_is_refused() -> None:
    with pytest.raises(ExtendError) as refused:
        extend(run(4, odd=float), run(5, odd=float), STACK, 3)
    assert refused.value.code == "streams_differ"


def test_a_storage_that_no_rule_finds_is_refused() -> None:
    """In one run the second layer's activation stays to the end, in the other the fourth's."""
    with pytest.raises(ExtendError) as refused:
        extend(run(4, uneven=1), run(5, uneven=3), STACK, 3)
    assert refused.value.code in {"streams_differ", "storage_unclear"}


def test_every_layer_adds_a_block_to_every_sweep_over_layers() -> None:
    reader = Reader(STACK)
    short, long = reader.read(run(4)), reader.read(run(5))
    blocks = align(short, long).blocks
    assert [block.length for block in blocks] == [1, 3, 4, 1]
    assert sum(block.length for block in blocks) == len(long.items) - len(short.items)
    assert all(dataclasses.astuple(block)[3] == 0 for block in blocks)


def test_numbers_of_layers_are_taken_out_of_paths() -> None:
    stream = Reader(STACK).read(run(4))
    assert set(stream.paths) == {"layers.#.weight", "layers.#", ""}
    assert set(stream.layers) == {-1, 0, 1, 2, 3}
