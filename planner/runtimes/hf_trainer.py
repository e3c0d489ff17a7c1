"""Hugging Face Trainer with the stock model classes, PEFT and bitsandbytes."""

from typing import Final

from planner.model.spec import ModelSpec
from planner.runtimes.profile import Defaults, Profile
from planner.runtimes.pytorch_common import is_adapter, training_defaults
from planner.scenario import Scenario

FUSED_SINCE: Final = (4, 56)
"""Trainer's default optimizer is `adamw_torch_fused` from here on, `adamw_torch` before."""


def _defaults(scenario: Scenario, model: ModelSpec) -> Defaults:
    """Full training keeps fp32 parameters under bf16 autocast (`bf16=True`).

    QLoRA recipes call `prepare_model_for_kbit_training`, which makes everything that is not packed fp32 and turns
    checkpointing on. A LoRA base stays in its checkpoint's 16 bit.
    """
    qlora = scenario.task == "qlora"
    return {
        **training_defaults(scenario, model),
        "training.precision.parameters": "bf16" if is_adapter(scenario) and not qlora else "fp32",
        "training.precision.autocast": True,
        "training.checkpointing": "full" if qlora else "none",
        "training.optimizer.implementation": "foreach"
        if _before_fused(scenario.runtime.version)
        else "fused",
    }


def _before_fused(version: str | None) -> bool:
    pieces = (version or "").split(".")[:2]
    return len(pieces) == 2 and all(p.isdigit() for p in pieces) and tuple(map(int, pieces)) < FUSED_SINCE


HF_TRAINER = Profile(name="hf_trainer", kind="training", defaults=_defaults, reference="defaults_hf_trainer")
