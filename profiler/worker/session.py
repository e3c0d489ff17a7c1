"""One measurement from request to report."""

import datetime as dt
import os
import platform
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final, Literal

import torch
import transformers

from planner.scenario import Scenario
from profiler.documents import Options, Remark
from profiler.events import Failed, Progress, Refused, Request, Result, Sample, Started
from profiler.host_memory import own_swapped_bytes
from profiler.rank_place import rank_place
from profiler.report import DeviceReadings, Environment, OutOfMemory, Report
from profiler.report_parts import Communication
from profiler.worker.channel import Beat, Channel
from profiler.worker.device import Device
from profiler.worker.measure import Outcome, Run, with_groups
from profiler.worker.meters import AllocatorMeter, TensorMeter, cuda_facts, is_out_of_memory
from profiler.worker.rank_tracker import RankTracker
from profiler.worker.ranks import Ranks
from profiler.worker.steps import Clock, Loop, wall_clock
from profiler.worker.talk import communication_of
from profiler.worker.workloads import CannotBuildError, Workload, build

RANK_FAILED: Final = "rank_failed"
"""Code of the remark that this rank's steps broke off."""


def measure(channel: Channel, beat: Beat, request: Request, scenario: Scenario, options: Options) -> int:
    """Build, run, report. Returns the exit code.

    Args:
        channel: Where events go.
        beat: What samples memory beside the steps.
        request: As it came, for the report.
        scenario: The question with its runtime's defaults filled in.
        options: How to measure.
    """
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    if options.device == "cuda" and not torch.cuda.is_available():
        channel.send(Failed(reason="no_device", detail="torch.cuda.is_available() is False"))
        return 6
    device = Device(options.device)
    beat.read_device = device.read
    channel.send(
        Started(pid=os.getpid(), torch=torch.__version__, device=options.device, device_name=device.name)
    )
    device.open_context()
    channel.send(Progress(step=0, steps=0, fraction=0.0, code="building"))
    place = rank_place()
    ranks = None if place is None else Ranks(place, scenario, options.device, options.timeout_s)
    try:
        workload, outcome = _build(scenario, request, options, ranks)
    except CannotBuildError as error:
        channel.send(Refused(remarks=(error.remark,)))
        return 0
    communication: Communication | None = None
    remarks = device.remarks() + (_cpu_remarks(scenario) if options.device == "cpu" else ())
    if workload is not None and ranks is None:
        outcome, more = _steps(workload, options, channel, beat)
        remarks += more
    elif workload is not None and ranks is not None:
        outcome, communication, more = _rank_steps(workload, options, channel, beat, ranks)
        remarks += more
    beat.sample()
    report = _report(
        request,
        options,
        list(workload.model.parameters()) if workload is not None else [],
        outcome,
        readings=_readings(device, beat),
        environment=_environment(options, device),
        samples=beat.samples(),
        remarks=remarks,
    ).model_copy(update={"communication": communication})
    if ranks is not None:
        report = ranks.exchange(report)
    channel.send(Progress(step=0, steps=0, fraction=1.0, code="writing"))
    beat.stop()
    channel.send(Result(report=report.model_dump(mode="json")))
    return 0


def _build(
    scenario: Scenario, request: Request, options: Options, ranks: Ranks | None
) -> tuple[Workload | None, Outcome]:
    try:
        workload = build(scenario, request.config, options.device)
        if ranks is not None:
            workload = ranks.divide(workload)
            ranks.seed(options.seed)
        return workload, Outcome()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return None, Outcome(out_of_memory=OutOfMemory(step=0, phase="load", detail=str(error)[:4000]))


def _steps(
    workload: Workload, options: Options, channel: Channel, beat: Beat
) -> tuple[Outcome, tuple[Remark, ...]]:
    def set_phase(phase: Any) -> None:
        beat.phase = phase

    clock = Clock(wall_clock(options.device))
    if options.device == "cpu":
        meter = TensorMeter(workload, "cpu")
        outcome = Run(workload, meter, clock, channel.send, set_phase).steps(options)
        return outcome, ()
    outcome = Run(workload, AllocatorMeter(), clock, channel.send, set_phase).steps(options)
    if outcome.out_of_memory is not None:
        return outcome, (Remark(code="not_followed"),)
    once = options.model_copy(update={"warmup_steps": 1, "steps": 1})
    tracked = Run(workload, TensorMeter(workload, "cuda"), clock, lambda _: None, set_phase).steps(once)
    outcome.figures = {
        phase: with_groups(figures, tracked.figures.get(phase)) for phase, figures in outcome.figures.items()
    }
    return outcome, ()


