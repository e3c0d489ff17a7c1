"""Writes what the simulated allocator did in the form in which PyTorch writes a snapshot."""

import pickle
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from planner.units import KIB, MIB
from profiler.allocator.blocks import Block
from profiler.allocator.caching import CachingAllocator, OutOfMemoryError
from profiler.allocator.expandable import ExpandableAllocator
from profiler.allocator.replay import FREE, Event
from profiler.allocator.settings import AllocatorSettings

Values = dict[str, Any]
START_US = 1_700_000_000_000_000


def frame(filename: str, line: int, name: str) -> Values:
    return {"filename": filename, "line": line, "name": name}


TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
LINEAR = [
    frame(f"{TORCH}/nn/modules/linear.py", 125, "forward"),
    frame(f"{TORCH}/nn/modules/module.py", 1751, "_call_impl"),
    frame("/home/user/train/model.py", 88, "forward"),
    frame("/home/user/train/train.py", 12, "<module>"),
]
STATES = [
    frame(f"{TORCH}/optim/adamw.py", 180, "_init_group"),
    frame(f"{TORCH}/optim/adamw.py", 240, "step"),
    frame("/home/user/train/train.py", 15, "<module>"),
]


class _Recorder:
    """Takes down what an allocator does."""

    def __init__(self) -> None:
        self.entries: list[Values] = []
        self.levels: list[tuple[int, int]] = []
        self.stack: list[Values] = []

    def add(self, action: str, address: int, size: int, level: tuple[int, int], **more: Any) -> None:
        self.entries.append(
            {
                "action": action,
                ("device_free" if action == "oom" else "addr"): address,
                "size": size,
                "stream": 0,
                "time_us": START_US + len(self.entries),
                "compile_context": "N/A",
                "user_metadata": "",
                "frames": self.stack,
                "pool_id": (0, 0),
                **more,
            }
        )
        self.levels.append(level)


class Recording(CachingAllocator):
    """The caching allocator with a recorder."""

    def __init__(self, settings: AllocatorSettings, capacity_bytes: int | None = None) -> None:
        self.recorder = _Recorder()
        super().__init__(settings, capacity_bytes)

    def _level(self) -> tuple[int, int]:
        return self.count.allocated, self.count.reserved

    def _from_device(self, needed: int, small: bool) -> Block | None:
        block = super()._from_device(needed, small)
        if block is not None:
            self.recorder.add("segment_alloc", block.address, block.bytes, self._level())
        return block

    def _release(self, block: Block) -> None:
        super()._release(block)
        self.recorder.add("segment_free", block.address, block.bytes, self._level())


class RecordingExpandable(ExpandableAllocator):
    """The allocator with expandable segments and a recorder."""

    def __init__(self, settings: AllocatorSettings, capacity_bytes: int | None = None) -> None:
        self.recorder = _Recorder()
        super().__init__(settings, capacity_bytes)

    def _level(self) -> tuple[int, int]:
        return self.count.allocated, self.count.reserved

    def _map(self, block: Block, size: int) -> bool:
        address, before = block.address, self.count.reserved
        done = super()._map(block, size)
        if done:
            self.recorder.add("segment_map", address, self.count.reserved - before, self._level())
        return done

    def _unmap(self, block: Block) -> None:
        before = self.count.reserved
        super()._unmap(block)
        if self.count.reserved < before:
            self.recorder.add("segment_unmap", block.address, before - self.count.reserved, self._level())


@dataclass
class Recorded:
    """A replay with its record.

    Attributes:
        values: The snapshot.
        levels: Allocated and reserved bytes after each entry of the record.
        peak_allocated_bytes: Highest of the first.
    """

    values: Values
    levels: list[tuple[int, int]] = field(default_factory=list)

    @property
    def peak_allocated_bytes(self) -> int:
        return max((level[0] for level in self.levels), default=0)

    def data(self, protocol: int = 4) -> bytes:
        return pickle.dumps(self.values, protocol)

    def cut(self, number: int) -> "Recorded":
        """With the last entries of the record alone, as `max_entries` leaves it."""
        return Recorded(
            self.values | {"device_traces": [self.values["device_traces"][0][-number:]]},
            self.levels[-number:],
        )


