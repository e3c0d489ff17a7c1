"""Which packed bases and which of LitGPT's settings a trace can follow. No PyTorch."""

from collections.abc import Iterator
from typing import Final

from planner.scenario import Scenario
from profiler.documents import Remark

PACKED: Final = ("nf4", "nf4_dq", "gptq4", "int8")
"""Packed bases whose linears are known here."""

_QLORA_LIFTS: Final = frozenset({("quantized_base_not_measured", "task")})
_LITGPT_LIFTS: Final = frozenset(
    {
        ("runtime_not_measured", "runtime.name"),
        ("loss_not_measured", "training.loss"),
        ("optimizer_not_measured", "training.optimizer.paged"),
        ("state_format_not_measured", "training.precision.optimizer"),
        ("adapter_format_not_measured", "adapter.dtype"),
    }
)


def lifted(remark: Remark, scenario: Scenario) -> bool:
    """What a real step here cannot do and a trace can: packed bases, and LitGPT's own loop."""
    key = (remark.code, remark.field)
    if scenario.task == "qlora" and key in _QLORA_LIFTS:
        return True
    return scenario.runtime.name == "litgpt" and key in _LITGPT_LIFTS


def only_packed(scenario: Scenario) -> Iterator[Remark]:
    """Packed bases that are not known here, and what LitGPT's loop lacks."""
    adapter = scenario.adapter
    if scenario.task == "qlora" and adapter is not None and adapter.base not in PACKED:
        yield _refuse("packed_format_not_traced", "adapter.base", str(adapter.base), PACKED)
    if scenario.runtime.name != "litgpt":
        return
    if scenario.task in {"lora", "qlora"} and adapter is not None and adapter.method != "lora":
        yield _refuse("adapter_not_measured", "adapter.method", adapter.method, ("lora",))
    if scenario.training.checkpointing not in (None, "none"):
        given = str(scenario.training.checkpointing)
        yield _refuse("checkpointing_not_measured", "training.checkpointing", given, ("none",))
    if scenario.hardware.num_devices > 1:
        given = str(scenario.hardware.num_devices)
        yield _refuse("several_devices", "hardware.devices", given, ("1",))
    if scenario.training.precision.autocast:
        yield _refuse("format_not_measured", "training.precision.autocast", "true", ("false",))


def _refuse(code: str, field: str, given: str, allowed: tuple[str, ...]) -> Remark:
    return Remark(code=code, field=field, params={"given": given, "allowed": ", ".join(allowed)})
