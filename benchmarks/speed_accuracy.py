"""Speed against every published run: `python -m benchmarks.speed_accuracy [--json] [--write]`.

Two tests. `family`: constants come from the other families, so the runtime may never have been seen. `fold`: one
row in five is left out, so its family was seen but not the row. The simple rules stand beside, under the same tests.
`--write` stores the constants and the bands in hardware_db/data/constants_speed.toml, and this score beside them.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks import speed_baselines as simple
from benchmarks import speed_publish as publish
from benchmarks.records import load
from benchmarks.speed_bands import held_out
from benchmarks.speed_constants import write
from benchmarks.speed_fit import (
    Data,
    ServingData,
    TrainingData,
    cross_validated,
    errors,
    factors_of,
    fit,
    fold_of,
    names_of,
)
from benchmarks.speed_rows import ServingRow, TrainingRow, serving_rows, training_rows
from hardware_db import load_tables
from hardware_db.scores import SpeedLine
from planner.accuracy.score import percentile

Vector = NDArray[np.float64]
GROUPS: Final = {
    "training": ("train_dense", "train_moe"),
    "decode at batch 1, 16-bit": ("decode_full",),
    "decode at batch 1, quantized": ("decode_packed",),
    "served batches": ("served_batch",),
    "offline": ("offline",),
    "prefill": ("prefill",),
}
RULE_OF: Final = {
    "training": "train", "decode at batch 1, 16-bit": "decode", "decode at batch 1, quantized": "decode",
    "served batches": "served_batch", "offline": "offline", "prefill": "prefill",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Result:
    """Everything fitted for training or for serving."""

    data: Data
    at: Vector
    factors: dict[str, float]
    fitted: Vector
    family: Vector
    fold: Vector
    points: list[Vector]
    metrics: NDArray[np.str_]
    simple_family: Vector
    simple_fold: Vector

    @property
    def rates(self) -> dict[str, float]:
        """Constants by name."""
        return dict(zip(names_of(self.data.start), map(float, np.exp(self.at)), strict=True))


def evaluate(data: Data, rows: Sequence[TrainingRow] | Sequence[ServingRow], rule: Any) -> Result:
    """Fits, cross-validates twice, and does the same to the simple rule."""
    every, folds = np.ones(len(rows), bool), fold_of(rows)
    at = fit(data, every)
    factors = factors_of(data, at, every)
    family, points = cross_validated(data, data.families, at)
    fold, _ = cross_validated(data, folds, at)
    ideal, seen, keys = rule(rows)
    return Result(
        data, at, factors, errors(data, at, factors, every), family, fold, points,
        np.array([row.metric for row in rows]),
        simple.left_out(ideal, seen, keys, data.families, data.kinds),
        simple.left_out(ideal, seen, keys, folds, data.kinds),
    )  # fmt: skip


def absolute(log_time: Vector, metrics: NDArray[np.str_]) -> Vector:
    """|predicted / observed - 1| of the published figure: a rate is the inverse of a time."""
    sign = np.where(np.isin(metrics, ("rate", "tokens_per_s_per_gpu", "tflops_per_gpu")), -1.0, 1.0)
    return np.asarray(np.abs(np.exp(sign * log_time) - 1))


def by_family(error: Vector, families: NDArray[np.str_], share: float) -> float:
    """Mean over families of a quantile of each."""
    return float(
        np.mean([percentile(sorted(map(float, error[families == f])), share) for f in np.unique(families)])
    )


def inside(result: Result, mask: Any) -> tuple[float, float]:
    """Share of runs inside a band made without their source, and the mean of the sources' own shares."""
    data = result.data
    held = [found for _, found in held_out(result.family, data.families, data.kinds, mask)]
    return float(np.mean(np.concatenate(held))), float(np.mean([found.mean() for found in held]))


def lines_of(result: Result) -> list[SpeedLine]:
    """The lines of the table that these rows make."""
    found = []
    for group, kinds in GROUPS.items():
        mask = np.isin(result.data.kinds, kinds)
        if not mask.any():
            continue
        families, metrics = result.data.families[mask], result.metrics[mask]

        def of(
            log_time: Vector, share: float, mask: Any = mask, names: Any = families, m: Any = metrics
        ) -> float:
            return by_family(absolute(log_time[mask], m), names, share)

        by_run, by_source = inside(result, mask)
        found.append(
            SpeedLine(
                group=group,
                kinds=kinds,
                families=len(np.unique(families)),
                rows=int(mask.sum()),
                family_median=of(result.family, 0.5),
                family_p90=of(result.family, 0.9),
                fold_median=of(result.fold, 0.5),
                fold_p90=of(result.fold, 0.9),
                fitted_median=of(result.fitted, 0.5),
                inside_frac=by_run,
                inside_family_frac=by_source,
                simple_key=RULE_OF[group],
                simple=simple.RULES[RULE_OF[group]],
                simple_family_median=of(result.simple_family, 0.5),
                simple_fold_median=of(result.simple_fold, 0.5),
            )
        )
    return found


def table(lines: Sequence[SpeedLine]) -> str:
    """The lines as text."""
    head = "group                          fam rows | family med  p90 | fold med  p90 | fitted"
    head += " | in band, by source | rule: family  fold"
    text = [head]
    text += [
        f"{x.group:30s} {x.families:3d} {x.rows:4d} |     {x.family_median:6.1%} {x.family_p90:5.0%} |"
        f"   {x.fold_median:6.1%} {x.fold_p90:5.0%} | {x.fitted_median:6.1%} |  {x.inside_frac:6.0%}"
        f" {x.inside_family_frac:9.0%} |      {x.simple_family_median:6.0%}"
        f" {x.simple_fold_median:6.0%}  {x.simple}"
        for x in lines
    ]
    return "\n".join(text)


def families_table(result: Result) -> str:
    """Median error of every family, both tests."""
    keys = np.char.add(np.char.add(result.data.kinds, " "), result.data.families)
    text = []
    for key in np.unique(keys):
        mask = keys == key
        family, fold, fitted = (
            float(np.median(absolute(log_time[mask], result.metrics[mask])))
            for log_time in (result.family, result.fold, result.fitted)
        )
        text.append(f"  {key:42s} {int(mask.sum()):4d}  {family:6.1%}  {fold:6.1%}  {fitted:6.1%}")
    return "\n".join(text)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed_accuracy", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument("--write", action="store_true", help="store constants and bands")
    options = parser.parse_args()
    tables, records = load_tables(), load(("speed.jsonl",))
    trained, left_training = training_rows(records, tables)
    served, left_serving = serving_rows(records, tables)
    training = evaluate(TrainingData(trained), trained, simple.training_rule)
    serving = evaluate(ServingData(served), served, simple.serving_rule)
    lines = lines_of(training) + lines_of(serving)
    if options.write:
        write(training, serving)
        families = [row for found in (training, serving) for row in publish.family_rows(found, absolute)]
        left_out = sum(left_training.values()) + sum(left_serving.values())
        publish.write(publish.document(lines, families, left_out))
    if options.json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
        return
    print(table(lines))
    print(f"no answer: {left_training | left_serving or 'none'}")
    print("median error of each family: family left out, row left out, fitted")
    print(families_table(training))
    print(families_table(serving))
    print({name: float(f"{value:.3g}") for name, value in (training.rates | training.factors).items()})
    print({name: float(f"{value:.3g}") for name, value in serving.rates.items()})


if __name__ == "__main__":
    main()
