"""The plain values of a snapshot as typed records: segments with their blocks, and each device's history.

Format: `torch.cuda.memory._snapshot` of PyTorch 2.0 to 2.13 (`THCPModule_memorySnapshot`). What was added on
the way may be missing: `address` of a block and `is_expandable` (2.1), `time_us` (2.2), `allocator_settings`
(2.2), `pool_id` (2.9); a block's stack was under `history` in 2.0. Other keys are not read.
"""

from array import array
from collections.abc import Iterator, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Any, Final

from profiler.allocator.rules import SMALL_BYTES
from profiler.allocator.settings import NO_ROUNDUP, NUM_ROUNDUP_INTERVALS, AllocatorSettings
from profiler.snapshot.errors import MemoryFileError

MAX_RECORDS: Final = 1_500_000
"""Segments, blocks and events in all; values that a file shares are counted each time they are met."""

MAX_DEVICES: Final = 512
MAX_BYTES: Final = 2**62
MAX_ADDRESS: Final = 2**64 - 1

ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, OOM, MARK = range(7)
ACTIONS: Final = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE_COMPLETED,
    "free": FREE_COMPLETED,
    "segment_alloc": SEGMENT_ALLOC,
    "segment_map": SEGMENT_ALLOC,
    "segment_free": SEGMENT_FREE,
    "segment_unmap": SEGMENT_FREE,
    "oom": OOM,
    "snapshot": MARK,
}
"""What the allocator did. Mapping and unmapping a part of an expandable segment count as segments."""

Stack = list[Any]
"""Frames as they stand in the file, not yet checked (`profiler.snapshot.stacks`)."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a segment.

    Attributes:
        address: First byte.
        bytes: Size.
        requested_bytes: What was asked for, 0 if the block is free.
        is_allocated: In use.
        is_active: In use or waiting for another stream.
        stack: Who asked for it.
    """

    address: int
    bytes: int
    requested_bytes: int
    is_allocated: bool
    is_active: bool
    stack: Stack


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory taken from the driver, or a mapped stretch of an expandable segment.

    Attributes:
        device: Device.
        address: First byte.
        bytes: Size.
        is_small: In the pool of small blocks.
        is_expandable: Part of an expandable segment.
        private_id: Id of its private pool, None for the common one.
        stream: CUDA stream.
        blocks: In order of address.
    """

    device: int
    address: int
    bytes: int
    is_small: bool
    is_expandable: bool
    private_id: tuple[int, int] | None
    stream: int
    blocks: tuple[Block, ...]


@dataclass(slots=True)
class History:
    """What the allocator of one device did, as columns.

    Attributes:
        actions: One of `ACTIONS`.
        addresses: First byte; for `OOM` what was free on the device.
        bytes: What was asked for.
        streams: CUDA stream.
        times_us: Clock, -1 where there is none.
        stacks: Who asked.
        is_mapped: Positions at which a part of an expandable segment was mapped or unmapped.
        skipped: Entries of an unknown action.
    """

    actions: bytearray = field(default_factory=bytearray)
    addresses: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    streams: list[int] = field(default_factory=list)
    times_us: MutableSequence[int] = field(default_factory=lambda: array("q"))
    stacks: list[Stack] = field(default_factory=list)
    is_mapped: set[int] = field(default_factory=set)
    skipped: int = 0

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True, slots=True)
class SnapshotDocument:
    """A snapshot.

    Attributes:
        segments: All devices'.
        histories: By device; a device that recorded nothing has an empty one.
        settings: The allocator's.
        settings_text: As the process had them.
    """

    segments: tuple[Segment, ...]
    histories: tuple[History, ...]
    settings: AllocatorSettings
    settings_text: str


def document_from(values: object) -> SnapshotDocument:
    """Check the values of a snapshot.

    Raises:
        MemoryFileError: `not_snapshot`, `missing`, `bad_value` or `too_complex`.
    """
    if not isinstance(values, dict) or not isinstance(values.get("segments"), list):
        raise MemoryFileError("not_snapshot")
    reader = _Reader()
    segments = tuple(reader.segments(values["segments"]))
    traces = values.get("device_traces", [])
    if not isinstance(traces, list) or len(traces) > MAX_DEVICES:
        raise _wrong(traces, "device_traces", f"a list of up to {MAX_DEVICES} lists")
    histories = tuple(reader.history(trace, f"device_traces[{i}]") for i, trace in enumerate(traces))
    settings = values.get("allocator_settings")
    settings = settings if isinstance(settings, dict) else {}
    text = settings.get("PYTORCH_CUDA_ALLOC_CONF", settings.get("PYTORCH_ALLOC_CONF"))
    return SnapshotDocument(
        segments=segments,
        histories=histories,
        settings=_settings(settings),
        settings_text=text[:300] if isinstance(text, str) else "",
    )


class _Reader:
    """Reads records and counts them."""

    def __init__(self) -> None:
        self._left = MAX_RECORDS

    def _count(self, number: int) -> None:
        self._left -= number
        if self._left < 0:
            raise MemoryFileError(
                "too_complex", records=MAX_RECORDS - self._left, allowed_records=MAX_RECORDS
            )

    def segments(self, values: list[Any]) -> Iterator[Segment]:
        self._count(len(values))
        for number, value in enumerate(values):
            yield self._segment(_mapping(value, where := f"segments[{number}]"), where)

    def _segment(self, value: Mapping[str, Any], where: str) -> Segment:
        blocks = value.get("blocks")
        if not isinstance(blocks, list):
            raise _wrong(blocks, f"{where}.blocks", "a list")
        self._count(len(blocks))
        size = _whole(value, "total_size", where, MAX_BYTES)
        address = _whole(value, "address", where, MAX_ADDRESS)
        kind = value.get("segment_type")
        if kind not in ("large", "small"):
            raise _wrong(kind, f"{where}.segment_type", "large, small")
        made = tuple(_blocks(blocks, address, where))
        if sum(block.bytes for block in made) > size:
            raise _wrong(size, f"{where}.total_size", "at least the size of its blocks")
        return Segment(
            device=_whole(value, "device", where, MAX_DEVICES - 1, default=0),
            address=address,
            bytes=size,
            is_small=kind == "small",
            is_expandable=value.get("is_expandable") is True,
            private_id=_pool(value.get("segment_pool_id")),
            stream=_stream(value),
            blocks=made,
        )

    def history(self, value: object, where: str) -> History:
        """One device's entries, in the order they were made."""
        if not isinstance(value, list):
            raise _wrong(value, where, "a list")
        self._count(len(value))
        history = History()
        for number, entry in enumerate(value):
            _add(history, entry, where, number)
        return history


