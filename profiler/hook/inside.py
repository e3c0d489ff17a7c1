"""`with watch_training(model, optimizer) as watched:` around one's own training loop."""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from profiler.hook.attach import attach_backward, attach_model, attach_optimizer
from profiler.hook.collect import collect
from profiler.hook.everywhere import about_this_process, is_out_of_memory
from profiler.hook.lines import Lines
from profiler.hook.settings import HookSettings
from profiler.hook.watcher import Watcher
from profiler.report import Report
from profiler.report_file import Written, write_report
from profiler.report_parts import Program


class Watched:
    """A watched `with` block.

    Args:
        model: The model that the block calls.
        optimizers: Its optimizers.
        report: Where the report goes at the end, None for nowhere.
        follow_step: Step whose tensors are followed one by one (slow), 0 for none.
        every: Every which step is sampled.
        keep_peaks: Leave CUDA's peak counters alone.
    """

    def __init__(
        self,
        model: Any,
        optimizers: Iterable[Any],
        *,
        report: Path | None,
        follow_step: int,
        every: int,
        keep_peaks: bool,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headroom-hook-")
        settings = HookSettings(
            folder=self._folder.name, follow_step=follow_step, every=every, keep_peaks=keep_peaks
        )
        self._model, self._optimizers, self._path = model, tuple(optimizers), report
        self._lines = Lines(settings.lines_path())
        self._watcher = Watcher(self._lines, settings)
        self._undo: list[Any] = []
        self.report: Report | None = None
        self.written: Written | None = None

    def snapshot(self, path: str | Path) -> None:
        """Write a memory snapshot of the next sampled step (CUDA)."""
        self._watcher.request_snapshot(str(path))

    def __enter__(self) -> "Watched":
        """Begin to watch."""
        self._lines.write("begin", **about_this_process())
        self._undo = [attach_model(self._watcher, self._model), attach_backward(self._watcher)]
        self._undo += [attach_optimizer(self._watcher, one) for one in self._optimizers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to watch and make the report, also of a block that raised."""
        while self._undo:
            self._undo.pop()()
        if error is not None and is_out_of_memory(error):
            self._watcher.ran_out_of_memory(str(error))
        elif error is not None and kind is not None:
            self._lines.write("error", step=self._watcher.step, detail=f"{kind.__name__}: {error}"[:2000])
        self._watcher.close()
        self.report = collect(Path(self._folder.name), Program(way="hook"))
        self._folder.cleanup()
        if self._path is not None and self.report is not None:
            self.written = write_report(self.report, self._path)


def watch_training(
    model: Any,
    optimizer: Any,
    *,
    report: str | Path | None = None,
    follow_step: int = 0,
    every: int = 1,
    keep_peaks: bool = False,
) -> Watched:
    """Watch a training loop of one's own; `watched.report` is there when the block is over.

    Args:
        model: The outermost module that the loop calls.
        optimizer: Its optimizer, or several of them.
        report: File that the report is written to.
        follow_step: Step whose tensors are followed one by one: exact bytes by kind, and slow. 0 for none.
        every: Every which step is sampled; doubled where sampling takes more than 2 % of the steps' time.
        keep_peaks: Leave CUDA's peak counters alone, if the loop reads them itself. Peaks by phase are then those
            since the start.

    Raises:
        ValueError: A number is out of range.
    """
    if follow_step < 0:
        raise ValueError(f"follow_step: {follow_step} given; 0 or more")
    if every < 1:
        raise ValueError(f"every: {every} given; 1 or more")
    several = tuple(optimizer) if isinstance(optimizer, list | tuple) else (optimizer,)
    return Watched(
        model,
        several,
        report=None if report is None else Path(report),
        follow_step=follow_step,
        every=every,
        keep_peaks=keep_peaks,
    )
