"""Which settings one real step on one device can run, before anything is started. No PyTorch.

What cannot be run as asked is refused by field; nothing is silently replaced.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from planner.scenario import Scenario
from profiler.documents import DeviceKind, Param, Remark

RUNTIMES: Final = ("generic", "transformers", "hf_trainer")
"""Runtimes whose loop is the one written here: a plain loop, or the Trainer's habits on one device."""

FLOATS: Final = ("fp32", "bf16", "fp16")
OPTIMIZERS: Final = ("adamw", "adam", "sgd", "sgd_momentum", "adafactor")
METHODS: Final = ("lora", "rslora", "dora", "ia3")
LOSSES: Final = ("standard", "chunked", "fused_linear")
ATTENTION: Final = ("eager", "sdpa", "flash")

Check = Callable[[Scenario, DeviceKind], Iterator[Remark]]


def why_not_runnable(scenario: Scenario, device: DeviceKind) -> tuple[Remark, ...]:
    """One remark per field that this machine's step cannot honour; empty if it can be run.

    Args:
        scenario: The scenario with every default of its runtime filled in.
        device: Where the step would run.
    """
    if not scenario.is_training:
        return (_refuse("serving_not_measured", "task", scenario.task, ("pretrain", "full", "lora")),)
    return tuple(remark for check in _CHECKS for remark in check(scenario, device))


def _refuse(code: str, field: str, given: Any, allowed: tuple[str, ...] = ()) -> Remark:
    params: dict[str, Param] = {"given": given if isinstance(given, int | float | bool) else str(given)}
    if allowed:
        params["allowed"] = ", ".join(allowed)
    return Remark(code=code, field=field, params=params)


def _unless(field: str, given: str | None, allowed: tuple[str, ...], code: str) -> Iterator[Remark]:
    """Refuse a value that is set and not allowed."""
    if given is not None and given not in allowed:
        yield _refuse(code, field, given, allowed)


def _runtime(scenario: Scenario, device: DeviceKind) -> Iterator[Remark]:
    yield from _unless("runtime.name", scenario.runtime.name, RUNTIMES, "runtime_not_measured")
    if scenario.runtime.compile and device == "cpu":
        yield _refuse("compile_needs_cuda", "runtime.compile", given=True)


def _one_device(scenario: Scenario, _: DeviceKind) -> Iterator[Remark]:
    parallel = scenario.parallel
    for name in ("tensor", "pipeline", "context", "expert"):
        degree = getattr(parallel, name)
        if degree > 1:
            yield _refuse("several_devices", f"parallel.{name}", degree, ("1",))
    if (parallel.data or 1) > 1:
        yield _refuse("several_devices", "parallel.data", parallel.data, ("1",))
    if parallel.sharding != "none" and (parallel.sharding_degree or scenario.hardware.num_devices) > 1:
        yield _refuse("several_devices", "parallel.sharding", parallel.sharding, ("none",))
    if scenario.hardware.num_devices > 1:
        yield _refuse("several_devices", "hardware.devices", scenario.hardware.num_devices, ("1",))
    for name in ("parameters", "gradients", "optimizer"):
        where = getattr(parallel.offload, name)
        if where != "none":
            yield _refuse("offload_not_measured", f"parallel.offload.{name}", where, ("none",))


def _precision(scenario: Scenario, _: DeviceKind) -> Iterator[Remark]:
    precision, field = scenario.training.precision, "training.precision"
    stored = precision.parameters
    yield from _unless(f"{field}.parameters", stored, FLOATS, "format_not_measured")
    yield from _unless(f"{field}.compute", precision.compute, FLOATS, "format_not_measured")
    needs_cast = precision.compute in FLOATS and stored in FLOATS and precision.compute != stored
    if needs_cast and not precision.autocast:
        yield _refuse("compute_needs_autocast", f"{field}.compute", precision.compute, (str(stored),))
    trained = _trained_format(scenario)
    for name in ("gradients", "optimizer"):
        given = getattr(precision, name)
        if given is not None and trained is not None and given != trained:
            yield _refuse("state_format_not_measured", f"{field}.{name}", given, (trained,))
    if precision.master not in (None, "none", trained):
        yield _refuse("master_copy_not_measured", f"{field}.master", precision.master, ("none",))
    for name in ("gradient_copy", "fp8", "fp4"):
        given = getattr(precision, name)
        if given not in (None, "none"):
            yield _refuse("format_not_measured", f"{field}.{name}", given)


