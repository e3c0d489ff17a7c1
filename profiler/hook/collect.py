"""From what a hook wrote to a report; at any moment, whether or not the program has ended, and how. No PyTorch."""

import datetime as dt
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from profiler.documents import MeasuredPhase, Options, Remark
from profiler.events import Sample
from profiler.report import DeviceReadings, Environment, OutOfMemory, PhaseFigures, Report, StepTime
from profiler.report_parts import MAX_STEPS, Overhead, Program, RankFigures, StepMemory
from profiler.worker.grouping import ModelShapes, group, largest
from profiler.worker.storages import Moment, Storage

PHASES: Final[tuple[MeasuredPhase, ...]] = ("rest", "forward", "loss", "backward", "optimizer_step")
WARM_UP: Final = 1
"""Steps whose memory is not yet that of a usual one: the optimizer makes its states in the first."""


@dataclass(slots=True)
class Process:
    """What one watched process wrote, line kinds apart.

    Attributes:
        begin: About the process.
        model: About the model.
        steps: Sampled steps, thinned evenly.
        followed: The followed step.
        oom: Where it ran out of memory.
        error: What it died of.
        snapshots: Memory snapshots.
        problems: What the hook could not do.
        end: Its last words, empty while it runs or where it was killed.
        cut: Lines that could not be read.
    """

    begin: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    followed: dict[str, Any] = field(default_factory=dict)
    oom: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    problems: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=20))
    end: dict[str, Any] = field(default_factory=dict)
    cut: int = 0

    @property
    def rank(self) -> int:
        """Its number in the job."""
        return int(self.begin.get("rank", 0))


_SINGLE: Final = frozenset({"begin", "model", "followed", "oom", "error", "end"})


def read_process(lines: Iterable[bytes]) -> Process:
    """Sort one process's lines. What is no line of the hook's, or was cut short, is counted and left out."""
    found, keep_every, seen = Process(), 1, 0
    for line in lines:
        try:
            document = json.loads(line)
            kind = document.pop("e")
        except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
            found.cut += 1
            continue
        if kind in _SINGLE:
            setattr(found, kind, document)
        elif kind == "step":
            seen += 1
            if seen % keep_every == 0:
                found.steps.append(document)
            if len(found.steps) >= MAX_STEPS:
                del found.steps[::2]
                keep_every *= 2
        elif kind == "snapshot":
            found.snapshots.append(document)
        elif kind == "problem":
            found.problems.append(document)
    return found


def read_folder(folder: Path) -> tuple[Process, ...]:
    """Every process that trained, by rank; of several with one rank (a restart), the one with the most steps."""
    best: dict[int, Process] = {}
    for path in sorted(folder.glob("*.lines")):
        with path.open("rb") as file:
            process = read_process(file)
        if not process.begin or not (process.steps or process.model or process.error):
            continue
        known = best.get(process.rank)
        if known is None or len(process.steps) >= len(known.steps):
            best[process.rank] = process
    return tuple(best[rank] for rank in sorted(best))


def collect(
    folder: Path,
    program: Program,
    *,
    running: bool = False,
    samples: tuple[Sample, ...] = (),
    readings: DeviceReadings | None = None,
    remarks: tuple[Remark, ...] = (),
) -> Report | None:
    """The report of everything in a folder, of the first rank with what the others add; None if nothing trained.

    Args:
        folder: Where the hook wrote.
        program: What was watched.
        running: The program has not ended, so that last words are not missed yet.
        samples: Readings beside it.
        readings: Of the device.
        remarks: What else is to be said.
    """
    processes = read_folder(folder)
    if not processes:
        return None
    first = processes[0]
    ranks = (
        tuple(_rank(process, running=running) for process in _expected(processes)) if _several(first) else ()
    )
    return Report(
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        scenario={},
        config={},
        options=Options(device=_device(first), warmup_steps=1, steps=max(1, min(1000, len(first.steps)))),
        environment=_environment(first),
        params_total=first.model.get("total"),
        params_trainable=first.model.get("trainable"),
        program=_program(program, first),
        outcome=_outcome(first, running=running),
        out_of_memory=_out_of_memory(first),
        phases=phases_of(first),
        resting_allocated_bytes=_last(first, 0),
        resting_reserved_bytes=_last(first, 1),
        readings=(readings or DeviceReadings(resident_peak_bytes=_resident(first))).model_copy(
            update={"swapped_bytes": first.end.get("swapped")}
        ),
        memory_stats=first.end.get("stats", {}),
        samples=samples,
        steps=tuple(_times(first)),
        memory_by_step=tuple(_memory(step) for step in first.steps),
        overhead=_overhead(first),
        ranks=ranks,
        remarks=(*remarks, *_remarks(first, running=running)),
    )


