"""Knows which phase a training program is in, and notes time and memory of each. Raises nothing into the program."""

import time
from collections.abc import Callable
from typing import Any, Final

import torch

from profiler.hook.follow import FollowedStep
from profiler.hook.lines import Lines
from profiler.hook.memory import Counters, HostCounters, counters_of, resident_bytes
from profiler.hook.settings import TARGET_FRAC, HookSettings
from profiler.hook.snapshots import Snapshots
from profiler.host_memory import own_swapped_bytes

MOST_LINES: Final = 2_000
"""Sampled steps that are written at one spacing; then the spacing is doubled."""

BETWEEN: Final = "between"
"""Where the program does something of its own, gradients still there: no phase of a plan, whose `rest` is the moment
at which a step begins."""

SETTLED: Final = 5
"""Sampled steps before the hook's share of them is judged."""

MOST_PROBLEMS: Final = 5


class Watcher:
    """The phases of one training loop.

    A step begins with the first forward pass after an optimizer step and ends with the last optimizer step before the
    next one. Forward passes that train nothing (evaluation) are no part of one.

    Args:
        lines: Where to write.
        settings: How to watch.
    """

    def __init__(self, lines: Lines, settings: HookSettings) -> None:
        self._lines = lines
        self._settings = settings
        self._counters: Counters = HostCounters()
        self._model: Any = None
        self._optimizers: dict[int, Any] = {}
        self._followed: FollowedStep | None = None
        self._snapshots = Snapshots(lines, settings)
        self._problems = 0
        self._phase = "rest"
        self._since_s = self._begun_s = self._ended_s = 0.0
        self._spent: dict[str, list[int | float | None]] = {}
        self._in_step = self._stepped = self._sampling = self._is_followed = False
        self._own_s = self._step_own_s = self._steps_s = self._following_s = 0.0
        self._marks_backward = False
        self._mean_every = settings.every
        self._written = self._judged = 0
        self.step = 0
        self.sampled = 0

    # Each of these runs inside the program: errors are noted, never raised.

    def set_model(self, model: Any) -> None:
        """The model that trains."""
        self._safely(self._set_model, model)

    def forward_begins(self, inputs: Any, *, trains: bool) -> None:
        """The model is called."""
        self._safely(self._forward_begins, inputs, trains)

    def forward_ends(self, output: Any) -> None:
        """The model returns."""
        self._safely(self._forward_ends, output)

    def loss_begins(self, logits: Any) -> None:
        """The model's own loss is called."""
        self._safely(self._loss_begins, logits)

    def backward_begins(self) -> None:
        """A backward pass begins."""
        self._safely(self._backward_begins)

    def backward_ends(self) -> None:
        """A backward pass is over."""
        self._safely(self._leave, "backward", "loss")

    def optimizer_begins(self, optimizer: Any) -> None:
        """An optimizer step begins."""
        self._safely(self._optimizer_begins, optimizer)

    def optimizer_ends(self) -> None:
        """An optimizer step is over."""
        self._safely(self._optimizer_ends)

    def ran_out_of_memory(self, detail: str) -> None:
        """An allocation failed."""
        self._lines.write("oom", step=self.step, phase=self._phase, detail=detail[:4000])

    def request_snapshot(self, path: str) -> None:
        """Write a memory snapshot of the next step to this file."""
        self._snapshots.request(path)

    def close(self) -> None:
        """The program is over, or is watched no more."""
        self._safely(self._close_step)
        self._safely(self._write_end)

    def _safely(self, do: Callable[..., None], *arguments: Any) -> None:
        began_s = time.perf_counter()
        try:
            do(*arguments)
        except Exception as error:  # noqa: BLE001  # whatever it is, the program must go on
            self._followed = None
            self._problems += 1
            if self._problems <= MOST_PROBLEMS:
                self._lines.write("problem", step=self.step, detail=f"{type(error).__name__}: {error}"[:1000])
        if self._sampling:
            self._step_own_s += time.perf_counter() - began_s - self._following_s
        self._following_s = 0.0

    def _set_model(self, model: Any) -> None:
        self._model = model
        self._counters = counters_of(model, keep_peaks=self._settings.keep_peaks)
        parameters = list(model.parameters())
        self._lines.write(
            "model",
            total=sum(one.numel() for one in parameters),
            trainable=sum(one.numel() for one in parameters if one.requires_grad),
            device=self._counters.kind,
            device_name=_device_name(parameters),
        )

    def _forward_begins(self, inputs: Any, trains: bool) -> None:
        if not trains:
            if self._stepped:
                self._close_step()
            return
        if self._stepped or not self._in_step:
            self._begin_step(inputs)
        self._enter("forward")

    def _begin_step(self, inputs: Any = None) -> None:
        self._close_step()
        self.step += 1
        self._in_step = True
        self._sampling = self.step % self._mean_every == 0 or self.step <= 2
        self._step_own_s = 0.0
        self._spent = {}
        if not self._sampling:
            return
        self._phase = "rest"
        self._counters.take_peak()
        self._begun_s = self._since_s = time.perf_counter()
        self._snapshots.step_begins(self.step)
        self._is_followed = self.step == self._settings.follow_step and self._can_follow()
        if self._is_followed:
            self._followed = FollowedStep(self._model, self._optimizers.values(), inputs, self._counters.kind)

    def _can_follow(self) -> bool:
        if self._model is None:
            return False
        compiled = hasattr(self._model, "_orig_mod") or getattr(self._model, "_compiled_call_impl", None)
        if compiled:
            self._lines.write("problem", step=self.step, detail="compiled")
        return not compiled

    def _enter(self, phase: str) -> None:
        if not self._sampling or not self._in_step:
            return
        now_s = time.perf_counter()
        allocated, reserved = self._counters.take_peak()
        spent = self._spent.setdefault(self._phase, [0.0, None, None])
        spent[0] = (spent[0] or 0.0) + now_s - self._since_s
        spent[1], spent[2] = _most(spent[1], allocated), _most(spent[2], reserved)
        self._phase = phase
        if self._followed is not None:
            self._followed.enter(phase)
        self._since_s = time.perf_counter()

    def _leave(self, *phases: str) -> None:
        if self._phase in phases:
            self._enter(BETWEEN)

    def _forward_ends(self, output: Any) -> None:
        if not self._sampling or self._phase not in {"forward", "loss"}:
            return
        if self._phase == "forward":
            self._loss_begins(_logits(output))

    def _loss_begins(self, logits: Any) -> None:
        if not self._sampling or not self._in_step:
            return
        self._enter("loss")
        self._marks_backward = isinstance(logits, torch.Tensor) and logits.requires_grad
        if self._marks_backward:
            logits.register_hook(self._logits_are_done)

    def _logits_are_done(self, _: Any) -> None:
        if self._phase == "loss":
            self._safely(self._enter, "backward")

    def _backward_begins(self) -> None:
        if self._stepped or not self._in_step:  # a program that calls no module
            self._begin_step()
        if not (self._marks_backward and self._phase == "loss"):
            self._enter("backward")

    def _optimizer_begins(self, optimizer: Any) -> None:
        self._optimizers[id(optimizer)] = optimizer
        if not self._in_step:
            self._begin_step()
        self._enter("optimizer_step")

    def _optimizer_ends(self) -> None:
        self._stepped = True
        if not self._sampling:
            return
        self._enter(BETWEEN)
        self._ended_s = self._since_s

    def _close_step(self) -> None:
        if not (self._in_step and self._stepped):
            return
        self._in_step = self._stepped = self._marks_backward = False
        if not self._sampling:
            return
        self._enter_last()
        allocated, reserved = self._counters.now()
        time_s = self._ended_s - self._begun_s
        self._lines.write(
            "step",
            step=self.step,
            time_s=time_s,
            phases=self._spent,
            after=[allocated, reserved],
            resident=resident_bytes(),
            followed=self._is_followed,
        )
        self._snapshots.step_ends(self.step)
        self._judge(time_s)
        self._sampling = self._is_followed = False

    def _enter_last(self) -> None:
        """What comes after the optimizer's step is over too."""
        self._in_step = True
        self._enter(BETWEEN)
        self._in_step = False
        if self._followed is not None:
            began_s = time.perf_counter()
            followed, self._followed = self._followed, None
            self._lines.write("followed", step=self.step, **followed.end())
            self._following_s = time.perf_counter() - began_s

    def _judge(self, time_s: float) -> None:
        """Sample half as often where the hook takes more than its share, or writes too much."""
        self.sampled += 1
        self._written += 1
        if not self._is_followed and self.step > 1:
            self._own_s += self._step_own_s
            self._steps_s += time_s
            self._judged += 1
        dear = self._judged >= SETTLED and self._own_s > TARGET_FRAC * self._steps_s * self._mean_every
        if dear or self._written >= MOST_LINES:
            self._mean_every *= 2
            self._written = 0

    def _write_end(self) -> None:
        self._snapshots.close()
        self._lines.write(
            "end",
            own_s=self._own_s,
            steps_s=self._steps_s,
            sampled=self.sampled,
            seen=self.step,
            every=self._mean_every,
            problem=self._lines.problem,
            stats=_stats(self._counters.kind),
            swapped=own_swapped_bytes(),
            cudnn=str(torch.backends.cudnn.version() or ""),
            cudnn_benchmark=bool(torch.backends.cudnn.benchmark) if self._counters.kind == "cuda" else None,
        )


def _most(one: float | None, other: int | None) -> float | None:
    return one if other is None else other if one is None else max(one, other)


def _logits(output: Any) -> Any:
    """What the loss will be made of: the output itself, or what it calls its logits."""
    if isinstance(output, torch.Tensor):
        return output if output.dim() > 1 else None
    found = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", None)
    return found if isinstance(found, torch.Tensor) else None


def _device_name(parameters: list[Any]) -> str:
    device = parameters[0].device if parameters else None
    return torch.cuda.get_device_name(device) if device is not None and device.type == "cuda" else ""


def _stats(kind: str) -> dict[str, int]:
    if kind != "cuda":
        return {}
    return {key: value for key, value in torch.cuda.memory_stats().items() if isinstance(value, int)}