def _trained_format(scenario: Scenario) -> str | None:
    if scenario.adapter is not None and scenario.task in {"lora", "qlora"}:
        return scenario.adapter.dtype or scenario.training.precision.parameters
    return scenario.training.precision.parameters


def _training(scenario: Scenario, device: DeviceKind) -> Iterator[Remark]:
    training = scenario.training
    yield from _unless("training.attention", training.attention, ATTENTION, "attention_not_measured")
    if training.attention == "flash" and device == "cpu":
        yield _refuse("flash_needs_cuda", "training.attention", "flash", ("eager", "sdpa"))
    yield from _unless("training.loss", training.loss, LOSSES, "loss_not_measured")
    if training.kernels:
        yield _refuse("kernels_not_measured", "training.kernels", ", ".join(training.kernels))
    yield from _checkpointing(scenario)
    if training.activation_offload:
        yield _refuse("offload_not_measured", "training.activation_offload", given=True)
    if scenario.quantization_aware is not None:
        yield _refuse("quantization_not_measured", "quantization_aware", "set")


def _checkpointing(scenario: Scenario) -> Iterator[Remark]:
    training = scenario.training
    if training.checkpoint_modules:
        given = ", ".join(training.checkpoint_modules)
        yield _refuse("checkpointing_not_measured", "training.checkpoint_modules", given)
    if training.checkpoint_reentrant and training.checkpointing in {"selective_attention", "selective_op"}:
        yield _refuse("checkpointing_not_measured", "training.checkpoint_reentrant", True, ("false",))


def _optimizer(scenario: Scenario, _: DeviceKind) -> Iterator[Remark]:
    optimizer = scenario.training.optimizer
    yield from _unless("training.optimizer.name", optimizer.name, OPTIMIZERS, "optimizer_not_measured")
    if optimizer.paged:
        yield _refuse("optimizer_not_measured", "training.optimizer.paged", given=True)
    precision = scenario.training.precision
    if optimizer.in_backward and precision.autocast and precision.compute == "fp16":
        yield _refuse("in_backward_scaling", "training.optimizer.in_backward", given=True)
    if optimizer.in_backward and scenario.training.gradient_accumulation > 1:
        yield _refuse("in_backward_accumulation", "training.optimizer.in_backward", given=True)
    if optimizer.name == "adafactor" and optimizer.implementation == "fused":
        yield _refuse(
            "optimizer_not_measured", "training.optimizer.implementation", "fused", ("foreach", "single")
        )


def _adapter(scenario: Scenario, _: DeviceKind) -> Iterator[Remark]:
    adapter = scenario.adapter
    if scenario.task == "qlora":
        yield _refuse("quantized_base_not_measured", "task", "qlora", ("lora", "full", "pretrain"))
    if adapter is None or scenario.task not in {"lora", "qlora"}:
        return
    yield from _unless("adapter.method", adapter.method, METHODS, "adapter_not_measured")
    if scenario.task == "lora":
        yield from _unless("adapter.base", adapter.base, FLOATS, "quantized_base_not_measured")
    stored = adapter.base or scenario.training.precision.parameters
    if adapter.dtype not in (None, "fp32", stored):
        yield _refuse("adapter_format_not_measured", "adapter.dtype", adapter.dtype, ("fp32", str(stored)))


_CHECKS: Final[tuple[Check, ...]] = (_runtime, _one_device, _precision, _training, _optimizer, _adapter)