def record(
    events: Iterable[Event],
    settings: AllocatorSettings,
    capacity_bytes: int | None = None,
    stacks: dict[int, list[Values]] | None = None,
    free_bytes: int | None = None,
) -> Recorded:
    """Run events through the allocator and write them down.

    Args:
        events: Requests and frees.
        settings: The allocator's.
        capacity_bytes: As for `replay`.
        stacks: Who asks, by key.
        free_bytes: What the driver says is free when the allocator runs out; None: what the card has left.
    """
    allocator = (RecordingExpandable if settings.expandable_segments else Recording)(settings, capacity_bytes)
    recorder, stacks = allocator.recorder, stacks or {}
    addresses: dict[int, tuple[int, int]] = {}
    for key, size in events:
        recorder.stack = stacks.get(key, [])
        if size == FREE:
            _free(allocator, key, addresses)
            continue
        try:
            allocator.allocate(key, size)
        except OutOfMemoryError as error:
            left = (capacity_bytes or 0) - error.reserved_bytes
            recorder.add(
                "oom", left if free_bytes is None else free_bytes, -(-size // 512) * 512, allocator._level()
            )
            break
        block = allocator._live[key]
        addresses[key] = block.address, size
        recorder.add("alloc", block.address, size, allocator._level())
    segments = list(_segments(allocator, {a: stacks.get(key, []) for key, (a, _) in addresses.items()}))
    values = {
        "segments": segments,
        "device_traces": [recorder.entries],
        "allocator_settings": _settings(settings),
        "external_annotations": [],
    }
    return Recorded(values, recorder.levels)


def _free(
    allocator: Recording | RecordingExpandable, key: int, addresses: dict[int, tuple[int, int]]
) -> None:
    address, size = addresses.pop(key)
    allocator.free(key)
    for action in ("free_requested", "free_completed"):
        allocator.recorder.add(action, address, size, allocator._level())


def _settings(settings: AllocatorSettings) -> Values:
    return {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True" if settings.expandable_segments else "",
        "max_split_size": -1 if settings.max_split_bytes is None else settings.max_split_bytes,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {str(1 << n): d for n, d in enumerate(settings.roundup_power2_divisions)},
        "graph_capture_record_stream_reuse": False,
    }


def _segments(allocator: CachingAllocator, stacks: dict[int, list[Values]]) -> Iterable[Values]:
    """Stretches of blocks that follow one another in one segment."""
    run: list[Block] = []
    for block in (*allocator.blocks(), None):
        if run and (
            block is None
            or block.segment != run[0].segment
            or block.address != run[-1].address + run[-1].bytes
        ):
            yield _segment(run, stacks)
            run = []
        if block is not None:
            run.append(block)


def _segment(run: list[Block], stacks: dict[int, list[Values]]) -> Values:
    used = [block for block in run if not block.is_free]
    allocated = sum(block.bytes for block in used)
    return {
        "device": 0,
        "address": run[0].address,
        "total_size": sum(block.bytes for block in run),
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(block.requested_bytes for block in used),
        "stream": 0,
        "segment_type": "small" if run[0].small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": run[0].is_expandable,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": block.bytes,
                "requested_size": block.requested_bytes,
                "state": "inactive" if block.is_free else "active_allocated",
                "frames": [] if block.is_free else stacks.get(block.address, []),
            }
            for block in run
        ],
    }


def random_events(seed: int, number: int) -> list[Event]:
    """Requests of all pools and frees in any order."""
    chance = random.Random(seed)  # noqa: S311 - for variety
    sizes = (1, 700, 100 * KIB, MIB, MIB + 1, 3 * MIB, 9 * MIB + 5, 11 * MIB, 19 * MIB, 33 * MIB + 7)
    events: list[Event] = []
    live: list[int] = []
    for key in range(number):
        if live and chance.random() < 0.5:
            events.append((live.pop(chance.randrange(len(live))), FREE))
        else:
            events.append((key, max(int(chance.choice(sizes) * chance.uniform(0.5, 1)), 1)))
            live.append(key)
    return events
