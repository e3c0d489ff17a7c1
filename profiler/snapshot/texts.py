"""Reads what a program printed of `torch.cuda.memory_stats` and `torch.cuda.memory_summary`."""

import re
from collections.abc import Iterator
from typing import Final

from profiler.snapshot import stats, summary
from profiler.snapshot.document import MAX_BYTES
from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.plain import MAX_TEXT_BYTES
from profiler.snapshot.view import DeviceMemory, Figure, Level, MemoryFile, PoolLevel, Remark, SnapshotSource

MAX_READINGS: Final = 64
_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Figures = dict[str, Figure]
Reading = tuple[int | None, Figures]


def read_memory_text(text: str) -> MemoryFile:
    """Read `memory_stats` as JSON or as printed, or the tables of `memory_summary`, out of a text or a log.

    Of several readings of one device the last one counts.

    Raises:
        MemoryFileError: `empty`, `too_large`, `bad_value`, or `not_memory_text`: neither is in it.
    """
    if not text.strip():
        raise MemoryFileError("empty")
    if len(text) > MAX_TEXT_BYTES:
        raise MemoryFileError("too_large", bytes=len(text), allowed_bytes=MAX_TEXT_BYTES)
    plain = _COLOUR.sub("", text).replace("\\n", "\n")
    source: SnapshotSource = "summary"
    readings = _whole(summary.tables(plain))
    if not readings:
        source, readings = "stats", _whole(stats.dicts(plain))
    if not readings:
        raise MemoryFileError("not_memory_text")
    last = _last(readings)
    return MemoryFile(
        source=source,
        devices=tuple(_device(number, figures) for number, figures in last),
        remarks=tuple(_remarks(last, len(readings) - len(last))),
    )


def _whole(found: Iterator[Reading]) -> list[Reading]:
    """Those that say at least what is in use; a table that was cut off before that is none."""
    return [(device, figures) for device, figures in found if "allocated_bytes.all.current" in figures]


def _last(readings: list[Reading]) -> list[Reading]:
    """The last reading of each device, in order of their numbers; all of unknown ones."""
    by_device: dict[int, Reading] = {}
    unknown = []
    for reading in readings:
        if reading[0] is None:
            unknown.append(reading)
        else:
            by_device[reading[0]] = reading
    return [*(by_device[number] for number in sorted(by_device)), *unknown[-MAX_READINGS:]]


def _remarks(readings: list[Reading], left_out: int) -> Iterator[Remark]:
    if left_out:
        yield Remark(code="earlier_readings", count=left_out)
    for device, figures in readings:
        coarse = max(
            figure.tolerance for name, figure in figures.items() if name.endswith("_bytes.all.current")
        )
        if coarse:
            yield Remark(code="rounded", device=device, bytes=coarse)


def _device(number: int | None, figures: Figures) -> DeviceMemory:
    for name, figure in figures.items():
        if not 0 <= figure.value <= MAX_BYTES:
            raise MemoryFileError(
                "bad_value", name, given=str(figure.value)[:40], allowed=f"0 to {MAX_BYTES}"
            )
    return DeviceMemory(
        device=number,
        now=_level(figures, "all", "current"),
        pools=tuple(_pools(figures)),
        peak_allocated_bytes=_value(figures, "allocated_bytes.all.peak"),
        peak_reserved_bytes=_value(figures, "reserved_bytes.all.peak"),
        num_ooms=_value(figures, "num_ooms"),
        retries=_value(figures, "num_alloc_retries"),
        figures=tuple(figures.items()),
    )


def _pools(figures: Figures) -> Iterator[PoolLevel]:
    for pool in ("large", "small"):
        if f"allocated_bytes.{pool}_pool.current" in figures:
            yield PoolLevel(
                pool=pool,
                private_id=None,
                segments=_value(figures, f"segment.{pool}_pool.current"),
                level=_level(figures, f"{pool}_pool", "current"),
            )


def _level(figures: Figures, pool: str, column: str) -> Level:
    end = f".{pool}.{column}"
    return Level(
        allocated_bytes=figures["allocated_bytes" + end].value,
        reserved_bytes=_value(figures, "reserved_bytes" + end),
        active_bytes=_value(figures, "active_bytes" + end),
        requested_bytes=_value(figures, "requested_bytes" + end),
        inactive_split_bytes=_value(figures, "inactive_split_bytes" + end),
    )


def _value(figures: Figures, name: str) -> int | None:
    figure = figures.get(name)
    return None if figure is None else figure.value
