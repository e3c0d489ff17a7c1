"""The report of a measured step: a JSON file that can be kept, sent and opened again.

Its figures turn into the planner's own ledger (`Report.ledger`), so that prediction and measurement are
compared, drawn and explained by the same code.
"""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from planner.checks.words import shown
from planner.ledger import Category, Entry, Layer, Ledger, Phase, make_ledger
from planner.units import MIB
from profiler.documents import Bytes, DeviceKind, MeasuredPhase, Options, Remark, Seconds, ShortText, Strict
from profiler.events import Sample
from profiler.report_parts import (
    MAX_CARDS,
    MAX_RANKS,
    MAX_STEPS,
    CardSeries,
    Communication,
    Overhead,
    Program,
    RankFigures,
    StepMemory,
)

REPORT_VERSION: Final = 2
READ_VERSIONS: Final = (1, 2)
"""Version 1 has no program, memory by step, ranks or cards."""
MAX_REPORT_BYTES: Final = 8 * MIB
MAX_SAMPLES: Final = 2_000
MAX_LARGEST: Final = 40
MEASURED: Final = "measured"
"""Stands where a formula and a reference stand in a predicted entry."""

CategoryName = Literal[
    "weights", "gradients", "optimizer_states", "activations", "logits_and_loss", "communication",
    "cuda_context", "allocator_cache",
]  # fmt: skip
LayerName = Literal["allocated", "reserved", "process", "device"]


class Group(Strict):
    """Bytes of one kind alive at the fullest moment of a phase.

    Attributes:
        category: The planner's category.
        name: What they are: `parameters`, `buffers`, `gradients`, `exp_avg`, `saved_activations`, ...
        bytes: Their size.
        layer: The innermost layer that counts them.
        num_storages: How many storages; 0 where nothing was counted one by one.
    """

    category: CategoryName
    name: ShortText
    bytes: Bytes
    layer: LayerName = "allocated"
    num_storages: Annotated[int, Field(ge=0)] = 0


class StorageNote(Strict):
    """One large storage alive at the fullest moment.

    Attributes:
        bytes: Its size.
        category: The planner's category.
        name: As in `Group`.
        module: Path of the module that was running when it was made; of a parameter or gradient, its owner.
        op: The operator that made it.
        shape: Shape of the first tensor on it.
        dtype: Its number format, as PyTorch names it.
        made_in: Phase it was made in.
    """

    bytes: Bytes
    category: CategoryName
    name: ShortText
    module: ShortText = ""
    op: ShortText = ""
    shape: tuple[Annotated[int, Field(ge=0)], ...] = ()
    dtype: ShortText = ""
    made_in: ShortText = ""


class PhaseFigures(Strict):
    """One phase, at its fullest moment over the measured steps.

    Attributes:
        phase: Which.
        peak_allocated_bytes: Live tensors; on CUDA what the caching allocator counts as allocated.
        peak_reserved_bytes: The allocator's segments, None on CPU.
        groups: What was alive, by kind; their allocated bytes add up to `peak_allocated_bytes`.
        largest: The largest storages alive, largest first.
        time_s: Mean time of the phase over the measured steps.
    """

    phase: MeasuredPhase
    peak_allocated_bytes: Bytes
    peak_reserved_bytes: Bytes | None = None
    groups: tuple[Group, ...] = ()
    largest: Annotated[tuple[StorageNote, ...], Field(max_length=MAX_LARGEST)] = ()
    time_s: Seconds = 0.0


def ledger_of(
    figures: Sequence[PhaseFigures], source: str, is_estimate: Callable[[Group], bool] = lambda _: False
) -> Ledger:
    """What was alive by phase as a ledger: one entry per kind and size, alive where it had that size.

    Args:
        figures: The phases.
        source: What stands for formula and reference: where the bytes are from.
        is_estimate: Whether a group's bytes are worked out rather than seen.
    """
    phases_of: dict[Group, list[Phase]] = {}
    for one in figures:
        for group in one.groups:
            phases_of.setdefault(group, []).append(Phase(one.phase))
    entries = [
        Entry(
            category=Category(group.category),
            name=group.name,
            bytes=group.bytes,
            phases=frozenset(phases),
            formula=source,
            symbols=(),
            reference=source,
            layer=Layer(group.layer),
            estimate=is_estimate(group),
        )
        for group, phases in phases_of.items()
    ]
    return make_ledger(entries, tuple(Phase(one.phase) for one in figures))


