"""Reads a snapshot file into the view that a page shows."""

from collections.abc import Iterable, Iterator
from typing import Final

from planner.units import round_up
from profiler.allocator.rules import SMALL_BYTES, SMALL_SEGMENT_BYTES, segment_bytes
from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot.document import Block, History, Segment, SnapshotDocument, document_from
from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.history import BEFORE, Course, Life, ooms, run
from profiler.snapshot.plain import load_plain
from profiler.snapshot.stacks import Categories, owner, shown_frames
from profiler.snapshot.view import (
    UNKNOWN,
    BlockNote,
    DeviceMemory,
    Level,
    MemoryFile,
    OutOfMemory,
    PoolLevel,
    Remark,
    SnapshotPoint,
    StopCause,
)
from profiler.trace.answer import MAX_POINTS, NUM_LARGEST

MAX_OOMS: Final = 100
"""Failed requests that are shown of one device; `num_ooms` counts all."""


def read_snapshot(data: bytes) -> MemoryFile:
    """Read what `torch.cuda.memory._dump_snapshot` wrote. Nothing in the file is run.

    Args:
        data: The file, at most `profiler.snapshot.plain.MAX_FILE_BYTES`.

    Raises:
        MemoryFileError: It is hostile, broken, too large, or no snapshot.
    """
    document = document_from(load_plain(data))
    numbers = sorted(_devices(document))
    if not numbers:
        raise MemoryFileError("not_snapshot", "segments")
    read = [_Device(document, number) for number in numbers]
    return MemoryFile(
        source="snapshot",
        devices=tuple(one.view() for one in read),
        settings=document.settings_text,
        remarks=tuple(remark for one in read for remark in one.remarks()),
    )


def _devices(document: SnapshotDocument) -> set[int]:
    """Devices that hold or recorded anything; device 0 of a snapshot without either."""
    holding = {segment.device for segment in document.segments}
    recording = {number for number, history in enumerate(document.histories) if len(history)}
    return holding | recording or {0}


