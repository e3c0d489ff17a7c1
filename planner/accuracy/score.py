"""Predictions against measurements: a row for every observed figure, and the statistics of the rows.

Rules: a figure marked `undetermined` is left out; an error within the rounding of the printed figure is zero;
the records of one run (`group`) count once; a cell with fewer than 8 rows is pooled with the other small ones
of its metric.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, Final

from planner.accuracy.predict import Figure, Prediction, Predictor
from planner.accuracy.truth import Observation, Record
from planner.units import gib

CELL_ROWS: Final = 8
POOLED: Final = "(pooled)"
INFERRED_MARK: Final = "read as an out-of-memory failure"
"""Words in `assumed` that say nobody saw the failure: the run left no figures and counted as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One observed figure and its prediction.

    Attributes:
        error: predicted / observed - 1, zero within rounding; None for `fits`.
        inside_band: Whether the band around the prediction holds the observation; None without a band.
    """

    id: str
    family: str
    group: str | None
    metric: str
    predicted: Figure
    observed: Observation
    error: float | None
    inside_band: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A record, or one metric of it, that the planner has no answer for.

    Attributes:
        id: Record id.
        reason: Code and field, or the metric that is not modelled.
        family: Its source.
        metric: The metric, "" for the whole record.
    """

    id: str
    reason: str
    family: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Errors of one metric in one family.

    Attributes:
        family: The source, or `(pooled)` for the small ones together.
        n: Rows, a run counted once.
        unsupported: Observed figures without an answer.
        median_abs_error: Median of |error|.
        p90_abs_error: 90th percentile of |error|: the smallest that at least 90 % of the rows don't exceed.
        bias: Mean of the signed error.
        inside_band_frac: Share of the rows that have a band and lie inside it.
    """

    family: str
    metric: str
    n: int
    unsupported: int
    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None
    inside_band_frac: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitsTable:
    """Verdicts against what happened.

    Attributes:
        fits_said_fits: Right.
        fits_said_not: Refused, but ran.
        failed_said_fits: Unsafe: said fits, did not.
        failed_said_not: Right.
        no_verdict: Records with a prediction of None.
        unsafe_logged: Unsafe where the failure was seen.
        unsafe_inferred: Unsafe where it was inferred from missing figures.
        balanced_accuracy: Mean of the two shares of right answers; None where one side is empty.
        unsafe_gib: GiB that the central peak lay under the usable bytes, median over the unsafe ones.
        refused_gib: GiB that it lay over, median over the refused ones.
    """

    fits_said_fits: int = 0
    fits_said_not: int = 0
    failed_said_fits: int = 0
    failed_said_not: int = 0
    no_verdict: int = 0
    unsafe_logged: int = 0
    unsafe_inferred: int = 0
    balanced_accuracy: float | None = None
    unsafe_gib: float | None = None
    refused_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Everything `score` prints."""

    rows: tuple[Row, ...]
    unsupported: tuple[Unsupported, ...]
    cells: tuple[Cell, ...]
    fits: FitsTable
    num_records: int
    num_undetermined: int


def score(records: Iterable[Record], predict: Predictor) -> Score:
    """Hold a prediction against every record.

    Args:
        records: What was measured.
        predict: Called with a record's scenario and rank, and nothing else of it.
    """
    rows: list[Row] = []
    unsupported: list[Unsupported] = []
    verdicts: list[_Outcome] = []
    records = tuple(records)
    for record in records:
        prediction = _predicted(record, predict)
        if prediction.reason:
            unsupported.append(
                Unsupported(id=record.id, reason=prediction.reason, family=record.family, metric="")
            )
            continue
        for metric, observed in record.scored.items():
            known = metric in prediction.figures
            if not known or (metric != "fits" and prediction.figures[metric] is None):
                reason = f"{metric} {'has no figure here' if known else 'is not modelled'}"
                unsupported.append(
                    Unsupported(id=record.id, reason=reason, family=record.family, metric=metric)
                )
                continue
            rows.append(_row(record, metric, observed, prediction))
            if metric == "fits":
                verdicts.append(
                    _Outcome(record, prediction.figures[metric], bool(observed), prediction.over_bytes)
                )
    return Score(
        rows=tuple(rows),
        unsupported=tuple(unsupported),
        cells=_cells(rows, _unanswered(records, unsupported)),
        fits=_fits(verdicts),
        num_records=len(records),
        num_undetermined=sum(len(record.observed) - len(record.scored) for record in records),
    )


def as_json(result: Score) -> dict[str, Any]:
    """The object that `score --json` prints."""
    return {
        "rows": [asdict(row) for row in result.rows],
        "unsupported": [{"id": item.id, "reason": item.reason} for item in result.unsupported],
        "summary": {
            "records": result.num_records,
            "records_unsupported": sum(not item.metric for item in result.unsupported),
            "figures": len(result.rows),
            "figures_unsupported": sum(bool(item.metric) for item in result.unsupported),
            "figures_undetermined": result.num_undetermined,
            "cells": [asdict(cell) for cell in result.cells],
            "fits": asdict(result.fits),
        },
    }


def _predicted(record: Record, predict: Predictor) -> Prediction:
    if record.scenario is None:
        first = record.issues[0]
        return Prediction(reason=f"{first.code} at scenario.{first.field}")
    return predict(record.scenario, record.rank)


