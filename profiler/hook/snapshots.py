"""Memory snapshots of single steps, by request. Only CUDA's allocator keeps them."""

from pathlib import Path

import torch

from profiler.hook.lines import Lines
from profiler.hook.settings import SNAPSHOT_REQUEST, HookSettings

MAX_ENTRIES = 100_000
"""Events that the allocator keeps; more would make a file that no viewer opens."""


class Snapshots:
    """Records one step's allocations and writes them down.

    Args:
        lines: Where it is told that a snapshot was written, or why not.
        settings: Which step, and the folder where a file asks for one.
    """

    def __init__(self, lines: Lines, settings: HookSettings) -> None:
        self._lines = lines
        self._step = settings.snapshot_step
        self._asking = Path(settings.folder, SNAPSHOT_REQUEST)
        self._path = str(Path(settings.folder, "snapshot.pickle"))
        self._wanted = False
        self._records = False

    def request(self, path: str) -> None:
        """Take one of the next sampled step."""
        self._path, self._wanted = path, True

    def step_begins(self, step: int) -> None:
        """Start to record where this step was asked for."""
        if not (self._wanted or step == self._step or self._asking.exists()):
            return
        self._wanted = False
        self._asking.unlink(missing_ok=True)
        try:
            if not torch.cuda.is_available():
                raise RuntimeError("no CUDA device")
            torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)  # noqa: SLF001  # the documented name
            self._records = True
        except Exception as error:  # noqa: BLE001  # its signature changes between versions
            self._lines.write("snapshot", path="", problem=f"{type(error).__name__}: {error}"[:300])

    def step_ends(self, step: int) -> None:
        """Write what was recorded."""
        if not self._records:
            return
        self._records = False
        try:
            torch.cuda.memory._dump_snapshot(self._path)  # noqa: SLF001
            torch.cuda.memory._record_memory_history(enabled=None)  # noqa: SLF001
            self._lines.write("snapshot", path=self._path, step=step, problem="")
        except Exception as error:  # noqa: BLE001
            self._lines.write("snapshot", path="", problem=f"{type(error).__name__}: {error}"[:300])

    def close(self) -> None:
        """The program ends: a step that did not end is written too."""
        self.step_ends(0)
