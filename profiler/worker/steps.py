"""Runs the steps: forward, loss, backward, optimizer, with the phases told apart and timed.

The loss ends where the gradient of the logits is there: up to then live the logits and what the loss makes
of them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from profiler.documents import MeasuredPhase
from profiler.worker.storages import INPUT
from profiler.worker.tracker import Tracker, adopt_all
from profiler.worker.workloads import CLIP_NORM, Workload

OnPhase = Callable[[MeasuredPhase], None]
SCORES = ("logits", "logits_per_text")
"""What classes call what their loss is made of: for each token or row, or for each pair of picture and text."""


@dataclass(slots=True)
class Clock:
    """Seconds spent in each phase since the last reset; a phase may be entered several times."""

    now: Callable[[], float]
    phase: MeasuredPhase = "rest"
    since_s: float = 0.0
    spent_s: dict[MeasuredPhase, float] = field(default_factory=dict)

    def reset(self) -> None:
        """Start anew."""
        self.spent_s = {}
        self.since_s = self.now()

    def enter(self, phase: MeasuredPhase) -> None:
        """Close the running phase and start another."""
        now_s = self.now()
        self.spent_s[self.phase] = self.spent_s.get(self.phase, 0.0) + now_s - self.since_s
        self.phase, self.since_s = phase, now_s


def wall_clock(device: str) -> Callable[[], float]:
    """Seconds; on CUDA the device's work is waited for first."""
    if device != "cuda":
        return time.perf_counter

    def now() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return now


class Loop:
    """A training loop that says which phase it is in.

    Args:
        workload: What to run.
        on_phase: Called at the start of every phase, and with `rest` at the end of a step.
        tracker: Told what the batch is for, None where storages are not followed.
    """

    def __init__(self, workload: Workload, on_phase: OnPhase, tracker: Tracker | None = None) -> None:
        self._workload = workload
        self._on_phase = on_phase
        self._tracker = tracker
        self._outputs: Any = None
        self._in_loss = False

    def step(self) -> None:
        """One whole step: all micro-batches, the optimizer, and gradients gone again."""
        work = self._workload
        for _ in range(work.accumulation):
            self._micro_batch()
        self._on_phase("optimizer_step")
        scaler = work.scaler
        if work.clips:
            if scaler is not None:
                scaler.unscale_(work.optimizer)
            torch.nn.utils.clip_grad_norm_(work.model.parameters(), CLIP_NORM)
        if scaler is None:
            work.optimizer.step()
        else:
            scaler.step(work.optimizer)
            scaler.update()
        work.optimizer.zero_grad(set_to_none=True)
        self._on_phase("rest")

    def _micro_batch(self) -> None:
        work = self._workload
        self._on_phase("forward")
        batch = work.make_batch()
        if self._tracker is not None:
            adopt_all(self._tracker, batch.values(), INPUT)
        self._in_loss = False
        with work.autocast():
            outputs = work.model(**batch)
        if not self._in_loss:  # a class that computes its loss without the common function
            self._enter_loss(next((outputs[name] for name in SCORES if name in outputs), None))
        if work.fp32_outputs:
            outputs = _to_fp32(outputs)
        del batch
        loss = outputs["loss"]
        if work.accumulation > 1:
            loss = loss / work.accumulation
        self._outputs = outputs if work.keeps_outputs else None
        del outputs
        (loss if work.scaler is None else work.scaler.scale(loss)).backward()

    @contextmanager
    def marking(self) -> Iterator[None]:
        """Wrap the model's loss function, so that its start and its end in the backward pass are seen."""
        model = _with_loss(self._workload.model)
        original = model.loss_function

        def loss_function(*args: Any, **kwargs: Any) -> Any:
            self._enter_loss(kwargs.get("logits", next(filter(_is_score, args), None)))
            return original(*args, **kwargs)

        model.loss_function = loss_function
        try:
            yield
        finally:
            model.loss_function = original

    def _enter_loss(self, logits: Any) -> None:
        self._in_loss = True
        self._on_phase("loss")
        if _is_score(logits):
            logits.register_hook(self._backward_starts)

    def _backward_starts(self, _: Any) -> None:
        self._on_phase("backward")


def _is_score(value: Any) -> bool:
    """Whether a gradient comes to it: of a loss's arguments the logits, not the labels."""
    return isinstance(value, torch.Tensor) and value.requires_grad


def _to_fp32(outputs: Any) -> Any:
    from accelerate.utils import convert_outputs_to_fp32  # noqa: PLC0415  # few jobs need it

    return convert_outputs_to_fp32(lambda: outputs)()


def _with_loss(model: Any) -> Any:
    """The transformers model inside wrappers (DDP's, PEFT's, the compiler's)."""
    whole = model.module if isinstance(model, DistributedDataParallel) else model
    inner = getattr(whole, "_orig_mod", whole)
    return inner.get_base_model() if hasattr(inner, "get_base_model") else inner
