"""Published peaks of allocated memory beside traces: `python -m benchmarks.trace_published [--all] [--ids WORD ...]`.

Every published step of LitGPT and of Hugging Face's trainer on one device whose code path a trace can follow is
traced in a child process, one at a time, and its simulated `max_memory_allocated` held against what was printed;
the formulas' figure stands beside it. Traces are kept in a folder by what they depend on.

Steps that no AdamW can have run as configured are left out by rule, not by name: `impossible`. LitGPT's table has
three (full finetuning of Llama-3.2-1B 8.70 GB, Llama-3.2-3B 16.51 GB, Phi-3-mini 17.01 GB): weights, gradients
and two moments in bf16 alone are 12.0, 28.9 and 30.6 GB.
"""

import argparse
import hashlib
import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.records import load
from hardware_db import load_tables
from planner.accuracy.predict import prediction_for
from planner.accuracy.truth import Record
from planner.estimate import plan
from planner.hardware import Tables
from planner.issues import ScenarioError
from planner.plan_types import Plan
from profiler.trace.answer import answer
from profiler.trace.cache import key_of
from profiler.trace.request import Asked, ask
from profiler.trace.runner import TraceRunner

METRIC: Final = "peak_allocated_bytes"
RUNTIMES: Final = frozenset({"litgpt", "hf_trainer"})
FAR: Final = 0.10
"""An error beyond this is named with its cause."""

MAX_FAR_FRAC: Final = 0.10
MAX_MEDIAN: Final = 0.03
FOLDER: Final = Path(tempfile.gettempdir()) / "headroom-trace-published"
PROFILER: Final = Path(__file__).parent.parent / "profiler"
MAX_PARAMS: Final = 3e10
"""Larger models are traced with `--all` only."""

STATES: Final = 4
"""Weights, gradients and two moments in one format: what AdamW has at the least."""

