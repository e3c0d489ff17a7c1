"""A memory file as lines of plain text and as JSON, for the command line."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.units import MIB
from profiler.snapshot.errors import MemoryFileError
from profiler.snapshot.view import BlockNote, DeviceMemory, Frame, Level, MemoryFile, OutOfMemory, Remark

_WARNINGS = {
    "history_off": "no history was recorded: levels only (torch.cuda.memory._record_memory_history)",
    "history_wrapped": "the history starts with {mib} MiB in use; what came before is not in the file",
    "sizes_estimated": "{count} blocks freed early in the history may be up to 1 MiB larger than counted",
    "events_skipped": "{count} events of the history fit nothing before them and were left out",
    "history_differs": "the history ends {mib} MiB away from what the snapshot holds",
    "earlier_readings": "{count} earlier readings left out",
    "rounded": "printed figures are cut to units of up to {mib} MiB",
}

_PROBLEMS = {
    "too_large": "larger than a memory file may be; record fewer events (max_entries) and dump again",
    "empty": "nothing in it",
    "compressed": "compressed; unpack it first",
    "not_pickle": "no pickle, and no text of memory_stats or memory_summary",
    "truncated": "ends in the middle; copy or dump it again",
    "not_plain": "refused, nothing in it was run: a snapshot holds plain values only, and this asks for code",
    "too_long_number": "a whole number of more than 64 bits, which no snapshot holds",
    "too_complex": "refused: reading it would take far more memory than a snapshot of its size does",
    "not_snapshot": "a pickle, but no memory snapshot",
    "missing": "a value that every version of PyTorch writes is missing",
    "bad_value": "a value that cannot be",
    "not_memory_text": "text or JSON, but neither memory_stats nor memory_summary",
}


def as_json(seen: MemoryFile) -> dict[str, Any]:
    """The view as plain values; stacks by their innermost frame outside of libraries."""
    return {
        "source": seen.source,
        "settings": seen.settings,
        "devices": [_device_json(device) for device in seen.devices],
        "remarks": [asdict(remark) for remark in seen.remarks],
    }


def _device_json(device: DeviceMemory) -> dict[str, Any]:
    return {
        "device": device.device,
        "peak_allocated_bytes": device.peak_allocated_bytes,
        "peak_reserved_bytes": device.peak_reserved_bytes,
        "now": asdict(device.now),
        "pools": [asdict(pool) for pool in device.pools],
        "categories": device.categories(),
        "largest": [_block_json(note) for note in device.largest],
        "ooms": [asdict(stop) for stop in device.ooms],
        "num_ooms": device.num_ooms,
        "retries": device.retries,
        "events": device.num_events,
        "figures": {name: asdict(figure) for name, figure in device.figures},
    }


def _block_json(note: BlockNote) -> dict[str, Any]:
    values = asdict(note)
    del values["frames"]
    return values


def error_line(problem: MemoryFileError) -> str:
    """Why a file could not be read: a sentence, the place and values."""
    said = _PROBLEMS.get(problem.code, problem.code.replace("_", " "))
    values = (f"{name.replace('_', ' ')} {value}" for name, value in problem.params.items() if value != "")
    return ": ".join(filter(None, (said, problem.field, "; ".join(values))))


def lines(seen: MemoryFile) -> Iterator[str]:
    """Levels by pool, the peak with its largest blocks, and the requests that could not be served."""
    for device in seen.devices:
        yield from _device_lines(device)
    for remark in seen.remarks:
        yield remark_line(remark)


def remark_line(remark: Remark) -> str:
    """A remark as a line."""
    where = "" if remark.device is None else f"device {remark.device}: "
    return where + _WARNINGS[remark.code].format(count=remark.count, mib=_mib(remark.bytes).strip())


def _device_lines(device: DeviceMemory) -> Iterator[str]:
    name = "device" if device.device is None else f"device {device.device}"
    yield f"{name:22}{'allocated MiB':>15}{'reserved MiB':>15}{'requested MiB':>15}{'split off MiB':>15}"
    yield _level_line("now", device.now)
    for pool in device.pools:
        private = "" if pool.private_id is None else " private {}.{}".format(*pool.private_id)
        yield _level_line(f"  {pool.pool}{private}", pool.level)
    if device.peak_allocated_bytes is not None:
        yield f"{'peak':22}{_mib(device.peak_allocated_bytes)}{_mib(device.peak_reserved_bytes)}"
    for category, size in device.by_category:
        yield f"  {category:20}{_mib(size)}"
    for note in device.largest:
        yield f"  {_mib(note.bytes)} MiB  {note.category}  {_who(note.op, note.frame)}".rstrip()
    for stop in device.ooms:
        yield _stop_line(stop)
    if device.num_ooms is not None:
        retries = "" if device.retries is None else f", retries: {device.retries}"
        yield f"requests that could not be served: {device.num_ooms}{retries}"


def _stop_line(stop: OutOfMemory) -> str:
    return (
        f"ran out ({stop.cause}) at event {stop.event}: {_mib(stop.requested_bytes).strip()} MiB asked,"
        f" {_mib(stop.free_bytes).strip()} MiB free on the device,"
        f" {_mib(stop.allocated_bytes).strip()} of {_mib(stop.reserved_bytes).strip()} MiB in use"
        f"  {_who(stop.op, stop.frame)}".rstrip()
    )


def _level_line(name: str, level: Level) -> str:
    sizes = (level.allocated_bytes, level.reserved_bytes, level.requested_bytes, level.inactive_split_bytes)
    return f"{name:22}" + "".join(map(_mib, sizes))


def _who(op: str, frame: Frame | None) -> str:
    place = "" if frame is None else f"{frame.filename}:{frame.line} {frame.name}"
    return f"{op}  {place}".strip()


def _mib(size_bytes: int | None) -> str:
    return f"{'-':>15}" if size_bytes is None else f"{size_bytes / MIB:>15.2f}"