def _rank_steps(
    workload: Workload, options: Options, channel: Channel, beat: Beat, ranks: Ranks
) -> tuple[Outcome, Communication | None, tuple[Remark, ...]]:
    """The steps of one rank; where another rank fails or hangs, what this one measured before, and a remark on it."""

    def set_phase(phase: Any) -> None:
        beat.phase = phase

    on_cpu = options.device == "cpu"
    clock = Clock(wall_clock(options.device))
    meter = TensorMeter(workload, "cpu", RankTracker("cpu")) if on_cpu else AllocatorMeter()
    run = Run(workload, meter, clock, channel.send, set_phase)
    with ranks.losses():
        try:
            run.steps(options)
            if run.outcome.out_of_memory is not None:
                return run.outcome, None, ()
            loop = Loop(workload, lambda _: None)
            with loop.marking():
                return run.outcome, communication_of(loop.step, options.device), ()
        except (RuntimeError, ValueError) as error:
            traceback.print_exc()
            detail = f"{type(error).__name__}: {error}"[:1000]
            return run.outcome, None, (Remark(code=RANK_FAILED, params={"detail": detail}),)


def _report(
    request: Request,
    options: Options,
    parameters: Sequence[Any],
    outcome: Outcome,
    *,
    readings: DeviceReadings,
    environment: Environment,
    samples: tuple[Sample, ...],
    remarks: tuple[Remark, ...],
) -> Report:
    stats, summary = cuda_facts() if options.device == "cuda" else ({}, "")
    rest = outcome.figures.get("rest")
    return Report(
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        scenario=request.scenario,
        config=request.config,
        options=options,
        environment=environment,
        outcome=_ending(outcome, remarks),
        out_of_memory=outcome.out_of_memory,
        phases=outcome.with_times(),
        resting_allocated_bytes=rest.peak_allocated_bytes if rest else None,
        resting_reserved_bytes=rest.peak_reserved_bytes if rest else None,
        params_total=sum(parameter.numel() for parameter in parameters),
        params_trainable=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        readings=readings,
        memory_stats=stats,
        memory_summary=summary,
        samples=samples,
        steps=tuple(outcome.times),
        predicted_bytes=request.predicted_bytes,
        remarks=remarks,
    )


def _ending(outcome: Outcome, remarks: tuple[Remark, ...]) -> Literal["completed", "out_of_memory", "failed"]:
    if any(remark.code == RANK_FAILED for remark in remarks):
        return "failed"
    return "completed" if outcome.out_of_memory is None else "out_of_memory"


def _cpu_remarks(scenario: Scenario) -> tuple[Remark, ...]:
    """Where a step on CPU is not what the same step on a GPU would be."""
    remarks = [Remark(code="times_include_tracking")]
    if scenario.training.dropout:
        remarks.append(Remark(code="dropout_masks_wider_on_cpu", field="training.dropout"))
    if scenario.training.attention == "sdpa":
        remarks.append(Remark(code="attention_kernel_differs_on_cpu", field="training.attention"))
    return tuple(remarks)


def _readings(device: Device, beat: Beat) -> DeviceReadings:
    return DeviceReadings(
        total_bytes=device.total_bytes,
        before_bytes=device.before_bytes,
        idle_bytes=device.idle_bytes,
        peak_bytes=beat.peak_used_bytes,
        process_peak_bytes=beat.peak_process_bytes,
        resident_peak_bytes=beat.peak_resident_bytes,
        swapped_bytes=own_swapped_bytes(),
    )


def _environment(options: Options, device: Device) -> Environment:
    peft = sys.modules.get("peft")
    return Environment(
        device=options.device,
        device_name=device.name,
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
        peft="" if peft is None else str(peft.__version__),
        driver=device.driver,
        cuda=str(torch.version.cuda or ""),
        system=platform.platform()[:300],
        threads=torch.get_num_threads(),
        processors=os.cpu_count(),
        cudnn=str(torch.backends.cudnn.version() or ""),
        cudnn_benchmark=bool(torch.backends.cudnn.benchmark) if options.device == "cuda" else None,
    )
