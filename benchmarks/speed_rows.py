"""Published speeds as arrays: the work of every run, what was measured, and what a simple baseline needs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.accuracy.truth import Record
from planner.estimate import plan
from planner.hardware import Tables
from planner.throughput import serving_work as sw
from planner.throughput.serving_load import load_of
from planner.throughput.serving_speed import band_kind
from planner.throughput.step_work import StepWork
from planner.throughput.training_time import runtime_key
from planner.throughput.training_work import training_work

Vector = NDArray[np.float64]
TERA: Final = 1e12
PREFILL: Final = "prefill"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """A training run: its work, and the step time that its primary figure tells.

    Attributes:
        metric: The figure it is scored on: step time, else tokens a second, else operations a second.
    """

    record: Record
    kind: str
    runtime: str
    metric: str
    work: StepWork
    step_s: float
    ideal_s: float
    card: tuple[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRow:
    """A serving run: work of a step and of its prefill, its load, and the figure it is scored on.

    Attributes:
        metric: `tpot`, `latency`, `ttft`, or `rate` (output tokens a second).
    """

    record: Record
    kind: str
    runtime: str
    metric: str
    token: sw.TokenWork
    prompt: sw.PromptWork
    observed: float
    running: float
    waves: float
    replicas: float
    output_tokens: float
    together: float
    has_prompt: float
    cards: int
    ideal_flops_s: float


def training_rows(records: Iterable[Record], tables: Tables) -> tuple[list[TrainingRow], dict[str, int]]:
    """Every scored training run that the tables have figures for, and how many of each reason are left out."""
    rows: list[TrainingRow] = []
    left: dict[str, int] = {}
    for record in records:
        if record.scenario is None or not record.scenario.is_training or not record.scored:
            continue
        made = plan(record.scenario, tables)
        work, counts, missing = training_work(made, tables)
        if work is None:
            left[missing[0].code] = left.get(missing[0].code, 0) + 1
            continue
        seen = {name: float(value) for name, value in record.scored.items()}
        if "step_time_s" in seen:
            metric, step_s = "step_time_s", seen["step_time_s"]
        elif "tokens_per_s_per_gpu" in seen:
            metric = "tokens_per_s_per_gpu"
            step_s = counts.step_tokens / counts.cards / seen[metric]
        else:
            metric = "tflops_per_gpu"
            step_s = counts.hardware_flops / counts.cards / seen[metric] / TERA
        precision = record.scenario.training.precision
        rows.append(
            TrainingRow(
                record=record,
                kind="train_moe" if made.model.has_experts else "train_dense",
                runtime=runtime_key(record.scenario.runtime),
                metric=metric,
                work=work,
                step_s=step_s,
                ideal_s=counts.model_flops / counts.cards / (counts.peak or 1.0),
                card=(
                    record.scenario.hardware.devices[0].gpu,
                    bool(precision.fp8 or precision.fp4),
                ),
            )
        )
    return rows, left


def serving_rows(records: Iterable[Record], tables: Tables) -> tuple[list[ServingRow], dict[str, int]]:
    """Every scored serving run that the tables have figures for, and how many of each reason are left out."""
    rows: list[ServingRow] = []
    left: dict[str, int] = {}
    for record in records:
        if record.scenario is None or record.scenario.is_training or not record.scored:
            continue
        row = _serving_row(record, tables)
        if isinstance(row, str):
            left[row] = left.get(row, 0) + 1
        else:
            rows.append(row)
    return rows, left


def _serving_row(record: Record, tables: Tables) -> ServingRow | str:
    assert record.scenario is not None  # noqa: S101 -- the caller has looked
    made = plan(record.scenario, tables)
    server, load = sw.server_of(made, tables), load_of(made)
    seen = {name: float(value) for name, value in record.scored.items()}
    only_prefill = "ttft_s" in seen and load.output_tokens == 1
    lacking = sw.missing(server, prefill=only_prefill)
    if lacking:
        return lacking[0].code
    if only_prefill:
        metric, observed = "ttft", seen["ttft_s"]
    elif load.is_offline:
        metric, observed = "rate", seen["output_tokens_per_s"]
    elif "tpot_s" in seen:
        metric, observed = "tpot", seen["tpot_s"]
    elif "request_latency_s" in seen:
        metric, observed = "latency", seen["request_latency_s"]
    else:
        metric, observed = "rate", seen["output_tokens_per_s"]
    prompt = sw.prompt_work(server, max(load.prompt_tokens, 1.0), load.together)
    peak = sw.compute_rate(server.gpus[0], server.weights) or 1.0
    cards = record.scenario.hardware.num_devices
    flops = 2.0 * made.model.params_active * (load.prompt_tokens + load.output_tokens)
    return ServingRow(
        record=record,
        kind=PREFILL if only_prefill else band_kind(server, load),
        runtime=runtime_key(record.scenario.runtime),
        metric=metric,
        token=sw.token_work(server, load.running, load.context_tokens),
        prompt=prompt,
        observed=observed,
        running=load.running,
        waves=load.waves,
        replicas=float(load.replicas),
        output_tokens=load.output_tokens,
        together=load.together if load.is_offline else 1.0,
        has_prompt=float(load.prompt_tokens > 1),
        cards=cards,
        ideal_flops_s=flops / peak / cards / load.output_tokens,
    )


def stacked(kind: type[Any], items: Sequence[Any]) -> Any:
    """One value of a class whose every number is the array over some values of it."""
    return kind(**{f.name: np.array([getattr(item, f.name) for item in items], float) for f in fields(kind)})


def picked(value: Any, mask: NDArray[np.bool_]) -> Any:
    """Some rows of a stacked value."""
    return type(value)(**{f.name: getattr(value, f.name)[mask] for f in fields(value)})
