"""Warm-up and measured steps, and what is kept of them."""

import gc
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from profiler.documents import MeasuredPhase, Options
from profiler.events import Event, PhasePeak, Progress
from profiler.report import Group, OutOfMemory, PhaseFigures, StepTime
from profiler.worker.meters import Figures, Meter, fuller, is_out_of_memory
from profiler.worker.steps import Clock, Loop
from profiler.worker.workloads import Workload

Send = Callable[[Event], None]
SetPhase = Callable[[MeasuredPhase], None]
BUILT_FRACTION = 0.1
"""Share of the progress bar that building the model takes; a picture, not a measurement."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run of steps left.

    Attributes:
        figures: Each phase at its fullest over the measured steps.
        times: Seconds of each phase of each measured step.
        out_of_memory: Where it ran out, None if it did not.
    """

    figures: Figures = field(default_factory=dict)
    times: list[StepTime] = field(default_factory=list)
    out_of_memory: OutOfMemory | None = None

    def with_times(self) -> tuple[PhaseFigures, ...]:
        """The figures in order, each with the mean time of its phase."""
        return tuple(
            figures.model_copy(update={"time_s": self._mean_s(phase)})
            for phase, figures in self.figures.items()
        )

    def _mean_s(self, phase: MeasuredPhase) -> float:
        times = [time.time_s for time in self.times if time.phase == phase]
        return sum(times) / len(times) if times else 0.0


class Run:
    """Takes a workload through its steps under one meter.

    Args:
        workload: What to run.
        meter: What measures it.
        clock: Times the phases.
        send: Where events go.
        set_phase: Told the phase, for the samples taken beside the steps.
    """

    def __init__(
        self, workload: Workload, meter: Meter, clock: Clock, send: Send, set_phase: SetPhase
    ) -> None:
        self._workload = workload
        self._meter = meter
        self._clock = clock
        self._send = send
        self._set_phase = set_phase
        self._number = 0
        self._phase: MeasuredPhase = "rest"
        self._total = 0
        self.outcome = Outcome()

    def steps(self, options: Options) -> Outcome:
        """Run warm-up and measured steps. Running out of memory ends them and is noted, not raised.

        What was measured before any other error is in `outcome`.
        """
        outcome = self.outcome
        self._total = options.warmup_steps + options.steps
        with ExitStack() as stack:
            stack.enter_context(self._meter.running())
            loop = Loop(self._workload, self._enter, self._meter.tracker)
            stack.enter_context(loop.marking())
            try:
                for number in range(1, self._total + 1):
                    self._one(loop, number, number > options.warmup_steps, outcome)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                outcome.out_of_memory = OutOfMemory(
                    step=self._number, phase=self._phase, detail=str(error)[:4000]
                )
                outcome.figures = fuller(outcome.figures, self._meter.figures())
        return outcome

    def _one(self, loop: Loop, number: int, measured: bool, outcome: Outcome) -> None:
        self._number = number
        gc.collect()
        self._meter.start_step(number)
        self._clock.reset()
        loop.step()
        if not measured:
            return
        figures = self._meter.figures()
        outcome.figures = fuller(outcome.figures, figures)
        for phase, spent_s in self._clock.spent_s.items():
            if phase != "rest":
                outcome.times.append(StepTime(step=number, phase=phase, time_s=spent_s))
        for phase, figure in figures.items():
            self._send(
                PhasePeak(
                    step=number,
                    phase=phase,
                    peak_allocated_bytes=figure.peak_allocated_bytes,
                    peak_reserved_bytes=figure.peak_reserved_bytes,
                    time_s=self._clock.spent_s.get(phase, 0.0),
                )
            )

    def _enter(self, phase: MeasuredPhase) -> None:
        self._phase = phase
        self._meter.enter(phase)
        self._clock.enter(phase)
        self._set_phase(phase)
        done = (self._number - 1 + _SHARES[phase]) / self._total
        self._send(
            Progress(
                step=self._number,
                steps=self._total,
                phase=phase,
                fraction=min(1.0, BUILT_FRACTION + (1 - BUILT_FRACTION) * done),
                code="measuring",
            )
        )


_SHARES: dict[MeasuredPhase, float] = {
    "forward": 0.0,
    "loss": 0.3,
    "backward": 0.35,
    "optimizer_step": 0.9,
    "rest": 1.0,
}


def with_groups(measured: PhaseFigures, tracked: PhaseFigures | None) -> PhaseFigures:
    """A CUDA phase's own peaks with the kinds that the tracker saw in the same phase.

    What the allocator counts beyond them (rounding, workspaces inside kernels) becomes a kind of its own,
    and so does what it holds in reserve.
    """
    groups = list(tracked.groups) if tracked else []
    allocated, reserved = measured.peak_allocated_bytes, measured.peak_reserved_bytes
    rest = allocated - sum(group.bytes for group in groups)
    if rest > 0:
        groups.append(Group(category="allocator_cache", name="not_followed", bytes=rest))
    if reserved is not None and reserved > allocated:
        groups.append(
            Group(category="allocator_cache", name="cache", bytes=reserved - allocated, layer="reserved")
        )
    return measured.model_copy(
        update={"groups": tuple(groups), "largest": tracked.largest if tracked else ()}
    )
