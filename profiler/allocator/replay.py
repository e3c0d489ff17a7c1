"""Replays a list of requests through the allocator, on a card of a given size or without a limit."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from profiler.allocator.caching import CachingAllocator, Cause, OutOfMemoryError
from profiler.allocator.expandable import ExpandableAllocator
from profiler.allocator.settings import AllocatorSettings

FREE: Final = -1
"""Stands in place of a size where a block is freed."""

Event = tuple[int, int]
"""(key, bytes asked for), or (key, `FREE`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanOut:
    """Where a replay stopped.

    Attributes:
        event: Position in the events.
        requested_bytes: What was asked for.
        segment_bytes: What the card was asked for.
        allocated_bytes: Blocks in use then.
        reserved_bytes: Segments held then, everything else given back.
        cause: `demand`: live tensors and the request exceed the card; `fragmentation`: they would fit in one
            piece.
    """

    event: int
    requested_bytes: int
    segment_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    cause: Cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the allocator counted.

    Attributes:
        allocated_bytes: Blocks in use after each event.
        reserved_bytes: Segments held after each event.
        retries: How often everything cached was given back.
        ran_out: Where it stopped, None if it ran to its end.
    """

    allocated_bytes: Sequence[int]
    reserved_bytes: Sequence[int]
    retries: int
    ran_out: RanOut | None

    @property
    def peak_allocated_bytes(self) -> int:
        """`torch.cuda.max_memory_allocated()`."""
        return max(self.allocated_bytes, default=0)

    @property
    def peak_reserved_bytes(self) -> int:
        """`torch.cuda.max_memory_reserved()`."""
        return max(self.reserved_bytes, default=0)


def make_allocator(
    settings: AllocatorSettings, capacity_bytes: int | None = None, total_bytes: int | None = None
) -> CachingAllocator:
    """The allocator that these settings choose."""
    kind = ExpandableAllocator if settings.expandable_segments else CachingAllocator
    return kind(settings, capacity_bytes, total_bytes)


def replay(
    events: Iterable[Event],
    settings: AllocatorSettings,
    capacity_bytes: int | None = None,
    total_bytes: int | None = None,
) -> Replay:
    """Run the events through a fresh allocator.

    Args:
        events: Requests and frees in order.
        settings: The allocator's.
        capacity_bytes: What the card can give the allocator, None for no limit.
        total_bytes: Memory of the whole card, None: the capacity.
    """
    allocator = make_allocator(settings, capacity_bytes, total_bytes)
    allocated, reserved = array("q"), array("q")
    count = allocator.count
    ran_out = None
    for key, size in events:
        if size == FREE:
            allocator.free(key)
        else:
            try:
                allocator.allocate(key, size)
            except OutOfMemoryError as error:
                ran_out = _ran_out(error, len(allocated))
                break
        allocated.append(count.allocated)
        reserved.append(count.reserved)
    return Replay(allocated_bytes=allocated, reserved_bytes=reserved, retries=count.retries, ran_out=ran_out)


def _ran_out(error: OutOfMemoryError, event: int) -> RanOut:
    return RanOut(
        event=event,
        requested_bytes=error.requested_bytes,
        segment_bytes=error.segment_bytes,
        allocated_bytes=error.allocated_bytes,
        reserved_bytes=error.reserved_bytes,
        cause=error.cause,
    )


def fits(events: Sequence[Event], settings: AllocatorSettings, capacity_bytes: int) -> bool:
    """Whether the events run to their end on a card that can give this much."""
    return replay(events, settings, capacity_bytes).ran_out is None