class _Device:
    """One device of a snapshot."""

    def __init__(self, document: SnapshotDocument, number: int) -> None:
        self._number = number
        self._settings = document.settings
        self._segments = [one for one in document.segments if one.device == number]
        self._history = document.histories[number] if number < len(document.histories) else History()
        self._course = run(self._history, self._segments, document.settings) if len(self._history) else None
        self._categories = Categories()
        self._now = level_of(self._segments)

    def view(self) -> DeviceMemory:
        """The device as a page shows it."""
        course = self._course
        lives = _lives_now(self._segments) if course is None else list(course.alive(course.peak_event))
        places = list(ooms(self._history))
        return DeviceMemory(
            device=self._number,
            now=self._now,
            pools=tuple(_pools(self._segments)),
            peak_allocated_bytes=None if course is None else max(course.allocated),
            peak_reserved_bytes=None if course is None else max(course.reserved),
            peak_event=None if course is None else course.peak_event,
            timeline=() if course is None else tuple(self._timeline(course)),
            largest=tuple(self._largest(lives)),
            by_category=self._by_category(lives),
            ooms=() if course is None else tuple(self._oom(course, place) for place in places[:MAX_OOMS]),
            num_ooms=None if course is None else len(places),
            num_events=len(self._history),
        )

    def remarks(self) -> Iterator[Remark]:
        """What to know about the record."""
        course, number = self._course, self._number
        if course is None:
            yield Remark(code="history_off", device=number)
            return
        if course.allocated[0] or course.reserved[0]:
            yield Remark(code="history_wrapped", device=number, bytes=course.allocated[0])
        if course.estimated:
            yield Remark(code="sizes_estimated", device=number, count=course.estimated)
        skipped = course.skipped + self._history.skipped
        if skipped:
            yield Remark(code="events_skipped", device=number, count=skipped)
        drift = course.allocated[-1] - self._now.allocated_bytes
        if drift:
            yield Remark(code="history_differs", device=number, bytes=drift)

    # --- owners

    def _largest(self, lives: list[Life]) -> Iterator[BlockNote]:
        pools = [
            (one.address, one.address + one.bytes, "small" if one.is_small else "large")
            for one in self._segments
        ]
        for life in sorted(lives, key=lambda one: -one.bytes)[:NUM_LARGEST]:
            who = owner(life.stack)
            yield BlockNote(
                bytes=life.bytes,
                requested_bytes=life.requested_bytes,
                category=self._categories.of(life.stack),
                module=who.module,
                op=who.op,
                frame=who.frame,
                frames=shown_frames(life.stack),
                event=None if life.born == BEFORE else life.born,
                stream=life.stream,
                pool=next((name for start, end, name in pools if start <= life.address < end), ""),
            )

    def _by_category(self, lives: list[Life]) -> tuple[tuple[str, int], ...]:
        totals: dict[str, int] = {}
        for life in lives:
            name = self._categories.of(life.stack)
            totals[name] = totals.get(name, 0) + life.bytes
        return tuple(sorted(totals.items(), key=lambda item: -item[1]))

    def _oom(self, course: Course, place: int) -> OutOfMemory:
        history, who = self._history, owner(self._history.stacks[place])
        size, free = history.bytes[place], history.addresses[place]
        reserved = course.reserved[place + 1]
        return OutOfMemory(
            event=place,
            requested_bytes=size,
            free_bytes=free,
            allocated_bytes=course.allocated[place + 1],
            reserved_bytes=reserved,
            cause=_cause(size, free, course.requested[place + 1], reserved, self._settings),
            frame=who.frame,
            op=who.op,
        )

    # --- timeline

    def _timeline(self, course: Course) -> Iterator[SnapshotPoint]:
        """What was there before, then the fullest event of each stretch."""
        allocated, times = course.allocated, self._history.times_us
        stretch = -(-len(self._history) // (MAX_POINTS - 1))
        ends = range(1, len(allocated), stretch)
        chosen = [
            0,
            *(max(range(e, min(e + stretch, len(allocated))), key=allocated.__getitem__) for e in ends),
        ]
        for place, totals in self._totals(course, chosen):
            time_us = times[place - 1] if place else -1
            yield SnapshotPoint(
                event=place - 1,
                step=0,
                phase="",
                allocated_bytes=allocated[place],
                reserved_bytes=course.reserved[place],
                categories=totals,
                time_us=None if time_us < 0 else time_us,
                active_bytes=course.active[place],
            )

    def _totals(self, course: Course, chosen: list[int]) -> Iterator[tuple[int, tuple[tuple[str, int], ...]]]:
        """Bytes by category after each of the chosen events, which are in order."""
        known = [
            (life, name) for life in course.lives if (name := self._categories.of(life.stack)) != UNKNOWN
        ]
        changes = sorted(
            [(life.born + 1, name, life.bytes) for life, name in known]
            + [(life.died + 1, name, -life.bytes) for life, name in known if life.died is not None]
        )
        totals: dict[str, int] = {}
        done = 0
        for place in chosen:
            while done < len(changes) and changes[done][0] <= place:
                _, name, size = changes[done]
                totals[name] = totals.get(name, 0) + size
                done += 1
            rest = course.allocated[place] - sum(totals.values())
            named = [(name, size) for name, size in sorted(totals.items()) if size]
            yield place, (*named, *([(UNKNOWN, rest)] if rest else []))


def _cause(size: int, free: int, live: int, reserved: int, settings: AllocatorSettings) -> StopCause:
    """Why a request could not be served.

    Args:
        size: The block that was asked for.
        free: What the driver said was free.
        live: What the blocks in use were asked for.
        reserved: Segments held.
        settings: The allocator's.
    """
    if _from_driver(size, settings) <= free:
        return "limit"
    return "demand" if live + size > reserved + free else "fragmentation"


def _from_driver(size: int, settings: AllocatorSettings) -> int:
    """What the driver is asked for; expandable segments grow by whole pages."""
    if not settings.expandable_segments:
        return segment_bytes(size, settings)
    return round_up(size, SMALL_SEGMENT_BYTES if size <= SMALL_BYTES else settings.large_segment_bytes)


def _lives_now(segments: Iterable[Segment]) -> list[Life]:
    """Blocks in use when the snapshot was taken."""
    return [
        Life(block.address, block.bytes, block.requested_bytes, BEFORE, block.stack, segment.stream)
        for segment in segments
        for block in segment.blocks
        if block.is_allocated
    ]


def _pools(segments: list[Segment]) -> Iterator[PoolLevel]:
    """The common pools, then the private ones, large before small."""
    kinds: dict[tuple[tuple[int, int], bool], list[Segment]] = {}
    for one in segments:
        kinds.setdefault((one.private_id or (0, 0), one.is_small), []).append(one)
    for (_, is_small), own in sorted(kinds.items(), key=lambda item: item[0]):
        yield PoolLevel(
            pool="small" if is_small else "large",
            private_id=own[0].private_id,
            segments=len(own),
            level=level_of(own),
        )


def level_of(segments: Iterable[Segment]) -> Level:
    """What segments hold, as the allocator counts it.

    Free memory of expandable segments is not counted as split off, as it is given back page by page.
    """
    own = list(segments)
    blocks = [block for one in own for block in one.blocks]
    return Level(
        allocated_bytes=_sum(block for block in blocks if block.is_allocated),
        reserved_bytes=sum(one.bytes for one in own),
        active_bytes=_sum(block for block in blocks if block.is_active),
        requested_bytes=sum(block.requested_bytes for block in blocks),
        inactive_split_bytes=_sum(
            block
            for one in own
            if not one.is_expandable and len(one.blocks) > 1
            for block in one.blocks
            if not block.is_active
        ),
    )


def _sum(blocks: Iterable[Block]) -> int:
    return sum(block.bytes for block in blocks)