def _row(record: Record, metric: str, observed: Observation, prediction: Prediction) -> Row:
    predicted, band = prediction.figures[metric], prediction.bands.get(metric)
    rounding = record.rounding_bytes.get(metric, 0)
    error = None if metric == "fits" or predicted is None else _error(predicted, observed, rounding)
    inside = None if band is None else band[0] - rounding <= observed <= band[1] + rounding
    return Row(
        id=record.id,
        family=record.family,
        group=record.group,
        metric=metric,
        predicted=predicted,
        observed=observed,
        error=error,
        inside_band=inside,
    )


def _error(predicted: float, observed: float, rounding: int) -> float | None:
    if abs(predicted - observed) <= rounding:
        return 0.0
    return predicted / observed - 1 if observed else None


@dataclass(frozen=True, slots=True)
class _Sample:
    """One run's error in one metric: the mean over its devices."""

    absolute: float
    signed: float
    inside: float | None


def _unanswered(records: tuple[Record, ...], unsupported: list[Unsupported]) -> dict[tuple[str, str], int]:
    """Observed figures without an answer, by family and metric."""
    by_id = {record.id: record for record in records}
    counts: dict[tuple[str, str], int] = {}
    for item in unsupported:
        for metric in (item.metric,) if item.metric else by_id[item.id].scored:
            counts[item.family, metric] = counts.get((item.family, metric), 0) + 1
    return counts


def _cells(rows: list[Row], unanswered: Mapping[tuple[str, str], int]) -> tuple[Cell, ...]:
    runs: dict[tuple[str, str], dict[str, list[Row]]] = {key: {} for key in unanswered if key[1] != "fits"}
    for row in rows:
        if row.metric != "fits" and row.error is not None:
            own = runs.setdefault((row.family, row.metric), {})
            own.setdefault(row.group or f"record {row.id}", []).append(row)
    samples = {key: [_sample(members) for members in own.values()] for key, own in runs.items()}
    pooled: dict[str, list[tuple[str, str]]] = {}
    cells: list[Cell] = []
    for key, found in samples.items():
        if len(found) >= CELL_ROWS:
            cells.append(_cell(key[0], key[1], found, unanswered.get(key, 0)))
        else:
            pooled.setdefault(key[1], []).append(key)
    for metric, keys in pooled.items():
        together = [sample for key in keys for sample in samples[key]]
        cells.append(_cell(POOLED, metric, together, sum(unanswered.get(key, 0) for key in keys)))
    return tuple(sorted(cells, key=lambda cell: (cell.metric, cell.family)))


def _sample(members: list[Row]) -> _Sample:
    errors = [row.error for row in members if row.error is not None]
    inside = [float(row.inside_band) for row in members if row.inside_band is not None]
    return _Sample(fmean(abs(e) for e in errors), fmean(errors), fmean(inside) if inside else None)


def _cell(family: str, metric: str, samples: list[_Sample], unsupported: int) -> Cell:
    absolute = sorted(sample.absolute for sample in samples)
    inside = [sample.inside for sample in samples if sample.inside is not None]
    return Cell(
        family=family,
        metric=metric,
        n=len(samples),
        unsupported=unsupported,
        median_abs_error=median(absolute) if absolute else None,
        p90_abs_error=percentile(absolute, 0.9) if absolute else None,
        bias=fmean(sample.signed for sample in samples) if samples else None,
        inside_band_frac=fmean(inside) if inside else None,
    )


def percentile(ordered: list[float], share: float) -> float:
    """The smallest of some sorted values that at least `share` of them don't exceed."""
    rank = math.ceil(share * len(ordered) - 1e-9)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One verdict and what happened."""

    record: Record
    said: Figure
    happened: bool
    over_bytes: int | None

    @property
    def inferred(self) -> bool:
        return any(INFERRED_MARK in text for text in self.record.assumed)


def _fits(outcomes: list[_Outcome]) -> FitsTable:
    decided = _one_per_group([outcome for outcome in outcomes if outcome.said is not None])

    def count(*, said: bool, happened: bool) -> list[_Outcome]:
        return [o for o in decided if bool(o.said) is said and o.happened is happened]

    right_fit, refused = count(said=True, happened=True), count(said=False, happened=True)
    unsafe, right_fail = count(said=True, happened=False), count(said=False, happened=False)
    ran, failed = len(right_fit) + len(refused), len(unsafe) + len(right_fail)
    return FitsTable(
        fits_said_fits=len(right_fit),
        fits_said_not=len(refused),
        failed_said_fits=len(unsafe),
        failed_said_not=len(right_fail),
        no_verdict=sum(outcome.said is None for outcome in outcomes),
        unsafe_logged=sum(not outcome.inferred for outcome in unsafe),
        unsafe_inferred=sum(outcome.inferred for outcome in unsafe),
        balanced_accuracy=(len(right_fit) / ran + len(right_fail) / failed) / 2 if ran and failed else None,
        unsafe_gib=_median_gib([-o.over_bytes for o in unsafe if o.over_bytes is not None]),
        refused_gib=_median_gib([o.over_bytes for o in refused if o.over_bytes is not None]),
    )


def _one_per_group(outcomes: list[_Outcome]) -> list[_Outcome]:
    """One outcome for a run: the first of its records."""
    first: dict[str, _Outcome] = {}
    for outcome in outcomes:
        first.setdefault(outcome.record.group or f"record {outcome.record.id}", outcome)
    return list(first.values())


def _median_gib(amounts: list[int]) -> float | None:
    return gib(median(amounts)) if amounts else None
