"""Runs a device's history again: what was in use and held after each event, and each block's life.

The record gives what was asked for, not the size of the block. A block's size is known where the snapshot still
holds it; else it follows from the allocator's rules: a request of the large pool that finds a free block not
much larger keeps all of it, and how far a free block reaches is told by what lies behind it.

A record that was cut at its start (`max_entries`) or started late says what was there before: what is freed
without having been made, and what the snapshot holds without its having been made.
"""

from array import array
from collections.abc import Iterable, Iterator, MutableSequence
from dataclasses import dataclass, field
from typing import Final

from profiler.allocator.rules import SMALL_BYTES, round_request
from profiler.allocator.settings import AllocatorSettings
from profiler.snapshot.document import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    OOM,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    Block,
    History,
    Segment,
    Stack,
)

BEFORE: Final = -1
"""Position of what was there before the first event."""

_NEAR_BITS: Final = SMALL_BYTES.bit_length() - 1
_MAX_NEAR: Final = 8


@dataclass(slots=True)
class Life:
    """A block from its making to its freeing.

    Attributes:
        address: First byte.
        bytes: Size.
        requested_bytes: What was asked for.
        born: Event that made it, `BEFORE` if it was there before.
        stack: Who asked.
        stream: CUDA stream.
        died: Event that freed it, None if it is still in use.
        is_active: In use or waiting for another stream.
    """

    address: int
    bytes: int
    requested_bytes: int
    born: int
    stack: Stack
    stream: int
    died: int | None = None
    is_active: bool = True

    def is_alive(self, event: int) -> bool:
        """In use after an event."""
        return self.born <= event and (self.died is None or self.died > event)


@dataclass(slots=True)
class Course:
    """What was in use and held after each event; the first item is before the first event.

    Attributes:
        allocated: Blocks in use.
        active: Blocks in use or waiting for another stream.
        requested: What the blocks in use were asked for.
        reserved: Segments held.
        lives: Every block.
        estimated: Blocks whose size may be too small by up to 1 MiB.
        skipped: Events that contradict the rest.
    """

    allocated: MutableSequence[int] = field(default_factory=lambda: array("q"))
    active: MutableSequence[int] = field(default_factory=lambda: array("q"))
    requested: MutableSequence[int] = field(default_factory=lambda: array("q"))
    reserved: MutableSequence[int] = field(default_factory=lambda: array("q"))
    lives: list[Life] = field(default_factory=list)
    estimated: int = 0
    skipped: int = 0

    @property
    def peak_event(self) -> int:
        """Event after which most was in use, the first of several; `BEFORE` if that was at the start."""
        return max(range(len(self.allocated)), key=self.allocated.__getitem__) + BEFORE

    def alive(self, event: int) -> Iterator[Life]:
        """Blocks in use after an event."""
        return (life for life in self.lives if life.is_alive(event))


def run(history: History, segments: Iterable[Segment], settings: AllocatorSettings) -> Course:
    """Follow a history to its end.

    Args:
        history: One device's.
        segments: Those of the device when the snapshot was taken.
        settings: The allocator's.
    """
    return _Run(history, tuple(segments), settings).course


class _Borders:
    """Where something begins behind a block: the next block in use, or the end of the segment."""

    def __init__(self) -> None:
        self._near: dict[int, list[int]] = {}

    def add(self, address: int) -> None:
        """Blocks of the large pool are larger than a mebibyte, so that few begin in the same one."""
        near = self._near.setdefault(address >> _NEAR_BITS, [])
        if len(near) < _MAX_NEAR:
            near.append(address)

    def remove(self, address: int) -> None:
        near = self._near.get(address >> _NEAR_BITS)
        if near and address in near:
            near.remove(address)

    def after(self, address: int) -> int | None:
        """The next border at an address or up to `SMALL_BYTES` behind it, None if there is none."""
        first = address >> _NEAR_BITS
        behind = (one for part in (first, first + 1) for one in self._near.get(part, ()) if one >= address)
        border = min(behind, default=None)
        return border if border is not None and border - address <= SMALL_BYTES else None