CAUSES: Final = {
    "litgpt-falcon7b-lora-seqfull": "the page gives no length; the record's 1079 tokens are an assumption",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A published step.

    Attributes:
        id: Of the record.
        family: Where it was published, with the task.
        observed_bytes: What was printed.
        traced_bytes: The simulated peak.
        formula_bytes: The formulas' peak, None where they have none.
        phase: Fullest phase of the trace.
        seconds: What the trace took.
    """

    id: str
    family: str
    observed_bytes: int
    traced_bytes: int
    formula_bytes: int | None
    phase: str
    seconds: float

    @property
    def error(self) -> float:
        """Traced / observed - 1."""
        return self.traced_bytes / self.observed_bytes - 1

    @property
    def formula_error(self) -> float | None:
        """Formula / observed - 1."""
        return None if self.formula_bytes is None else self.formula_bytes / self.observed_bytes - 1


def impossible(record: Record, answer_: Plan) -> bool:
    """Whether a full finetuning with AdamW took less than its weights, gradients and moments."""
    scenario = record.scenario
    if scenario is None or scenario.task not in {"full", "pretrain"}:
        return False
    optimizer = answer_.resolved.training.optimizer
    plain = optimizer.name == "adamw" and not optimizer.paged and scenario.hardware.num_devices == 1
    return plain and int(record.observed[METRIC]) < STATES * 2 * answer_.model.params_total


def wanted(records: Iterable[Record]) -> Iterator[Record]:
    """Records of the two families on one device, with a peak that the stated scenario fixes."""
    for record in records:
        scenario = record.scenario
        if (
            scenario is not None
            and scenario.runtime.name in RUNTIMES
            and scenario.is_training
            and scenario.hardware.num_devices == 1
            and METRIC in record.scored
        ):
            yield record


def row_of(record: Record, tables: Tables, max_params: float = MAX_PARAMS) -> Row | str:
    """The row of a record, or why there is none."""
    if record.scenario is None:
        return "scenario not read"
    try:
        answer_ = plan(record.scenario, tables)
    except ScenarioError as error:
        return f"{error.issues[0].code} at {error.issues[0].field}"
    if impossible(record, answer_):
        return "impossible: less than weights, gradients and moments"
    if answer_.model.params_total > max_params:
        return "larger than the others, a minute each: with --all"
    card = tables.gpus.get(answer_.worst.gpu_id)
    asked = ask(answer_, None if card is None else card.compute_capability)
    if asked.refused:
        return ", ".join(f"{remark.code} at {remark.field}" for remark in asked.refused)
    found = traced(asked)
    if isinstance(found, str):
        return found
    predicted = prediction_for(record.scenario, record.rank, tables).figures.get(METRIC)
    return Row(
        id=record.id,
        family=f"{record.family} {record.scenario.task}",
        observed_bytes=int(record.observed[METRIC]),
        traced_bytes=found["allocated_bytes"],
        formula_bytes=None if predicted is None else int(predicted),
        phase=found["phase"],
        seconds=found["seconds"],
    )


def traced(asked: Asked) -> dict[str, Any] | str:
    """Peak, phase and seconds of a trace, from the folder if it is there; else why it failed."""
    key = key_of(asked.scenario, asked.config, asked.options.target)
    place = FOLDER / f"{_code()}-{key}.json"
    if place.exists():
        kept: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        return kept
    job = TraceRunner().start(asked.scenario, asked.config, asked.options)
    job.wait()
    trace = job.trace
    if trace is None:
        seen = job.snapshot()
        return f"{seen.reason} {seen.detail[:200]} {[remark.code for remark in seen.remarks]}"
    made = answer(trace, asked.settings)
    found = {
        "allocated_bytes": made.peak_allocated_bytes,
        "phase": made.phase,
        "seconds": round(trace.build_s + trace.trace_s, 2),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(found), encoding="utf-8")
    return found


@cache
def _code() -> str:
    """A digest of the code that traces, so that nothing older is read."""
    texts = [
        path.read_bytes() for name in ("trace", "worker") for path in sorted(PROFILER.glob(f"{name}/**/*.py"))
    ]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]


def main() -> int:
    """Print the rows, the families and what is far off. Returns 1 if the demands are not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_published", description=__doc__)
    parser.add_argument("--ids", nargs="*", default=[], metavar="WORD", help="records whose id has this word")
    parser.add_argument("--all", action="store_true", help="the largest models too")
    options = parser.parse_args()
    words = options.ids
    tables = load_tables()
    rows: list[Row] = []
    refused: dict[str, int] = defaultdict(int)
    for record in wanted(load(("training.jsonl",))):
        if words and not any(word in record.id for word in words):
            continue
        row = row_of(record, tables, math.inf if options.all else MAX_PARAMS)
        if isinstance(row, str):
            refused[row] += 1
            continue
        rows.append(row)
        print(_line(row), flush=True)
    return _summary(rows, refused)


def _line(row: Row) -> str:
    formula = row.formula_error
    return (
        f"{row.id:58} {row.observed_bytes / 1e9:7.2f} {row.traced_bytes / 1e9:7.2f} GB {row.error:+7.1%} "
        f"formula {'' if formula is None else f'{formula:+.1%}':>7} {row.phase:14} {row.seconds:5.1f} s"
    )


def _summary(rows: list[Row], refused: dict[str, int]) -> int:
    families: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        families[row.family].append(row)
    print(f"\n{'family':36} rows  median |error|  formula")
    for name, members in [*sorted(families.items()), ("all", rows)]:
        print(f"{name:36} {len(members):4}  {_median(members):14.2%}  {_median_formula(members):7.2%}")
    far = [row for row in rows if abs(row.error) > FAR]
    for row in far:
        print(f"beyond {FAR:.0%}: {row.id} {row.error:+.1%}: {CAUSES.get(row.id, 'cause not known')}")
    for reason, number in sorted(refused.items(), key=lambda item: -item[1]):
        print(f"not traced: {number:3} {reason}")
    met = bool(rows) and _median(rows) <= MAX_MEDIAN and len(far) <= MAX_FAR_FRAC * len(rows)
    return 0 if met else 1


def _median(rows: list[Row]) -> float:
    return median(abs(row.error) for row in rows) if rows else 0.0


def _median_formula(rows: list[Row]) -> float:
    errors = [abs(row.formula_error) for row in rows if row.formula_error is not None]
    return median(errors) if errors else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