class DeviceReadings(Strict):
    """What NVML and the allocator say about the whole device; None = not known, see `Report.remarks` for why.

    Attributes:
        total_bytes: Memory of the device as the driver shows it.
        before_bytes: In use before this process had a context.
        idle_bytes: In use with an idle context.
        peak_bytes: Highest reading of the whole device.
        process_peak_bytes: Highest reading of this process, where NVML lists it.
        resident_peak_bytes: Highest resident host memory of the process.
        swapped_bytes: Memory of the process that the system had moved to disk at the end.
    """

    total_bytes: Bytes | None = None
    before_bytes: Bytes | None = None
    idle_bytes: Bytes | None = None
    peak_bytes: Bytes | None = None
    process_peak_bytes: Bytes | None = None
    resident_peak_bytes: Bytes | None = None
    swapped_bytes: Bytes | None = None


class Environment(Strict):
    """Where it was measured; None or empty = not known."""

    device: DeviceKind
    device_name: ShortText
    python: ShortText
    torch: ShortText
    transformers: ShortText
    peft: ShortText = ""
    driver: ShortText = ""
    cuda: ShortText = ""
    system: ShortText
    threads: Annotated[int, Field(ge=1)] = 1
    processors: Annotated[int, Field(ge=1)] | None = None
    cudnn: ShortText = ""
    cudnn_benchmark: bool | None = None


class StepTime(Strict):
    """Seconds of one phase of one measured step."""

    step: Annotated[int, Field(ge=1)]
    phase: MeasuredPhase
    time_s: Seconds


class OutOfMemory(Strict):
    """Where a step ran out of device memory.

    Attributes:
        step: Step, from 1; 0 while the model was built.
        phase: Phase.
        detail: The allocator's own message.
    """

    step: Annotated[int, Field(ge=0)]
    phase: MeasuredPhase
    detail: Annotated[str, Field(max_length=4000)] = ""


