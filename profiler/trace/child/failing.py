"""Tells a model that fails by itself from a fault of the tracer: the first is refused, with where it failed."""

import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from profiler.trace.module_source import FIELD, ModuleSource
from profiler.worker.workloads import CannotBuildError, cannot_build

MODEL_LIBRARIES: Final = frozenset({"transformers", "peft"})
KERNEL_LIBRARIES: Final = frozenset({"torch"})
OURS: Final = Path(__file__).parents[2]


@contextmanager
def told_apart(config: Mapping[str, Any], module: ModuleSource | None) -> Iterator[None]:
    """Turn what a model raises in its own code into a refusal; any other error passes.

    Args:
        config: Keys of the model's config.json.
        module: A user's own model in place of the one of the config.

    Raises:
        CannotBuildError: The model failed; the detail names file, line and what was said.
    """
    try:
        yield
    except CannotBuildError:
        raise
    except Exception as error:
        where = raised_in(error, None if module is None else Path(module.folder))
        if where is None:
            raise
        field, given = ("model", config.get("model_type")) if module is None else (FIELD, module.target)
        detail = ValueError(f"{type(error).__name__}: {error} ({where})")
        raise cannot_build("step_failed", field, given, detail) from error


def raised_in(error: Exception, folder: Path | None) -> str | None:
    """File and line of the model's code that an error came out of, None where another's code failed.

    Args:
        error: What was raised.
        folder: Of a user's own model; a library's model without.
    """
    frames = [(Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if not frames or frames[-1][0].is_relative_to(OURS):
        return None
    for path, line in reversed(frames):
        if path.is_relative_to(OURS):
            continue
        known = path.is_relative_to(folder) if folder else bool(MODEL_LIBRARIES.intersection(path.parts))
        if known and not KERNEL_LIBRARIES.intersection(path.parts):
            return f"{path.name}:{line}"
    return None