def _add(history: History, entry: Any, where: str, number: int) -> None:
    """Put one entry into the columns. On the way of every entry of large files, so kept plain."""
    if type(entry) is not dict:
        raise _wrong(entry, f"{where}[{number}]", "a dict")
    name = entry.get("action")
    action = ACTIONS.get(name) if type(name) is str else None
    if action is None:
        if type(name) is not str:
            raise _wrong(name, f"{where}[{number}].action", "text")
        history.skipped += 1
        return
    key = "device_free" if action == OOM and "device_free" in entry else "addr"
    address, size = entry.get(key), entry.get("size")
    if type(address) is not int or not 0 <= address <= MAX_ADDRESS:
        address = _whole(entry, key, f"{where}[{number}]", MAX_ADDRESS)
    if type(size) is not int or not 0 <= size <= MAX_BYTES:
        size = _whole(entry, "size", f"{where}[{number}]", MAX_BYTES)
    time_us, stack = entry.get("time_us"), entry.get("frames")
    if name in {"segment_map", "segment_unmap"}:
        history.is_mapped.add(len(history.actions))
    history.actions.append(action)
    history.addresses.append(address)
    history.bytes.append(size)
    history.streams.append(_stream(entry))
    history.times_us.append(time_us if type(time_us) is int and 0 <= time_us <= MAX_BYTES else -1)
    history.stacks.append(stack if type(stack) is list else _NO_STACK)


_NO_STACK: Final[Stack] = []


def _blocks(values: list[Any], start: int, segment: str) -> Iterator[Block]:
    for number, raw in enumerate(values):
        where = f"{segment}.blocks[{number}]"
        value = _mapping(raw, where)
        size = _whole(value, "size", where, MAX_BYTES)
        state = value.get("state")
        if not isinstance(state, str):
            raise _wrong(state, f"{where}.state", "text")
        allocated = state == "active_allocated"
        yield Block(
            address=_whole(value, "address", where, MAX_ADDRESS, default=start),
            bytes=size,
            requested_bytes=_whole(value, "requested_size", where, MAX_BYTES, default=size)
            if allocated
            else 0,
            is_allocated=allocated,
            is_active=allocated or state.startswith("active"),
            stack=_block_stack(value),
        )
        start += size


def _block_stack(value: Mapping[str, Any]) -> Stack:
    """Under `frames`, or with the last entry of `history` (2.0)."""
    stack, history = value.get("frames"), value.get("history")
    if stack is None and isinstance(history, list) and history and isinstance(history[0], dict):
        stack = history[0].get("frames")
    return stack if isinstance(stack, list) else _NO_STACK


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, where, "a dict")
    return value


def _whole(value: Mapping[str, Any], key: str, where: str, most: int, default: int | None = None) -> int:
    """A whole number from 0 on; the default where the key is missing."""
    number = value.get(key, default)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
        raise _wrong(number, f"{where}.{key}", f"0 to {most}")
    return number


def _wrong(value: object, where: str, allowed: str) -> MemoryFileError:
    """A value is missing or cannot be."""
    if value is None:
        return MemoryFileError("missing", where)
    return MemoryFileError("bad_value", where, given=_shown(value), allowed=allowed)


def _shown(value: object) -> str:
    """What was given, short; lists and dicts by their kind, as they may hold themselves."""
    return str(value)[:40] if isinstance(value, int | float | str | bool) else type(value).__name__


def _stream(value: Mapping[str, Any]) -> int:
    stream = value.get("stream")
    return stream if type(stream) is int else 0


def _pool(value: object) -> tuple[int, int] | None:
    """Id of a private pool; (0, 0) is the common one."""
    match value:
        case (int(first), int(second)) if (first, second) != (0, 0):
            return first, second
        case _:
            return None


def _settings(values: Mapping[Any, Any]) -> AllocatorSettings:
    """What decides sizes; settings that cannot be are left at their defaults, as they only make sizes exact."""
    limit = values.get("max_split_size")
    is_limit = type(limit) is int and SMALL_BYTES < limit < MAX_BYTES
    return AllocatorSettings(
        expandable_segments=values.get("expandable_segments") is True,
        max_split_bytes=limit if is_limit else None,
        roundup_power2_divisions=_roundup(values.get("roundup_power2_divisions")),
    )


def _roundup(values: object) -> tuple[int, ...]:
    """Divisions by power of two, keyed by the size in MiB as text."""
    if not isinstance(values, dict):
        return NO_ROUNDUP
    found = [values.get(str(1 << power), 0) for power in range(NUM_ROUNDUP_INTERVALS)]
    good = all(type(steps) is int and 0 <= steps <= MAX_BYTES and steps & (steps - 1) == 0 for steps in found)
    return tuple(found) if good else NO_ROUNDUP
