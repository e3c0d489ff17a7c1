"""Stands first on PYTHONPATH of a watched program: once PyTorch is loaded, the hook is.

Standard library only, any Python. Whatever goes wrong here is told on standard error and the program runs unwatched.
The packages of Headroom are loaded apart and taken out of `sys.modules` again, so a module of the program's own that
bears the name of one is found by it, and not mistaken for ours.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # runs in every Python that starts
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))  # noqa: PTH120
VARIABLE = "HEADROOM_HOOK"
OURS = ("profiler", "planner")


def _tell(error: Exception) -> None:
    sys.stderr.write("headroom: not watched: %s: %s\n" % (type(error).__name__, error))  # noqa: UP031


def _own(name: str) -> bool:
    return name.partition(".")[0] in OURS


def load_apart(name: str) -> Any:
    """A module of Headroom's, with none of them left in `sys.modules`."""
    theirs = {key: sys.modules.pop(key) for key in list(sys.modules) if _own(key)}
    sys.path.insert(0, ROOT)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(ROOT)
        for key in [key for key in sys.modules if _own(key)]:
            del sys.modules[key]
        sys.modules.update(theirs)


def _install() -> None:
    try:
        everywhere = load_apart("profiler.hook.everywhere")
        settings = load_apart("profiler.hook.settings")
        everywhere.install(settings.settings_from(os.environ[VARIABLE]))
    except Exception as error:  # noqa: BLE001
        _tell(error)


class _WhenTorchIsLoaded(importlib.abc.MetaPathFinder):
    """Finds nothing itself; adds to the loading of `torch` what is to follow it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        """The usual spec of `torch`, whose loader goes on to the hook."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            _install()

        loader.exec_module = exec_module
        return spec


def _next_sitecustomize() -> None:
    """Run the one that this file stands before, if there is one."""
    others = [one for one in sys.path if os.path.abspath(one or ".") != HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get(VARIABLE):
    sys.meta_path.insert(0, _WhenTorchIsLoaded())
_next_sitecustomize()
