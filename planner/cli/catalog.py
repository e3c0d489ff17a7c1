"""What the catalog holds, as tables: the rows of models and of cards whose name or kind contains a word."""

from collections.abc import Mapping
from typing import Any, Final

from planner.cli.problems import InputError
from planner.cli.report import gib_text, table
from planner.hardware import Gpu

DIFFUSION: Final = "diffusion"
"""In place of a model type, which a pipeline of several models has not."""


def model_table(
    models: Mapping[str, Mapping[str, Any]], pipelines: Mapping[str, Mapping[str, Any]], word: str
) -> list[str]:
    """Id, model type and number of parameters of each model, then of each diffusion pipeline, its parts together.

    Args:
        models: Rows of the catalog by id.
        pipelines: Rows of diffusion pipelines by id.
        word: What id or model type contains, in any case; empty for all.

    Raises:
        InputError: No row does.
    """
    wanted = word.casefold()
    every = [
        *(
            [name, str(row.get("model_type") or "-"), _count(row.get("params_total"))]
            for name, row in models.items()
        ),
        *([name, DIFFUSION, _count(_in_all(row))] for name, row in pipelines.items()),
    ]
    rows = [row for row in every if wanted in f"{row[0]} {row[1]}".casefold()]
    if not rows:
        raise InputError(f"models: nothing matches {word!r}; leave it out to see all {len(every)}")
    return table(["id", "model type", "parameters"], rows, left=2)


def gpu_table(gpus: Mapping[str, Gpu], word: str) -> list[str]:
    """Id, name and usable memory of each card, and where that size is from.

    Args:
        gpus: Cards by id.
        word: What id or name contains, in any case; empty for all.

    Raises:
        InputError: No card does.
    """
    wanted = word.casefold()
    rows = [
        [gpu.id, gpu.name, gib_text(gpu.usable_bytes, 2), gpu.usable_source]
        for gpu in gpus.values()
        if wanted in f"{gpu.id} {gpu.name}".casefold()
    ]
    if not rows:
        raise InputError(f"gpus: nothing matches {word!r}; leave it out to see all {len(gpus)}")
    return table(["id", "name", "usable GiB", "from"], rows, left=2)


def _in_all(pipeline: Mapping[str, Any]) -> int:
    return sum(part["params"] for part in pipeline["components"])


def _count(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "-"
