"""Formula and trace against one real card: `python -m benchmarks.gpu_check [--json OUT] [--cpu] [CASE ...]`.

Each configuration runs as a real step in a child process; beside it, on the host, the same step is traced. Both
predictions are scored on what PyTorch counts as allocated and as reserved, and on the process. `--cpu` runs the twin:
smaller models on a processor, tensors only. What the time does not allow is named, not left out in silence.
"""

import argparse
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.gpu_check_cases import CASES, Case, Document, scenario_of
from hardware_db import load_tables
from planner.estimate import plan
from planner.hardware import Tables
from planner.ledger import Layer
from planner.plan_types import Plan
from planner.scenario import Scenario
from profiler.allocator.settings import parse_settings
from profiler.compare import compare
from profiler.documents import DeviceKind, Options
from profiler.findings import fragmentation
from profiler.job_types import ExitReason
from profiler.machine import machine_devices
from profiler.nvml import Nvml
from profiler.nvml_words import why_no_card
from profiler.plan_request import predicted_bytes, prepare
from profiler.report import Report
from profiler.runner import Job, Runner
from profiler.trace.answer import answer
from profiler.trace.request import Asked, ask
from profiler.trace.runner import TraceJob, TraceRunner

BUDGET_S: Final = 480.0
CASE_S: Final = 90.0
LEAST_S: Final = 20.0
"""Time below which no further configuration is begun."""

VARIABLE: Final = "PYTORCH_ALLOC_CONF"
OLD_VARIABLE: Final = "PYTORCH_CUDA_ALLOC_CONF"
LAYERS: Final = (Layer.ALLOCATED, Layer.RESERVED, Layer.PROCESS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the configurations and print the table. Returns 0, 1 where one failed, 2 where there is no card."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="only these")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything here")
    parser.add_argument("--cpu", action="store_true", help="the twin on a processor")
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="S", help="seconds (default: 480)")
    given = parser.parse_args(arguments)
    unknown = set(given.cases) - {case.name for case in CASES}
    if unknown:
        print(
            f"CASE: {', '.join(sorted(unknown))} given; {', '.join(case.name for case in CASES)}",
            file=sys.stderr,
        )
        return 2
    machine = machine_devices(Nvml())
    if not given.cpu and not machine.devices:
        why = why_no_card(machine.reason, machine.detail)
        print(f"{why} Nothing to check; --cpu runs the twin on the processor.", file=sys.stderr)
        return 2
    device: DeviceKind = "cpu" if given.cpu else "cuda"
    gpu_id = "unknown" if given.cpu else machine.devices[0].gpu_id or "unknown"
    until_s = time.monotonic() + given.budget
    chosen = [case for case in CASES if not given.cases or case.name in given.cases]
    results = []
    for case in chosen:
        results.append(one(case, device, gpu_id, until_s - time.monotonic()))
        print(line(results[-1]), flush=True)
        if given.json is not None:  # what was measured stays if the machine goes away
            write(given.json, document(results, device, gpu_id, machine.driver))
    for row in summary(results):
        print(row)
    return int(any(result["outcome"] in {"failed", "unexpected"} for result in results))


def document(results: list[Document], device: str, gpu_id: str, driver: str) -> Document:
    """Everything in one JSON object."""
    return {
        "kind": "headroom_gpu_check",
        "version": 1,
        "measured_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "device": device,
        "gpu_id": gpu_id,
        "driver": driver,
        "results": results,
        "scores": scores(results),
    }


def write(path: Path, content: Document) -> None:
    """Write whole, then move into place."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def one(case: Case, device: DeviceKind, gpu_id: str, left_s: float, tables: Tables | None = None) -> Document:
    """Measure and trace one configuration; never raises for what a child does."""
    result: Document = {"name": case.name, "allocator": case.allocator, "outcome": "not_run", "reason": ""}
    if device == "cpu" and not case.cpu:
        return result | {"reason": "needs a card"}
    if left_s < LEAST_S:
        return result | {"reason": "no time left"}
    known = tables or load_tables()
    made = plan(Scenario.model_validate(scenario_of(case, gpu_id, small=device == "cpu")), known)
    prepared = prepare(made, device, None)
    if prepared.refused:
        return result | {"reason": ", ".join(remark.code for remark in prepared.refused)}
    began_s, limit_s = time.monotonic(), min(CASE_S, left_s)
    asked, traced = _start_trace(case, made, device, known, limit_s)
    with _allocator(case.allocator):
        options = Options(device=device, steps=2, timeout_s=limit_s, insist=True, threads=1)
        job = Runner().start(
            prepared.scenario, options, config=prepared.config, predicted_bytes=prepared.predicted_bytes
        )
    job.wait()
    result |= _measured(case, made, job, device)
    if traced is not None and asked is not None:
        result["trace"] = _traced(asked, traced, case)
    return result | {"wall_s": round(time.monotonic() - began_s, 1), "scenario": prepared.scenario}


@contextmanager
def _allocator(setting: str) -> Iterator[None]:
    """The allocator's variable for the child about to start, under both of its names."""
    before = {name: os.environ.get(name) for name in (VARIABLE, OLD_VARIABLE)}
    for name in before:
        os.environ.pop(name, None)
    if setting:
        os.environ[VARIABLE] = setting
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _start_trace(
    case: Case, made: Plan, device: DeviceKind, tables: Tables, limit_s: float
) -> tuple[Asked | None, TraceJob | None]:
    """Trace on the host while the card measures; a case that is to run out is not traced."""
    if case.runs_out:
        return None, None
    card = tables.gpus.get(made.worst.gpu_id)
    capability = card.compute_capability if card is not None else None
    settings = parse_settings(case.allocator) if case.allocator else None
    asked = ask(made, capability or ((9, 0) if device == "cpu" else None), settings)
    if asked.refused:
        return asked, None
    target = asked.options.target.model_copy(update={"device": device})
    options = asked.options.model_copy(update={"target": target, "timeout_s": limit_s})
    return asked, TraceRunner().start(asked.scenario, asked.config, options)


