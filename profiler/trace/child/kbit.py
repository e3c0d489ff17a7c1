"""A transformers model on packed weights with PEFT adapters on them.

What is not packed (embedding, norms, head) has the parameters' format: fp32 after
`prepare_model_for_kbit_training`, 16 bit where a recipe leaves that out.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from peft.tuners.lora.layer import Linear as LoraLinear
from torch import nn

from planner.model import model_from_config
from planner.scenario import Adapter, Scenario
from profiler.trace.child.quantized import EightBitLinear, FourBitLinear, GptqLinear, PackedLinear, quantize
from profiler.trace.quantized_rules import four_bit
from profiler.worker import workloads
from profiler.worker.workloads import DTYPES, Workload, cannot_build

BITSANDBYTES: Final = (0, 44, 1)
"""Newer versions take the same: `MatMul4Bit` keeps the weights alone."""

NOT_PACKED: Final = frozenset({"lm_head", "gate", "router", "lora_A", "lora_B"})
"""The head (`llm_int8_skip_modules`), routers, and the adapters themselves."""


class AdapterOnPacked(LoraLinear):  # type: ignore[misc]  # peft is not followed by the type checker
    """PEFT's adapter on packed weights: the base's result is copied, and no cast of the input under autocast.

    `peft/tuners/lora/bnb.py` (`result.clone()`) and `gptq.py` (no copy), `requires_conversion` in both.
    """

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Base and adapters side by side."""
        result = self.base_layer(x, *args, **kwargs)
        if not isinstance(self.base_layer, GptqLinear):
            result = result.clone()
        converts = not torch.is_autocast_enabled("cpu")
        for name in self.active_adapters:
            down, up = self.lora_A[name], self.lora_B[name]
            given = self._cast_input_dtype(x, down.weight.dtype) if converts else x
            more = up(down(self.lora_dropout[name](given))) * self.scaling[name]
            result = result + (more.to(result.dtype) if converts else more)
        return result


def build(scenario: Scenario, config: Mapping[str, Any], device: Any) -> Workload:
    """The workload of the same model on plain weights, with the weights packed afterwards.

    Raises:
        CannotBuildError: No class for this model, settings its class or PEFT refuses, a packed format that is not
            known here, or experts: transformers 5 holds them in one tensor that no library packs.
    """
    adapter = scenario.adapter or Adapter()
    make = _maker(scenario, adapter)
    if model_from_config(config).has_experts:
        raise cannot_build("packed_experts_not_traced", "model", config.get("model_type"))
    unpacked = adapter.model_copy(update={"base": scenario.training.precision.parameters})
    plain = scenario.model_copy(update={"task": "lora", "adapter": unpacked})
    workload = workloads.build(plain, config, device)
    quantize(workload.model, make, _is_packed)
    for module in workload.model.modules():
        if type(module) is LoraLinear and isinstance(module.base_layer, PackedLinear):
            module.__class__ = AdapterOnPacked
    return workload


def _is_packed(path: str) -> bool:
    return not NOT_PACKED & set(path.split("."))


def _maker(scenario: Scenario, adapter: Adapter) -> Callable[[nn.Linear], PackedLinear]:
    compute = str(DTYPES[scenario.training.precision.compute or "bf16"]).removeprefix("torch.")
    match adapter.base:
        case "nf4" | "nf4_dq":
            rules = four_bit(adapter.base, BITSANDBYTES, weights=compute, compute=compute)
            return partial(FourBitLinear, rules=rules)
        case "gptq4":
            return GptqLinear
        case "int8":
            return EightBitLinear
    raise cannot_build("packed_format_not_traced", "adapter.base", adapter.base)