class _Run:
    """One pass over a history."""

    def __init__(self, history: History, segments: tuple[Segment, ...], settings: AllocatorSettings) -> None:
        self.course = Course()
        self._history = history
        self._settings = settings
        self._follows = not (
            settings.expandable_segments or history.is_mapped or any(one.is_expandable for one in segments)
        )
        self._borders = _Borders()
        self._sizes: dict[int, int] = {}
        self._live: dict[int, Life] = {}
        self._allocated = self._active = self._requested = self._reserved = 0
        self._final = {b.address: b for segment in segments for b in segment.blocks if b.is_active}
        self._last = {
            address: place
            for place, (action, address) in enumerate(zip(history.actions, history.addresses, strict=True))
            if action <= FREE_COMPLETED
        }
        self._start(segments)
        self._follow()

    # --- before the first event

    def _start(self, segments: tuple[Segment, ...]) -> None:
        for address, size in self._segments_at_start(segments):
            self._add_segment(address, size)
        history = self._history
        final = sum(segment.bytes for segment in segments)
        changes = zip(history.actions, history.bytes, strict=True)
        self._reserved = max(final - sum(_reserves(action, size) for action, size in changes), 0)
        before = list(self._blocks_at_start())
        for life in before:
            self._borders.add(life.address)
        for life in before:
            self._size_at_start(life)
            self._begin(life)
            if life.died == BEFORE:
                self._end(life, BEFORE)
        self._note()

    def _segments_at_start(self, segments: tuple[Segment, ...]) -> Iterator[tuple[int, int]]:
        """First byte and size of the segments that were there before the first event."""
        touched: set[int] = set()
        history = self._history
        for place, action in enumerate(history.actions):
            if action not in {SEGMENT_ALLOC, SEGMENT_FREE} or place in history.is_mapped:
                continue
            address = history.addresses[place]
            if address not in touched and action == SEGMENT_FREE:
                yield address, history.bytes[place]
            touched.add(address)
        yield from ((one.address, one.bytes) for one in segments if one.address not in touched)

    def _blocks_at_start(self) -> Iterator[Life]:
        """Blocks that are freed or still there without having been made; those waiting for a stream have died.

        The stack of a free may be that of the one who freed, so that it tells nothing of the block.
        """
        history, touched = self._history, set[int]()
        is_two_step = FREE_REQUESTED in history.actions
        for place, action in enumerate(history.actions):
            if action > FREE_COMPLETED or (address := history.addresses[place]) in touched:
                continue
            touched.add(address)
            if action != ALLOC:
                size, stream = history.bytes[place], history.streams[place]
                died = BEFORE if action == FREE_COMPLETED and is_two_step else None
                yield Life(address, 0, size, BEFORE, [], stream, died=died)
        for address, block in self._final.items():
            if address not in touched:
                yield _life_of(block)

    def _size_at_start(self, life: Life) -> None:
        """Give a block that was freed later the size it must have had."""
        if life.bytes:
            return
        needed = round_request(life.requested_bytes, self._settings.roundup_power2_divisions)
        known = self._whole(life.address, needed)
        if known is None:
            self.course.estimated += 1
        life.bytes = known or needed

    def _whole(self, address: int, needed: int) -> int | None:
        """The block that begins at an address and needs so much; None if something larger can't be ruled out."""
        if needed <= SMALL_BYTES or not self._follows:
            return needed
        limit = self._settings.max_split_bytes
        if limit is not None and needed >= limit:
            return self._sizes.get(address)
        border = self._borders.after(address + needed)
        return None if border is None else border - address

    # --- events

    def _follow(self) -> None:
        history = self._history
        does = {
            ALLOC: self._alloc,
            FREE_REQUESTED: self._free_requested,
            FREE_COMPLETED: self._free_completed,
            SEGMENT_ALLOC: self._segment_alloc,
            SEGMENT_FREE: self._segment_free,
        }
        for place, action in enumerate(history.actions):
            do = does.get(action)
            if do is not None:
                do(place, history.addresses[place], history.bytes[place])
            self._note()

    def _note(self) -> None:
        course = self.course
        course.allocated.append(self._allocated)
        course.active.append(self._active)
        course.requested.append(self._requested)
        course.reserved.append(self._reserved)

    def _alloc(self, place: int, address: int, size: int) -> None:
        old = self._live.get(address)
        if old is not None:
            self.course.skipped += 1
            self._end(old, place)
            self._leave(old)
        final = self._final.get(address) if self._last[address] == place else None
        known = self._size(address, size) if final is None else final.bytes
        history = self._history
        self._begin(Life(address, known, size, place, history.stacks[place], history.streams[place]))
        self._borders.add(address)

    def _size(self, address: int, size: int) -> int:
        """The block that a request got: a free one that is larger by more than a mebibyte is split."""
        needed = round_request(size, self._settings.roundup_power2_divisions)
        return self._whole(address, needed) or needed

    def _free_requested(self, place: int, address: int, _: int) -> None:
        life = self._live.get(address)
        if life is None or life.died is not None:
            self.course.skipped += 1
        else:
            self._end(life, place)

    def _free_completed(self, place: int, address: int, _: int) -> None:
        life = self._live.get(address)
        if life is None:
            self.course.skipped += 1
            return
        if life.died is None:
            self._end(life, place)
        self._leave(life)

    def _segment_alloc(self, place: int, address: int, size: int) -> None:
        self._reserved += size
        if place not in self._history.is_mapped:
            self._add_segment(address, size)

    def _add_segment(self, address: int, size: int) -> None:
        self._sizes[address] = size
        self._borders.add(address + size)

    def _segment_free(self, place: int, address: int, size: int) -> None:
        self._reserved = max(self._reserved - size, 0)
        if place not in self._history.is_mapped:
            self._borders.remove(address + size)

    # --- lives

    def _begin(self, life: Life) -> None:
        self.course.lives.append(life)
        self._live[life.address] = life
        self._allocated += life.bytes
        self._active += life.bytes
        self._requested += life.requested_bytes

    def _end(self, life: Life, place: int) -> None:
        """No longer in use."""
        if life.died is None or life.died == BEFORE == place:
            life.died = place
            self._allocated -= life.bytes
            self._requested -= life.requested_bytes

    def _leave(self, life: Life) -> None:
        """No longer waiting for a stream either."""
        life.is_active = False
        self._active -= life.bytes
        self._borders.remove(life.address)
        del self._live[life.address]


def _life_of(block: Block) -> Life:
    died = None if block.is_allocated else BEFORE
    return Life(block.address, block.bytes, block.requested_bytes, BEFORE, block.stack, 0, died=died)


def _reserves(action: int, size: int) -> int:
    """What an event adds to the reserved memory."""
    return size if action == SEGMENT_ALLOC else -size if action == SEGMENT_FREE else 0


def ooms(history: History) -> Iterator[int]:
    """Positions of the requests that could not be served."""
    return (place for place, action in enumerate(history.actions) if action == OOM)