def _several(process: Process) -> bool:
    return int(process.begin.get("world", 1)) > 1


def _expected(processes: tuple[Process, ...]) -> Iterator[Process | int]:
    """Every rank of the job, its number alone where it was never heard."""
    heard = {process.rank: process for process in processes}
    world = max(int(processes[0].begin.get("world", 1)), max(heard) + 1)
    for rank in range(world):
        yield heard.get(rank, rank)


def _device(process: Process) -> Any:
    return "cuda" if process.model.get("device") == "cuda" else "cpu"


def _environment(process: Process) -> Environment:
    begin = process.begin
    return Environment(
        device=_device(process),
        device_name=str(process.model.get("device_name") or begin.get("processor", ""))[:300],
        python=str(begin.get("python", "")),
        torch=str(begin.get("torch", "")),
        transformers="",
        cuda=str(begin.get("cuda", "")),
        system=str(begin.get("system", ""))[:300],
        threads=max(1, int(begin.get("threads", 1))),
        processors=begin.get("processors"),
        cudnn=str(process.end.get("cudnn", "")),
        cudnn_benchmark=process.end.get("cudnn_benchmark"),
    )


def _program(program: Program, process: Process) -> Program:
    snapshot = next((str(one["path"]) for one in process.snapshots if one.get("path")), "")
    name = program.name or str(process.begin.get("script", ""))[:300]
    return program.model_copy(update={"name": name, "snapshot": program.snapshot or snapshot[-300:]})


def _outcome(process: Process, *, running: bool) -> Any:
    if process.oom:
        return "out_of_memory"
    if process.error:
        return "failed"
    return "completed" if process.end or running else "interrupted"


def _out_of_memory(process: Process) -> OutOfMemory | None:
    if not process.oom:
        return None
    phase = process.oom.get("phase")
    return OutOfMemory(
        step=int(process.oom.get("step", 0)),
        phase=phase if phase in PHASES else "rest",
        detail=str(process.oom.get("detail", ""))[:4000],
    )


def _settled(process: Process) -> list[dict[str, Any]]:
    """Steps that are like those to come; the first ones where there are no others."""
    usual = [step for step in process.steps if step["step"] > WARM_UP and not step.get("followed")]
    return usual or process.steps


def phases_of(process: Process) -> tuple[PhaseFigures, ...]:
    """Each phase at its fullest: tensor by tensor where a step was followed, else as CUDA's allocator counts."""
    followed = _followed(process)
    measured = [step["phases"] for step in _settled(process)]
    found = []
    for phase in PHASES:
        seen = [phases[phase] for phases in measured if phase in phases]
        allocated = max((one[1] for one in seen if one[1] is not None), default=None)
        reserved = max((one[2] for one in seen if one[2] is not None), default=None)
        known = followed.get(phase)
        peak = known.peak_allocated_bytes if allocated is None and known is not None else allocated
        if peak is None:
            continue
        found.append(
            PhaseFigures(
                phase=phase,
                peak_allocated_bytes=peak,
                peak_reserved_bytes=reserved,
                groups=known.groups if known is not None else (),
                largest=known.largest if known is not None else (),
                time_s=sum(one[0] for one in seen) / len(seen) if seen else 0.0,
            )
        )
    return tuple(found)


def _followed(process: Process) -> dict[str, PhaseFigures]:
    if not process.followed:
        return {}
    matrices = {tuple(shape) for shape in process.followed.get("shapes", ())}
    shapes = ModelShapes(
        vocab_size=int(process.followed.get("vocab", 0)),
        parameters=frozenset(matrices | {shape[::-1] for shape in matrices}),
    )
    return {
        moment["phase"]: _phase(moment, shapes)
        for moment in process.followed.get("moments", ())
        if moment["phase"] in PHASES
    }


