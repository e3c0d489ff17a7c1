"""Writes fitted speed constants and bands as a data file."""

from datetime import date
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.speed_bands import band
from hardware_db import DATA

FILE: Final = "constants_speed.toml"
HEAD: Final = """\
# Rates of the speed model, fitted to the published runs of tests/data/truth/speed.jsonl: `python -m
# benchmarks.speed_accuracy --write` makes this file. What each one means stands in planner/throughput/training_time.py
# and serving_time.py. `residual` tells how far the value moves when a family of rows is left out.
"""
SECONDS: Final = ("layer_s", "hop_s", "step_s", "sequence_s")
TRAINING_SOURCE: Final = "tests/data/truth/speed.jsonl, training runs of 16 families"
SERVING_SOURCE: Final = "tests/data/truth/speed.jsonl, serving runs of 17 families"
HOW_BAND: Final = (
    "end of the interval of observed over predicted time that holds nine of ten runs of a source not seen, by "
    "Student's t over {sources}, every row predicted by constants fitted without its source"
)
HOW: Final = "minimum of the family-weighted error of step times in logarithms, all constants at once"


def write(training: Any, serving: Any, folder: Path = DATA) -> None:
    """Stores what two evaluations found."""
    text = [HEAD]
    text += _rates("speed_train_", training, TRAINING_SOURCE)
    text += _factors(training)
    text += _rates("speed_serve_", serving, SERVING_SOURCE)
    text += _bands(training, TRAINING_SOURCE) + _bands(serving, SERVING_SOURCE)
    (folder / FILE).write_text("\n".join(text), encoding="utf-8", newline="\n")


def _unit(name: str) -> str:
    if name.endswith(SECONDS):
        return "seconds"
    if name.endswith("joule_per_tflop") or name == "prompt_joule":
        return "joules for 1e12 operations"
    if name.endswith("_bytes_per_s"):
        return "bytes per second"
    return "share" if name.endswith("_frac") else "ratio"


def _entry(name: str, value: float, unit: str, how: str, source: str, rows: int, **more: object) -> str:
    lines = [f"[{name}]", f"value = {value:.4g}", f'unit = "{unit}"', f'how = "{how}"']
    lines += ['versions = "as published, 2021 to 2026"', f'date = "{date.today().isoformat()}"']  # noqa: DTZ011
    lines += [f'source = "{source}"', f"n_rows = {rows}"]
    lines += [
        f'{key} = "{item}"' if isinstance(item, str) else f"{key} = {item:.4f}" for key, item in more.items()
    ]
    return "\n".join(lines) + "\n"


def _rates(prefix: str, result: Any, source: str) -> list[str]:
    points = np.exp(np.array(result.points))
    found = []
    for i, (name, value) in enumerate(result.rates.items()):
        spread = f"{points[:, i].min():.3g} to {points[:, i].max():.3g} with a family left out"
        found.append(
            _entry(prefix + name, value, _unit(name), HOW, source, len(result.fitted), residual=spread)
        )
    return found


def _factors(result: Any) -> list[str]:
    how = (
        "mean over sources of the median of observed over predicted step time, each drawn towards 1 by the weight of "
        "ten rows, their mean by the weight of one source"
    )
    found = []
    for runtime, value in result.factors.items():
        mask = result.data.runtimes == runtime
        families = ", ".join(sorted(set(result.data.families[mask])))
        left = float(np.median(np.abs(np.exp(result.fitted[mask]) - 1)))
        name = f"speed_train_factor_{runtime}"
        source = "tests/data/truth/speed.jsonl, training runs of this runtime"
        more = {"residual": f"from {families}", "residual_median_frac": left}
        found.append(_entry(name, value, "ratio", how, source, int(mask.sum()), **more))
    return found


def _bands(result: Any, source: str) -> list[str]:
    """Ends of the band of each kind for a source not seen, every row predicted without its source."""
    found, data = [], result.data
    for kind in np.unique(data.kinds):
        mask = data.kinds == kind
        sources = len(np.unique(data.families[mask]))
        ends = band(result.family, data.families, data.kinds, str(kind))
        for side, value in zip(("low", "high"), ends, strict=True):
            name = f"speed_band_{kind}_{side}_frac"
            how = HOW_BAND.format(sources=f"{sources} source{'s' if sources > 1 else ''}")
            found.append(_entry(name, value, "ratio", how, source, int(mask.sum())))
    return found