class Report(Strict):
    """A whole measurement.

    Attributes:
        kind: Marks the file.
        version: Of the format.
        created_at: UTC, ISO 8601.
        scenario: What was run, every default filled in; empty where a program of one's own was watched.
        config: The model's config.json keys.
        options: How it was measured.
        environment: Where.
        program: What was watched.
        outcome: Whether the steps ran to their end. Out of memory is a result; `failed`: the program raised;
            `interrupted`: it was ended, or its device was lost, and this is what was measured before.
        out_of_memory: Where it ran out, None if it did not.
        phases: In order; an unfinished step has fewer.
        resting_allocated_bytes: Between two steps, optimizer states in place; None if no step was finished.
        resting_reserved_bytes: The allocator's segments then, None on CPU.
        params_total: Elements of the model's parameters, shared ones once; None where only the driver was asked.
        params_trainable: Elements of those that receive gradients.
        readings: Of the device.
        memory_stats: `torch.cuda.memory_stats()`, empty on CPU.
        memory_summary: `torch.cuda.memory_summary()`, empty on CPU.
        samples: Readings beside the steps.
        steps: Times.
        memory_by_step: Memory of each sampled step, thinned evenly; what a leak is seen in.
        overhead: What the hook took, None where no hook ran.
        communication: Of one step of this rank, None where there was one rank or none was followed.
        ranks: Every rank of a job of several, in order; empty for one.
        cards: Cards over time where the driver was read.
        predicted_bytes: Peak that the plan expected when the job was started.
        remarks: What could not be read or was done differently than asked.
    """

    kind: Literal["headroom_measurement"] = "headroom_measurement"
    version: Literal[1, 2] = REPORT_VERSION
    created_at: ShortText
    scenario: dict[str, Any]
    config: dict[str, Any]
    options: Options
    environment: Environment
    params_total: Annotated[int, Field(ge=0)] | None = None
    params_trainable: Annotated[int, Field(ge=0)] | None = None
    program: Program = Program()
    outcome: Literal["completed", "out_of_memory", "failed", "interrupted"] = "completed"
    out_of_memory: OutOfMemory | None = None
    phases: tuple[PhaseFigures, ...] = ()
    resting_allocated_bytes: Bytes | None = None
    resting_reserved_bytes: Bytes | None = None
    readings: DeviceReadings = DeviceReadings()
    memory_stats: dict[str, int] = Field(default_factory=dict)
    memory_summary: Annotated[str, Field(max_length=100_000)] = ""
    samples: Annotated[tuple[Sample, ...], Field(max_length=MAX_SAMPLES)] = ()
    steps: tuple[StepTime, ...] = ()
    memory_by_step: Annotated[tuple[StepMemory, ...], Field(max_length=MAX_STEPS)] = ()
    overhead: Overhead | None = None
    communication: Communication | None = None
    ranks: Annotated[tuple[RankFigures, ...], Field(max_length=MAX_RANKS)] = ()
    cards: Annotated[tuple[CardSeries, ...], Field(max_length=MAX_CARDS)] = ()
    predicted_bytes: Bytes | None = None
    remarks: tuple[Remark, ...] = ()

    def figures(self, phase: Phase) -> PhaseFigures | None:
        """The figures of a phase, None if it was not reached."""
        return next((figures for figures in self.phases if figures.phase == phase), None)

    def peak(self) -> PhaseFigures | None:
        """The fullest phase by allocated bytes, None if none was reached."""
        return max(self.phases, key=lambda figures: figures.peak_allocated_bytes, default=None)

    def ledger(self) -> Ledger:
        """The measurement as a ledger: one entry per kind and size, alive where it had that size."""
        return ledger_of(self.phases, MEASURED)


class ReportError(ValueError):
    """A file is not a report.

    Attributes:
        code: `too_large`, `not_json`, `wrong_kind`, `wrong_version` or `bad_value`.
        field: Dotted path at fault, empty for the whole file.
        detail: What was given; of `not_json` line and column of the first mistake, as `1:7`.
    """

    def __init__(self, code: str, field: str = "", detail: str = "") -> None:
        super().__init__(f"{code} {field} {detail}".strip())
        self.code = code
        self.field = field
        self.detail = detail


def json_fault(data: bytes, error: Exception) -> str:
    """Line and column where a file stops being JSON, as `1:7`."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.lineno}:{error.colno}"
    before = data[: error.start] if isinstance(error, UnicodeDecodeError) else b""
    return f"{before.count(10) + 1}:{len(before) - before.rfind(10)}"


def dump_report(report: Report) -> str:
    """The report as the text of a file."""
    return report.model_dump_json(indent=1, exclude_defaults=False)


def load_report(data: bytes) -> Report:
    """Read a report file.

    Raises:
        ReportError: It is too large, no JSON, another kind of file or version, or a value in it cannot be.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise ReportError("too_large", detail=str(len(data)))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ReportError("not_json", detail=json_fault(data, error)) from error
    return report_from(document)


def report_from(document: object) -> Report:
    """Check a report that has been read as plain values.

    Raises:
        ReportError: As for `load_report`.
    """
    if not isinstance(document, dict) or document.get("kind") != "headroom_measurement":
        given = document.get("kind") if isinstance(document, dict) else None
        raise ReportError("wrong_kind", "kind", shown(given))
    version = document.get("version")
    if type(version) is not int or version not in READ_VERSIONS:
        raise ReportError("wrong_version", "version", shown(version))
    try:
        return Report.model_validate_json(json.dumps(document, allow_nan=False))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        given = None if first["type"] == "missing" else first["input"]
        detail = f"{shown(given)} ({first['msg']})"
        raise ReportError("bad_value", ".".join(map(str, first["loc"])), detail) from error
    except (ValueError, RecursionError) as error:
        raise ReportError("bad_value", detail=str(error)[:200]) from error
