"""Small traces made by hand."""

from collections.abc import Iterable
from typing import Any

from planner.units import MIB
from profiler.trace.documents import Target, Versions
from profiler.trace.record import Change, Trace, columns_from
from profiler.worker.storages import Storage


def storage(size_mib: float, phase: str, **more: Any) -> Storage:
    """A storage; its size in MiB."""
    known: dict[str, Any] = {"module": "", "op": "aten::mm", "shape": (1,), "dtype": "float32"}
    return Storage(bytes=int(size_mib * MIB), phase=phase, **(known | more))


def born(one: Storage, phase: str, step: int) -> Change:
    return Change(one, one.bytes, phase, step)


def died(one: Storage, phase: str, step: int) -> Change:
    one.died_in = phase
    return Change(one, -one.bytes, phase, step)


def phase(name: str, step: int) -> Change:
    return Change(None, 0, name, step)


def trace(changes: Iterable[Change], steps: int = 1) -> Trace:
    columns = columns_from(changes)
    return Trace(
        scenario={"task": "full"},
        config={"model_type": "gpt2"},
        target=Target(),
        versions=Versions(torch="2.13.0", transformers="5.24.0"),
        storages=columns.storages,
        events=columns.events,
        marks=columns.marks,
        steps=steps,
        vocab_size=1000,
        parameter_shapes=((30, 1000), (1000, 30)),
        params_total=30_000,
        params_trainable=30_000,
        build_s=1.0,
        trace_s=2.0,
    )


def small_step() -> Trace:
    """A parameter of 8 MiB, an activation of 30, logits of 16, a gradient of 8, a workspace of 32 in passing."""
    weight = storage(8, "load", kind="parameter", module="head.weight", shape=(1000, 30), op="")
    hidden = storage(30, "forward", module="layer")
    logits = storage(16, "forward", shape=(4, 1000), module="head")
    inside = storage(32, "backward", kind="workspace", detail="cublas_workspace", shape=())
    grad = storage(8, "backward", kind="gradient", module="head.weight", shape=(1000, 30))
    return trace(
        [
            born(weight, "load", 0),
            phase("rest", 1),
            phase("forward", 1),
            born(hidden, "forward", 1),
            born(logits, "forward", 1),
            phase("loss", 1),
            phase("backward", 1),
            born(inside, "backward", 1),
            died(inside, "backward", 1),
            born(grad, "backward", 1),
            died(logits, "backward", 1),
            died(hidden, "backward", 1),
            phase("optimizer_step", 1),
            died(grad, "optimizer_step", 1),
            phase("rest", 1),
        ]
    )
