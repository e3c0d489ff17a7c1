"""A real training step, measured in a child process and laid beside the plan.

PyTorch is loaded in the child alone (`profiler.worker`, `profiler.hook` inside the program that is watched), never by
this package itself; `profiler.watch_training` is for programs that have it already.
"""

from typing import Any

__all__ = ["watch_training"]


def __getattr__(name: str) -> Any:
    if name == "watch_training":
        from importlib import import_module  # noqa: PLC0415  # PyTorch comes with it

        return import_module("profiler.hook.inside").watch_training
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
