"""One trace from request to record."""

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

import torch
import transformers
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from planner.scenario import Scenario
from profiler.documents import MeasuredPhase
from profiler.events import Progress, Refused, Request, Result, Started
from profiler.trace.child.autocast import cuda_lists
from profiler.trace.child.builders import build_for, loop_for
from profiler.trace.child.distributed import Division
from profiler.trace.child.failing import told_apart
from profiler.trace.child.fake import on_fake_cpu
from profiler.trace.child.instant import instant_trace
from profiler.trace.child.litgpt_loop import MICRO_BATCHES
from profiler.trace.child.pictures import pictures_by_shape
from profiler.trace.child.recorder import Recorder
from profiler.trace.child.stand_ins import in_force
from profiler.trace.child.user_module import Stepping, build_module, module_on_fake_cpu
from profiler.trace.documents import Target, TraceOptions, Versions
from profiler.trace.module_source import ModuleSource
from profiler.trace.record import Change, Trace, WorkspaceNote, columns_from
from profiler.worker.channel import Beat, Channel
from profiler.worker.meters import shapes_of
from profiler.worker.packing import is_packed
from profiler.worker.storages import OPTIMIZER_STATE, Storage
from profiler.worker.tracker import adopt_model, adopt_optimizer
from profiler.worker.workloads import CannotBuildError, Workload, cannot_build

STEPS: Final = 2
"""The first makes the optimizer's states, the second is the one that is read."""

FAKE: Final = "cpu"
SHAPES_ONLY: Final[Any] = "meta"
"""The device without memory, in place of one of those that a step is measured on."""

VALUE_WANTED: Final = (
    *("meta tensors", "Meta tensors", "out of meta tensor", "from the 'Meta' backend"),
    "data-independent implementation does not exist",
)
"""Words of PyTorch's errors where an operator asks for values, or gives back as many as there are."""

OnPhase = Callable[[int, MeasuredPhase], None]


def serve(channel: Channel, beat: Beat, request: Request, scenario: Scenario, options: TraceOptions) -> int:
    """Trace and tell the parent. Returns the exit code."""
    torch.set_num_threads(1)
    name = f"shapes for {options.target.device}"
    channel.send(Started(pid=os.getpid(), torch=torch.__version__, device="cpu", device_name=name))
    channel.send(Progress(step=0, steps=STEPS, fraction=0.0, code="building"))

    def on_phase(step: int, phase: MeasuredPhase) -> None:
        done = (step - 1 + _SHARES[phase]) / STEPS
        channel.send(Progress(step=step, steps=STEPS, phase=phase, fraction=done, code="tracing"))

    def make(config: Mapping[str, Any], follow: OnPhase) -> Trace:
        return make_trace(scenario, request.scenario, config, options.target, follow, options.module)

    try:
        if options.instant:
            trace = instant_trace(scenario, request.config, options.target, make, on_phase)
        else:
            trace = make(request.config, on_phase)
    except CannotBuildError as error:
        channel.send(Refused(remarks=(error.remark,)))
        return 0
    beat.sample()
    beat.stop()
    trace = trace.model_copy(update={"peak_resident_bytes": beat.peak_resident_bytes})
    channel.send(Progress(step=STEPS, steps=STEPS, fraction=1.0, code="writing"))
    channel.send(Result(report=trace.model_dump(mode="json")))
    return 0


_SHARES: Final[dict[MeasuredPhase, float]] = {
    "rest": 0.0,
    "forward": 0.0,
    "loss": 0.35,
    "backward": 0.4,
    "optimizer_step": 0.9,
}


