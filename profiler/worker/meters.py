"""What measures a step: on CPU the tracker, on CUDA the allocator's own figures and then the tracker."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from profiler.documents import MeasuredPhase
from profiler.report import PhaseFigures
from profiler.worker.grouping import ModelShapes, group, largest
from profiler.worker.storages import Moment
from profiler.worker.tracker import Tracker, adopt_model, adopt_optimizer
from profiler.worker.workloads import Workload

PHASES: tuple[MeasuredPhase, ...] = ("rest", "forward", "loss", "backward", "optimizer_step")
Figures = dict[MeasuredPhase, PhaseFigures]


class Meter(Protocol):
    """Measures one step at a time."""

    tracker: Tracker | None

    def running(self) -> AbstractContextManager[None]:
        """What has to be switched on around the steps."""

    def start_step(self, number: int) -> None:
        """A step begins."""

    def enter(self, phase: MeasuredPhase) -> None:
        """A phase begins, and the one before ends."""

    def figures(self) -> Figures:
        """The phases of the step so far, each at its fullest moment."""


def shapes_of(workload: Workload) -> ModelShapes:
    """What the grouping needs to know of the model."""
    shapes = [tuple(parameter.shape) for parameter in workload.model.parameters() if parameter.requires_grad]
    matrices = {shape for shape in shapes if len(shape) > 1}
    turned = {shape[::-1] for shape in matrices}
    return ModelShapes(vocab_size=workload.vocab_size, parameters=frozenset(matrices | turned))


class TensorMeter:
    """Follows every tensor of one device through the dispatcher. On CPU this is the measurement itself.

    Args:
        workload: What runs.
        device: `cpu` or `cuda`.
        tracker: What follows the tensors, None for the usual one.
    """

    def __init__(self, workload: Workload, device: str, tracker: Tracker | None = None) -> None:
        self._workload = workload
        self._shapes = shapes_of(workload)
        self._names = {id(p): name for name, p in workload.model.named_parameters()}
        self.tracker: Tracker | None = None
        self._tracker = tracker or Tracker(device)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Listen to operators and modules."""
        model = self._workload.model
        handles = adopt_model(self._tracker, model)
        self.tracker = self._tracker
        try:
            with self._tracker.watching_modules(model), self._tracker:
                yield
        finally:
            for handle in handles:
                handle.remove()

    def start_step(self, number: int) -> None:
        """Label the optimizer's states of the step before and forget its events."""
        self._label_states()
        self._tracker.start_step(number)

    def enter(self, phase: MeasuredPhase) -> None:
        """A phase begins."""
        self._tracker.enter_phase(phase)

    def figures(self) -> Figures:
        """The fullest moment of each phase, by kind."""
        self._label_states()
        found = {moment.phase: moment for moment in self._tracker.moments()}
        return {phase: self._phase(phase, found[phase]) for phase in PHASES if phase in found}

    def _phase(self, phase: MeasuredPhase, moment: Moment) -> PhaseFigures:
        return PhaseFigures(
            phase=phase,
            peak_allocated_bytes=moment.bytes,
            groups=group(moment, self._shapes),
            largest=largest(moment, self._shapes),
        )

    def _label_states(self) -> None:
        for optimizer in self._workload.optimizers():
            adopt_optimizer(self._tracker, optimizer, self._names)


@dataclass(slots=True)
class _Peak:
    allocated: int = 0
    reserved: int = 0


class AllocatorMeter:
    """Peaks of the CUDA caching allocator, reset at the start of every phase."""

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        self._phase: MeasuredPhase = "rest"
        self._peaks: dict[MeasuredPhase, _Peak] = {}

    def running(self) -> AbstractContextManager[None]:
        """The allocator counts anyway."""
        return nullcontext()

    def start_step(self, number: int) -> None:  # noqa: ARG002  # the protocol's
        """Forget the peaks of the step before."""
        self._peaks = {}
        self._phase = "rest"
        torch.cuda.reset_peak_memory_stats()

    def enter(self, phase: MeasuredPhase) -> None:
        """Read the peaks of the phase that ends and start anew."""
        self._close()
        self._phase = phase
        torch.cuda.reset_peak_memory_stats()

    def figures(self) -> Figures:
        """The peaks so far, the running phase included."""
        self._close()
        return {
            phase: PhaseFigures(
                phase=phase,
                peak_allocated_bytes=self._peaks[phase].allocated,
                peak_reserved_bytes=self._peaks[phase].reserved,
            )
            for phase in PHASES
            if phase in self._peaks
        }

    def _close(self) -> None:
        torch.cuda.synchronize()
        peak = self._peaks.setdefault(self._phase, _Peak())
        peak.allocated = max(peak.allocated, torch.cuda.max_memory_allocated())
        peak.reserved = max(peak.reserved, torch.cuda.max_memory_reserved())


def fuller(one: Mapping[MeasuredPhase, PhaseFigures], other: Mapping[MeasuredPhase, PhaseFigures]) -> Figures:
    """Phase by phase the figures with the higher peak."""
    merged: Figures = dict(one)
    for phase, figures in other.items():
        known = merged.get(phase)
        if known is None or figures.peak_allocated_bytes > known.peak_allocated_bytes:
            merged[phase] = figures
    return {phase: merged[phase] for phase in PHASES if phase in merged}


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that an allocation failed."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and "DefaultCPUAllocator: can't allocate" in str(error)
    )


def cuda_facts() -> tuple[dict[str, int], str]:
    """`memory_stats` (whole numbers only) and `memory_summary` of the current device."""
    stats: dict[str, Any] = torch.cuda.memory_stats()
    return {key: value for key, value in stats.items() if isinstance(value, int)}, torch.cuda.memory_summary()
