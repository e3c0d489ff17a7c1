"""What the PyTorch training runtimes share; each file states only what its framework does otherwise."""

import json
from typing import Final

from planner.memory.adapters import DEFAULT_TARGETS, DENOISER_TARGETS
from planner.model.spec import ModelSpec
from planner.runtimes.profile import Value
from planner.scenario import Scenario


def is_adapter(scenario: Scenario) -> bool:
    """Whether the job trains an adapter on a frozen base."""
    return scenario.task in {"lora", "qlora"}


RESIDUAL_DROPOUT: Final = ("resid_pdrop", "hidden_dropout", "dropout", "hidden_dropout_prob", "dropout_rate")
"""Where a config states the dropout of its residual stream, by family (GPT-2, NeoX, OPT, BERT, T5)."""
NEVER_DROPS: Final = frozenset({"mpt", "vit", "dinov2", "clip", "siglip", "whisper"})
"""Classes with learned positions whose config has no dropout unless stated (`MptConfig.resid_pdrop`)."""
DROPS: Final = frozenset({"t5", "mt5", "umt5"})
"""Classes with other positions whose config has one unless stated (`T5Config.dropout_rate`)."""


def model_dropout(model: ModelSpec) -> float:
    """Dropout of the model's own config: GPT-2's generation (learned positions) trains with 0.1, later ones without."""
    if model.position_embedding != "learned" and model.model_type not in DROPS:
        return 0.0
    config = dict(model.config)
    stated = (json.loads(config[name]) for name in RESIDUAL_DROPOUT if name in config)
    default = 0.0 if model.model_type in NEVER_DROPS else 0.1
    return next((float(value) for value in stated if type(value) in {int, float} and 0 <= value < 1), default)


def moved_gradients(scenario: Scenario) -> dict[str, Value]:
    """Gradients of ZeRO's stages 2 and 3 go to the host with the optimizer's states.

    DeepSpeed `offload_optimizer`: `async_inplace_copy_grad_to_fp32_buffer_from_gpu` in `stage_1_and_2.py`,
    `partition_grads` in `stage3.py`.
    """
    parallel = scenario.parallel
    away = parallel.offload.optimizer != "none" and parallel.sharding in {"zero2", "zero3"}
    return {"parallel.offload.gradients": "cpu"} if away else {}


def training_defaults(scenario: Scenario, model: ModelSpec) -> dict[str, Value]:
    """PyTorch's and PEFT's own defaults for a loop in bf16.

    PEFT: `LoraConfig` has rank 8, alpha 8, no dropout, query and value as targets; adapters are fp32
    (`autocast_adapter_dtype`). diffusers' scripts: all four attention matrices of a denoiser. bitsandbytes:
    4-bit without double quantization.
    """
    return {
        **moved_gradients(scenario),
        "training.attention": "sdpa",
        "training.loss": "standard",
        "training.kernels": (),
        "training.checkpointing": "none",
        "training.packing": "none",
        "training.dropout": model_dropout(model),
        "training.precision.parameters": "bf16",
        "training.precision.compute": "bf16",
        "training.precision.autocast": False,
        "training.optimizer.implementation": "foreach",
        "runtime.compile": False,
        "runtime.allocator": "default",
        "adapter.rank": 8,
        "adapter.alpha": 8.0,
        "adapter.dropout": 0.0,
        "adapter.dtype": "fp32",
        "adapter.base": "nf4" if scenario.task == "qlora" else "bf16",
        "adapter.targets": DEFAULT_TARGETS if model.latents is None else DENOISER_TARGETS,
    }