def _phase(moment: Mapping[str, Any], shapes: ModelShapes) -> PhaseFigures:
    names = [one.name for one in fields(Storage)]
    alive: list[tuple[Storage, int]] = []
    for line in moment["alive"]:
        values = {name: line[name] for name in names} | {"shape": tuple(line["shape"])}
        alive.append((Storage(**values), int(line["size"])))
    made = Moment(moment["phase"], int(moment["bytes"]), int(moment["step"]), tuple(alive))
    single = Moment(
        made.phase,
        made.bytes,
        made.step,
        tuple(pair for pair, line in zip(alive, moment["alive"], strict=True) if line["count"] == 1),
    )
    return PhaseFigures(
        phase=made.phase,  # type: ignore[arg-type]  # checked by the caller
        peak_allocated_bytes=made.bytes,
        groups=group(made, shapes),
        largest=largest(single, shapes),
    )


def _memory(step: Mapping[str, Any]) -> StepMemory:
    peaks = list(step["phases"].values())
    after = step.get("after") or [None, None]
    return StepMemory(
        step=int(step["step"]),
        time_s=max(0.0, float(step["time_s"])),
        peak_allocated_bytes=max((one[1] for one in peaks if one[1] is not None), default=None),
        peak_reserved_bytes=max((one[2] for one in peaks if one[2] is not None), default=None),
        after_allocated_bytes=after[0],
        after_reserved_bytes=after[1],
        resident_bytes=step.get("resident"),
    )


def _times(process: Process) -> Iterator[StepTime]:
    for step in _settled(process)[-200:]:
        for phase, (time_s, *_) in step["phases"].items():
            if phase in PHASES and phase != "rest":
                yield StepTime(step=int(step["step"]), phase=phase, time_s=max(0.0, float(time_s)))


def _last(process: Process, place: int) -> int | None:
    after = process.steps[-1].get("after") if process.steps else None
    value = after[place] if after else None
    return None if value is None else int(value)


def _resident(process: Process) -> int | None:
    read = (step.get("resident") for step in process.steps)
    return max((one for one in read if one is not None), default=None)


def _overhead(process: Process) -> Overhead | None:
    end = process.end
    if not end:
        return None
    return Overhead(
        hook_s=float(end["own_s"]),
        steps_s=float(end["steps_s"]),
        sampled=int(end["sampled"]),
        seen=int(end["seen"]),
        every=int(end["every"]),
    )


def _rank(process: Process | int, *, running: bool) -> RankFigures:
    if isinstance(process, int):
        return RankFigures(rank=process, outcome="missing")
    memory = [_memory(step) for step in process.steps]
    settled = _settled(process)
    outcome = _outcome(process, running=running)
    return RankFigures(
        rank=process.rank,
        host=str(process.begin.get("host", "")),
        device_name=str(process.model.get("device_name") or process.begin.get("processor", "")),
        outcome="silent" if outcome == "interrupted" else outcome,
        detail=str(process.error.get("detail") or process.oom.get("detail", ""))[:300],
        peak_allocated_bytes=_most(one.peak_allocated_bytes for one in memory),
        peak_reserved_bytes=_most(one.peak_reserved_bytes for one in memory),
        resident_peak_bytes=_most(one.resident_bytes for one in memory),
        step_s=sum(float(step["time_s"]) for step in settled) / len(settled) if settled else None,
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((one for one in values if one is not None), default=None)


def _remarks(process: Process, *, running: bool) -> Iterator[Remark]:
    if process.error:
        yield Remark(code="program_raised", params={"detail": str(process.error.get("detail", ""))[:1000]})
    elif not process.end and not running and not process.oom:
        yield Remark(
            code="program_was_ended", params={"step": process.steps[-1]["step"] if process.steps else 0}
        )
    if process.cut:
        yield Remark(code="lines_were_cut", params={"lines": process.cut})
    if process.end.get("problem"):
        yield Remark(code="lines_not_written", params={"detail": str(process.end["problem"])[:300]})
    for one in process.snapshots:
        if one.get("problem"):
            yield Remark(code="snapshot_not_written", params={"detail": str(one["problem"])[:300]})
    for one in process.problems:
        if one.get("detail") == "compiled":
            yield Remark(code="compiled_not_followed")
        else:
            yield Remark(code="hook_problem", params={"detail": str(one.get("detail", ""))[:300]})
    if _device(process) == "cuda":
        yield Remark(code="phase_times_on_host")