def _measured(case: Case, made: Plan, job: Job, device: DeviceKind) -> Document:
    seen = job.snapshot()
    report = seen.report
    if seen.reason is not ExitReason.DONE or report is None:
        detail = seen.detail or " ".join(seen.stderr[-3:])
        return {"outcome": "failed", "reason": f"{seen.reason}: {detail}"[:500]}
    ran_out = report.outcome == "out_of_memory"
    outcome = "measured" if ran_out == case.runs_out else "unexpected"
    rows = {row.name: row for row in compare(made.worst.ledger, report).layers}
    measured = {name: row.measured_bytes for name, row in rows.items()}
    predicted = {name: row.predicted_bytes for name, row in rows.items()}
    if device == "cpu":
        predicted[Layer.ALLOCATED.value] = predicted_bytes(made, "cpu")
    return {
        "outcome": outcome,
        "reason": "" if outcome == "measured" else report.outcome,
        "ran_out": ran_out,
        "measured": measured,
        "formula": predicted,
        "step_s": _step_s(report),
        "findings": [found.code for found in fragmentation(report)],
        "remarks": [remark.code for remark in report.remarks],
        "environment": report.environment.model_dump(mode="json"),
        "phases": {
            figures.phase: [figures.peak_allocated_bytes, figures.peak_reserved_bytes]
            for figures in report.phases
        },
    }


def _step_s(report: Report) -> float | None:
    number = len({time.step for time in report.steps})
    return round(sum(time.time_s for time in report.steps) / number, 6) if number else None


def _traced(asked: Asked, job: TraceJob, case: Case) -> Document:
    job.wait()
    if job.trace is None:
        seen = job.snapshot()
        return {"problem": f"{seen.reason}: {seen.detail} {[one.code for one in seen.remarks]}"[:300]}
    settings = parse_settings(case.allocator) if case.allocator else asked.settings
    found = answer(job.trace, settings, asked.capacity_bytes)
    on_card = job.trace.target.device == "cuda"
    return {
        "allocated": found.peak_allocated_bytes if on_card else found.peak_tensor_bytes,
        "reserved": found.peak_reserved_bytes if on_card else None,
    }


def error_frac(predicted: int | None, measured: int | None) -> float | None:
    """Prediction over measurement less one, None if either is not known."""
    return None if not measured or predicted is None else predicted / measured - 1


def errors_of(result: Mapping[str, Any], source: str, layer: str) -> float | None:
    """A result's error of `formula` or `trace` in a layer; a run that ran out has none."""
    if result["outcome"] != "measured" or result.get("ran_out"):
        return None
    return error_frac(result.get(source, {}).get(layer), result["measured"].get(layer))


def scores(results: list[Document]) -> Document:
    """Median, largest and number of the absolute errors, by source and layer; None where there is none."""
    found: Document = {}
    for source in ("formula", "trace"):
        for layer in LAYERS:
            errors = [errors_of(result, source, layer.value) for result in results]
            sizes = [abs(error) for error in errors if error is not None]
            found[f"{source}.{layer.value}"] = {
                "rows": len(sizes),
                "median_frac": round(median(sizes), 6) if sizes else None,
                "largest_frac": round(max(sizes), 6) if sizes else None,
            }
    runs_out = [result for result in results if result.get("ran_out") is not None and result.get("formula")]
    found["ran_out_as_said"] = sum(result["outcome"] == "measured" for result in runs_out)
    found["could_have_run_out"] = len(runs_out)
    return found


def line(result: Mapping[str, Any]) -> str:
    """One configuration."""
    cells = []
    for source in ("formula", "trace"):
        for layer in LAYERS:
            error = errors_of(result, source, layer.value)
            cells.append("-" if error is None else f"{error:+.2%}")
    text = "".join(f"{cell:>12}" for cell in cells)
    return f"{result['name']:36}{result['outcome']:12}{text}  {result['reason']}".rstrip()


def summary(results: list[Document]) -> Iterator[str]:
    """The scores as lines."""
    for name, score in scores(results).items():
        if isinstance(score, int):
            yield f"{name}: {score}"
        elif score["rows"]:
            yield (
                f"{name}: {score['rows']} rows, median {score['median_frac']:.3%}, "
                f"largest {score['largest_frac']:.3%}"
            )


if __name__ == "__main__":
    sys.exit(main())
