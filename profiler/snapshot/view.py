"""What a memory file says, in the terms of a trace's answer: levels, pools, timeline, owners of the peak, stops.

`Point`, `peak_allocated_bytes`, `peak_reserved_bytes`, `timeline`, `largest` and `categories()` mean what they
mean in `profiler.trace.answer`, so that one page shows both.
"""

from dataclasses import dataclass
from typing import Final, Literal

from planner.ledger import Category, Entry, Layer, Ledger, Phase, make_ledger
from profiler.trace.answer import Point

UNKNOWN: Final = "unknown"
"""Category of a block that nothing in the file tells the owner of."""

MEASURED: Final = "measured"
"""Stands where a formula and a reference stand in a predicted entry."""

SnapshotSource = Literal["snapshot", "stats", "summary"]
StopCause = Literal["demand", "fragmentation", "limit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something to know about a reading, worded by the page.

    Attributes:
        code: `history_wrapped`, `history_off`, `sizes_estimated`, `events_skipped`,
            `history_differs`, `earlier_readings` or `rounded`.
        device: Device it is about, None for the whole file.
        count: How many, 0 where there is nothing to count.
        bytes: How much, 0 where there is nothing to measure.
    """

    code: str
    device: int | None = None
    count: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What an allocator held at one moment. None: the file does not say.

    Attributes:
        allocated_bytes: Blocks in use (`memory_allocated`).
        reserved_bytes: Segments held (`memory_reserved`).
        active_bytes: Blocks in use or waiting for another stream.
        requested_bytes: What the blocks in use were asked for, without rounding.
        inactive_split_bytes: Free parts of segments that are partly in use: fragmentation.
    """

    allocated_bytes: int
    reserved_bytes: int | None = None
    active_bytes: int | None = None
    requested_bytes: int | None = None
    inactive_split_bytes: int | None = None

    @property
    def rounding_bytes(self) -> int | None:
        """What rounding added to the requests, None if it is not known."""
        return None if self.requested_bytes is None else max(self.allocated_bytes - self.requested_bytes, 0)

    @property
    def cached_bytes(self) -> int | None:
        """Reserved and not allocated, None if it is not known."""
        return None if self.reserved_bytes is None else max(self.reserved_bytes - self.allocated_bytes, 0)

    @property
    def fragmented_frac(self) -> float | None:
        """Share of the reserved memory that is cut off by blocks in use, None if it is not known."""
        if self.inactive_split_bytes is None or not self.reserved_bytes:
            return None
        return self.inactive_split_bytes / self.reserved_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLevel:
    """One pool of the allocator.

    Attributes:
        pool: `large` or `small`.
        private_id: Id of a private pool such as that of a CUDA graph, None for the common one.
        segments: How many, None if the file does not say.
        level: What it held.
    """

    pool: str
    private_id: tuple[int, int] | None
    segments: int | None
    level: Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One call of a stack."""

    filename: str
    line: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNote:
    """One large block alive at the fullest moment. Names as in `profiler.report.StorageNote`.

    Attributes:
        bytes: Size of the block.
        requested_bytes: What was asked for.
        category: The planner's category where the stack tells it for certain, else `UNKNOWN`.
        module: Function of the innermost module's `forward` in the stack, empty if there is none.
        op: Innermost function of a library in the stack, empty if there is no stack.
        frame: Innermost frame outside of libraries, None if there is none.
        frames: The stack, innermost first, at most `MAX_FRAMES`.
        event: Position in the history at which it was made, None if it was there before.
        stream: CUDA stream.
        pool: `large` or `small`, empty if its segment was given back.
    """

    bytes: int
    requested_bytes: int
    category: str = UNKNOWN
    module: str = ""
    op: str = ""
    frame: Frame | None = None
    frames: tuple[Frame, ...] = ()
    event: int | None = None
    stream: int = 0
    pool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPoint(Point):
    """The timeline at one event, the fullest of its stretch. `step` is 0 and `phase` empty: no file tells them.

    Attributes:
        time_us: Clock of the record in microseconds, None if it has none.
        active_bytes: Blocks in use or waiting for another stream.
    """

    time_us: int | None = None
    active_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfMemory:
    """A request that the device could not serve.

    Attributes:
        event: Position in the history.
        requested_bytes: Size of the block that was asked for, rounded by the allocator.
        free_bytes: What the driver said was free on the device.
        allocated_bytes: Blocks in use then.
        reserved_bytes: Segments held then, after everything that could be given back was given back.
        cause: `demand`: what is in use and the request exceed what the process could have;
            `fragmentation`: they would fit in one piece; `limit`: the device had the memory, but the process
            was not allowed to take it.
        frame: Innermost frame outside of libraries, None if there is none.
        op: As in `BlockNote`.
    """

    event: int
    requested_bytes: int
    free_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    cause: StopCause
    frame: Frame | None = None
    op: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A printed number.

    Attributes:
        value: Bytes or a count, as printed.
        tolerance: The true value is at least `value` and at most this much more, as printing cuts off.
    """

    value: int
    tolerance: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """One device of a file.

    Attributes:
        device: Its number, None where a text does not say.
        now: When the file was written.
        pools: The same by pool, empty if the file does not say.
        peak_allocated_bytes: Most in use over the recorded time, exactly; None: nothing was recorded.
        peak_reserved_bytes: Most held over the recorded time.
        peak_event: Event after which most was in use; -1: before the first; None: nothing was recorded.
        timeline: The recorded time, at most `MAX_POINTS` points; empty where nothing was recorded.
        largest: The largest blocks at the fullest moment; those of `now` where nothing was recorded.
        by_category: Bytes of blocks in use at that moment by category, largest first.
        ooms: Requests that could not be served, in order.
        num_ooms: How many there were, None if the file does not say.
        retries: How often everything cached was given back to try again, None if the file does not say.
        num_events: Length of the history.
        figures: Printed numbers by name such as `allocated_bytes.all.peak`, empty for a snapshot.
    """

    device: int | None
    now: Level
    pools: tuple[PoolLevel, ...] = ()
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    peak_event: int | None = None
    timeline: tuple[SnapshotPoint, ...] = ()
    largest: tuple[BlockNote, ...] = ()
    by_category: tuple[tuple[str, int], ...] = ()
    ooms: tuple[OutOfMemory, ...] = ()
    num_ooms: int | None = None
    retries: int | None = None
    num_events: int = 0
    figures: tuple[tuple[str, Figure], ...] = ()

    def categories(self) -> dict[str, int]:
        """Bytes in use by category at the fullest moment, largest first."""
        return dict(self.by_category)

    def figure(self, name: str) -> Figure | None:
        """A printed number by name, None if it is not there."""
        return dict(self.figures).get(name)

    def ledger(self) -> Ledger:
        """What of `now` has a category for certain: what rounding adds and what the allocator holds in reserve.

        Tensors are not entries: a file of the allocator knows their sizes, not what they are (`by_category`).
        """
        entries = [
            _allocator_entry(name, size, layer)
            for name, size, layer in (
                ("block_rounding", self.now.rounding_bytes, Layer.ALLOCATED),
                ("cache", self.now.cached_bytes, Layer.RESERVED),
            )
            if size
        ]
        return make_ledger(entries, (Phase.REST,))


def _allocator_entry(name: str, size_bytes: int, layer: Layer) -> Entry:
    return Entry(
        category=Category.ALLOCATOR,
        name=name,
        bytes=size_bytes,
        phases=frozenset({Phase.REST}),
        formula=MEASURED,
        symbols=(),
        reference=MEASURED,
        layer=layer,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFile:
    """A snapshot, `memory_stats` or `memory_summary`, read.

    Attributes:
        source: Which.
        devices: One per device that holds or recorded anything, in order.
        settings: `PYTORCH_CUDA_ALLOC_CONF` as the process had it, empty if not known.
        remarks: What to know about it.
    """

    source: SnapshotSource
    devices: tuple[DeviceMemory, ...]
    settings: str = ""
    remarks: tuple[Remark, ...] = ()