def make_trace(
    scenario: Scenario,
    document: Mapping[str, Any],
    config: Mapping[str, Any],
    target: Target,
    on_phase: OnPhase = lambda _, __: None,
    module: ModuleSource | None = None,
) -> Trace:
    """Run two steps on shape-only tensors.

    Args:
        scenario: What to run.
        document: The same as plain values, for the record.
        config: Keys of the model's config.json.
        target: The device whose step is followed.
        on_phase: Called with step and phase at every change of phase.
        module: A user's own model in place of the one of the config.

    Raises:
        CannotBuildError: No class for this model, settings it refuses, or a model that decides by values.
    """
    start_s = time.perf_counter()
    casts = bool(scenario.training.precision.autocast)
    device_type = FAKE if casts else SHAPES_ONLY
    with ExitStack() as stack:
        stack.enter_context(told_apart(config, module))
        stack.enter_context(in_force(target, device_type, packed=is_packed(scenario.training)))
        if scenario.training.images:
            stack.enter_context(pictures_by_shape(str(config.get("model_type"))))
        division = Division(stack, target, device_type)
        workload = _built(scenario, config, module)
        if casts:
            workload = _on_fake_cpu(stack, workload, scenario, config, target)
        workload = division.divide(workload, scenario)
        built_s = time.perf_counter()
        recorder = division.recorder(workload)
        try:
            _run(workload, recorder, on_phase)
        except (RuntimeError, NotImplementedError) as error:
            if not _wants_values(error):
                raise
            name = config.get("model_type") if module is None else module.target
            raise cannot_build("depends_on_values", "model", name, error) from error
        traced_s = time.perf_counter()
        shapes = division.shapes(shapes_of(workload), workload)
    columns = columns_from(_on_device(recorder.changes(), scenario, target))
    parameters = list(workload.model.parameters())
    return Trace(
        scenario=dict(document),
        config=dict(config),
        target=target,
        versions=_versions(),
        storages=columns.storages,
        events=columns.events,
        marks=columns.marks,
        steps=STEPS,
        vocab_size=shapes.vocab_size,
        parameter_shapes=tuple(sorted(shapes.parameters)),
        params_total=sum(parameter.numel() for parameter in parameters),
        params_trainable=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        workspaces=tuple(
            WorkspaceNote(name=one.name, source=one.source, estimate=one.estimate)
            for one in recorder.workspaces.values()
        ),
        build_s=built_s - start_s,
        trace_s=traced_s - built_s,
    )


def _built(scenario: Scenario, config: Mapping[str, Any], module: ModuleSource | None) -> Workload:
    """The job, with no more micro-batches a step than it takes for the rest to be like the last."""
    workload = (
        build_for(scenario, config, SHAPES_ONLY)
        if module is None
        else build_module(module, scenario, SHAPES_ONLY)
    )
    return replace(workload, accumulation=min(workload.accumulation, MICRO_BATCHES))


def _on_device(changes: list[Change], scenario: Scenario, target: Target) -> list[Change]:
    """Without the optimizer's step counters where they stay on the host: on CUDA, unless the step is fused."""
    if target.device == "cpu" or scenario.training.optimizer.implementation == "fused":
        return changes
    return [change for change in changes if change.storage is None or not _is_counter(change.storage)]


def _is_counter(storage: Storage) -> bool:
    return (storage.kind, storage.detail, storage.shape) == (OPTIMIZER_STATE, "step", ())


def _on_fake_cpu(
    stack: ExitStack, workload: Workload, scenario: Scenario, config: Mapping[str, Any], target: Target
) -> Workload:
    """Autocast acts on tensors of a real device only: fake CPU tensors, with CUDA's list where CUDA is meant."""
    if target.device == "cuda":
        stack.enter_context(cuda_lists())
    stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
    if isinstance(workload.model, Stepping):
        return module_on_fake_cpu(workload, scenario)
    return on_fake_cpu(workload, scenario, config)


def _wants_values(error: Exception) -> bool:
    """Whether a model failed because it looks at values, which nothing here has."""
    by_class = isinstance(error, DataDependentOutputException | DynamicOutputShapeException)
    return by_class or any(words in str(error) for words in VALUE_WANTED)


def _run(workload: Workload, recorder: Recorder, on_phase: OnPhase) -> None:
    names = {id(parameter): name for name, parameter in workload.model.named_parameters()}
    step = 0

    def enter(phase: MeasuredPhase) -> None:
        recorder.enter_phase(phase)
        on_phase(step, phase)

    handles = adopt_model(recorder, workload.model)
    loop = loop_for(workload)(workload, enter, recorder)
    with recorder.watching_modules(workload.model), recorder, loop.marking():
        for step in range(1, STEPS + 1):  # read by `enter`
            gc.collect()
            recorder.start_step(step)
            enter("rest")
            loop.step()
            for optimizer in workload.optimizers():
                adopt_optimizer(recorder, optimizer, names)
    for handle in handles:
        handle.remove()


def _versions() -> Versions:
    peft: Any = sys.modules.get("peft")
    return Versions(
        torch=torch.__version__,
        transformers=transformers.__version__,
        peft="" if peft is None else str(peft.__version__),
    )
