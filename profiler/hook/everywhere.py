"""Watches a program that knows nothing of it: whichever model and optimizers it trains."""

import atexit
import os
import platform
import socket
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules import module as modules

from profiler.hook.attach import attach_backward, attach_every_optimizer, attach_model
from profiler.hook.lines import Lines
from profiler.hook.settings import HookSettings
from profiler.hook.watcher import Watcher


class Everywhere:
    """Finds the model that trains and ties a watcher to it.

    The first module that is called in training mode is taken for the model. If the first optimizer step shows that it
    trains others' parameters, the next calls are looked at until one has them.

    Args:
        watcher: Who is told.
    """

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._model: weakref.ref[Any] | None = None
        self._undo: Callable[[], None] | None = None
        self._global: Any = None
        self._wanted: set[int] = set()
        self._checked = False
        attach_backward(watcher)
        attach_every_optimizer(watcher, self._optimizer_steps)
        self._look()

    def _look(self) -> None:
        """Look at every call until the model is found; afterwards only the model itself is watched."""
        if self._global is None:
            self._global = modules.register_module_forward_pre_hook(self._called)

    def _called(self, module: Any, args: Any) -> None:
        with suppress(Exception):
            if not module.training or not torch.is_grad_enabled() or not self._may_be(module):
                return
            if self._global is not None:
                self._global.remove()
                self._global = None
            self._model = weakref.ref(module)
            self._undo = attach_model(self._watcher, module)
            self._watcher.forward_begins((args, {}), trains=True)

    def _may_be(self, module: Any) -> bool:
        trained = (one for one in module.parameters() if one.requires_grad)
        if not self._wanted:
            return next(trained, None) is not None
        return any(id(one) in self._wanted for one in trained)

    def _optimizer_steps(self, optimizer: Any) -> None:
        if self._checked:
            return
        with suppress(Exception):
            self._checked = True
            self._wanted = {id(one) for group in optimizer.param_groups for one in group["params"]}
            model = None if self._model is None else self._model()
            if model is not None and self._may_be(model):
                return
            if self._undo is not None:
                self._undo()
            self._look()


def install(settings: HookSettings) -> None:
    """Watch this process from now on. Called once, when PyTorch has been loaded."""
    lines = Lines(settings.lines_path())
    watcher = Watcher(lines, settings)
    lines.write("begin", **about_this_process())
    Everywhere(watcher)
    _note_errors(watcher, lines)
    atexit.register(watcher.close)


def about_this_process() -> dict[str, Any]:
    """Where and as what it runs, as plain values."""

    def number(name: str, otherwise: int) -> int:
        text = os.environ.get(name, "")
        return int(text) if text.isdecimal() else otherwise

    return {
        "pid": os.getpid(),
        "rank": number("RANK", 0),
        "world": number("WORLD_SIZE", 1),
        "host": socket.gethostname()[:100],
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda or ""),
        "system": platform.platform()[:300],
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
        "processor": (platform.processor() or platform.machine())[:100],
        "script": Path(sys.argv[0]).name if getattr(sys, "argv", None) else "",
    }


def _note_errors(watcher: Watcher, lines: Lines) -> None:
    """What the program dies of is noted before Python reports it."""
    before = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        with suppress(Exception):
            if is_out_of_memory(error):
                watcher.ran_out_of_memory(str(error))
            elif not isinstance(error, KeyboardInterrupt):
                lines.write("error", step=watcher.step, detail=f"{kind.__name__}: {error}"[:2000])
        before(kind, error, trace)

    sys.excepthook = note


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that an allocation failed."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
