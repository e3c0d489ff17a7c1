"""The record of a traced run: storages as columns, and their births and deaths in order. No PyTorch here.

It is what the child sends, what is cached, and what every answer is worked out from; allocator and card can be
changed without tracing again.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, ValidationError

from profiler.allocator.replay import FREE, Event
from profiler.documents import Bytes, Seconds, ShortText, Strict
from profiler.trace.documents import Target, Versions
from profiler.worker.grouping import ModelShapes
from profiler.worker.storages import Storage

TRACE_VERSION: Final = 1
Index = Annotated[int, Field(ge=0)]
Column = tuple[Index, ...]


class Mark(Strict):
    """A phase begins.

    Attributes:
        event: Position in the events before which it begins.
        phase: Which.
        step: Step, from 1; 0 before the first.
    """

    event: Index
    phase: ShortText
    step: Index


class StorageColumns(Strict):
    """Storages in order of birth, one column per property; text and shapes by their place in tables.

    Attributes:
        words: Table of texts.
        shapes: Table of shapes.
        bytes: Size.
        kind: Kind, a word (empty: not known).
        detail: State's or workspace's name, a word.
        phase: Phase it was made in, a word.
        died_in: Phase it died in, a word (empty: still alive).
        module: Path of the module that was running, or of the owner, a word.
        op: Operator that made it, a word.
        dtype: Number format, a word.
        shape: Shape of the first tensor on it.
        step: Step it was made in.
    """

    words: tuple[ShortText, ...]
    shapes: tuple[tuple[Index, ...], ...]
    bytes: tuple[Bytes, ...]
    kind: Column
    detail: Column
    phase: Column
    died_in: Column
    module: Column
    op: Column
    dtype: Column
    shape: Column
    step: Column

    def storages(self) -> list[Storage]:
        """The storages as the tracker would hold them.

        Raises:
            IndexError: An index points outside its table.
        """
        words = self.words
        columns = zip(
            self.bytes, self.kind, self.detail, self.phase, self.died_in, self.module, self.op, self.dtype,
            self.shape, self.step, strict=True,
        )  # fmt: skip
        return [
            Storage(
                bytes=size,
                phase=words[phase],
                module=words[module],
                op=words[op],
                shape=self.shapes[shape],
                dtype=words[dtype],
                kind=words[kind] or None,
                detail=words[detail],
                born_in_step=step,
                died_in=words[died_in] or None,
            )
            for size, kind, detail, phase, died_in, module, op, dtype, shape, step in columns
        ]


class WorkspaceNote(Strict):
    """A workspace that the trace contains.

    Attributes:
        name: As in the storages' `detail`.
        source: File and function that allocates it.
        estimate: Worked out rather than read.
    """

    name: ShortText
    source: ShortText
    estimate: bool = False


class Instant(Strict):
    """How instant mode went.

    Attributes:
        layers: Layers of the models that were run in place of the full one; empty if the full one was run.
        period: Layers by which the pattern of layers repeats.
        code: Why the full model was run, empty if it wasn't.
        detail: More of it.
    """

    layers: tuple[Index, ...] = ()
    period: Index = 0
    code: ShortText = ""
    detail: ShortText = ""


class Trace(Strict):
    """A whole run.

    Attributes:
        kind: Marks the document.
        version: Of the format.
        scenario: What was traced, every default filled in.
        config: The model's config.json keys.
        target: The device whose step was followed.
        versions: Libraries.
        storages: Every storage.
        events: A birth as its storage's number, a death as minus the number minus one.
        marks: Starts of phases.
        steps: Steps run; the last one is the one that is read.
        vocab_size: Width of the logits.
        parameter_shapes: Shapes of the matrices that get gradients, both ways round.
        params_total: Elements of the parameters.
        params_trainable: Elements of those that receive gradients.
        workspaces: What kernels take for themselves.
        build_s: Seconds to build the model.
        trace_s: Seconds to run the steps.
        peak_resident_bytes: Host memory of the child at its peak, None if not known.
        instant: What instant mode did, None where the full model was asked for.
    """

    kind: Literal["headroom_trace"] = "headroom_trace"
    version: Literal[1] = TRACE_VERSION
    scenario: dict[str, Any]
    config: dict[str, Any]
    target: Target
    versions: Versions
    storages: StorageColumns
    events: tuple[int, ...]
    marks: tuple[Mark, ...]
    steps: Annotated[int, Field(ge=1)]
    vocab_size: Index
    parameter_shapes: tuple[tuple[Index, ...], ...]
    params_total: Index
    params_trainable: Index
    workspaces: tuple[WorkspaceNote, ...] = ()
    build_s: Seconds
    trace_s: Seconds
    peak_resident_bytes: Bytes | None = None
    instant: Instant | None = None

    def requests(self) -> Iterator[Event]:
        """The events as requests to an allocator."""
        sizes = self.storages.bytes
        for event in self.events:
            yield (event, sizes[event]) if event >= 0 else (-event - 1, FREE)

    def shapes(self) -> ModelShapes:
        """What tells logits and gradients from activations."""
        return ModelShapes(vocab_size=self.vocab_size, parameters=frozenset(self.parameter_shapes))


class TraceError(ValueError):
    """A document is not a trace; the text says why."""


def trace_from(document: object) -> Trace:
    """Check a trace that has been read as plain values.

    Raises:
        TraceError: Another kind of document or version, or a value in it cannot be.
    """
    if not isinstance(document, dict) or document.get("kind") != "headroom_trace":
        raise TraceError("not a trace")
    try:
        trace = Trace.model_validate_json(json.dumps(document, allow_nan=False))
    except (ValidationError, ValueError, RecursionError) as error:
        raise TraceError(str(error)[:2000]) from error
    last = len(trace.storages.bytes)
    if any(not -last <= event < last for event in trace.events):
        raise TraceError("an event of a storage that is not there")
    return trace


class Change(NamedTuple):
    """What a recorder saw.

    Attributes:
        storage: Which, None where a phase begins.
        bytes: Bytes it gained, negative for lost ones.
        phase: Phase under way.
        step: Step under way.
    """

    storage: Storage | None
    bytes: int
    phase: str
    step: int


@dataclass(frozen=True, slots=True)
class Columns:
    """A run as columns: what `Trace` holds of it."""

    storages: StorageColumns
    events: tuple[int, ...]
    marks: tuple[Mark, ...]


class _Table:
    """Numbers values in order of appearance."""

    def __init__(self, *first: Any) -> None:
        self.places: dict[Any, int] = {value: place for place, value in enumerate(first)}

    def place(self, value: Any) -> int:
        return self.places.setdefault(value, len(self.places))


_TEXTS: Final = ("kind", "detail", "phase", "died_in", "module", "op", "dtype")


def columns_from(changes: Iterable[Change]) -> Columns:
    """Turn changes into columns. A storage that changes its size dies and is born anew."""
    alive: dict[Storage, tuple[int, int]] = {}
    born: list[tuple[Storage, int, int]] = []
    events: list[int] = []
    marks: list[Mark] = []
    for storage, delta, phase, step in changes:
        if storage is None:
            marks.append(Mark(event=len(events), phase=phase, step=step))
            continue
        number, size = alive.pop(storage, (-1, 0))
        if number >= 0:
            events.append(-number - 1)
        size += delta
        if size > 0:
            alive[storage] = (len(born), size)
            events.append(len(born))
            born.append((storage, size, step))
    return Columns(_storage_columns(born), tuple(events), tuple(marks))


def _storage_columns(born: list[tuple[Storage, int, int]]) -> StorageColumns:
    words, shapes = _Table(""), _Table()
    texts: dict[str, list[int]] = {name: [] for name in _TEXTS}
    for storage, _, __ in born:
        for name in _TEXTS:
            texts[name].append(words.place((getattr(storage, name) or "")[-300:]))
    shape = tuple(shapes.place(storage.shape) for storage, _, __ in born)
    return StorageColumns(
        words=tuple(words.places),
        shapes=tuple(shapes.places),
        bytes=tuple(size for _, size, __ in born),
        shape=shape,
        step=tuple(step for _, __, step in born),
        **{name: tuple(column) for name, column in texts.items()},
    )
