"""What the PyTorch training runtimes share; each file states only what its framework does otherwise."""

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Value
from planner.scenario import Scenario


def is_adapter(scenario: Scenario) -> bool:
    """Whether the job trains an adapter on a frozen base."""
    return scenario.task in {"lora", "qlora"}


def model_dropout(model: ModelSpec) -> float:
    """Dropout of the model's own config: GPT-2's generation (learned positions) trains with 0.1, later ones without."""
    return 0.1 if model.position_embedding == "learned" else 0.0


def training_defaults(scenario: Scenario, model: ModelSpec) -> dict[str, Value]:
    """PyTorch's and PEFT's own defaults for a loop in bf16.

    PEFT: `LoraConfig` has rank 8, alpha 8, no dropout, query and value as targets; adapters are fp32
    (`autocast_adapter_dtype`). bitsandbytes: 4-bit without double quantization.
    """
    return {
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
        "adapter.targets": ("q_proj", "v_proj"),
    }
