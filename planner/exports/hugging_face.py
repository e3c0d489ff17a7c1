"""Hugging Face `TrainingArguments` as JSON, and the FSDP section that Accelerate's file shares with it."""

import json
from typing import Any

from planner.exports import deepspeed
from planner.exports.facts import cards, hf_optimizer, offloaded, require, require_runtime, tidy, whole
from planner.exports.types import Export
from planner.plan_types import Plan

STEP = (
    "runtime.name",
    "training.micro_batch",
    "training.gradient_accumulation",
    "training.checkpointing",
    "training.checkpoint_reentrant",
    "training.optimizer",
    "runtime.compile",
    "parallel.bucket_mb",
    "parallel.sharding",
    "parallel.reshard_after_forward",
    "parallel.offload",
    "workload.epochs",
)

PRECISION = ("training.precision.compute", "training.precision.autocast")


def training_arguments(plan: Plan) -> Export:
    """The arguments as a JSON file for `HfArgumentParser.parse_json_file`.

    The type the model is loaded in, its attention and the sequence length belong to the script, not here.
    """
    require_runtime(plan, "hf_trainer")
    values = {"output_dir": "output", **trainer_step(plan), **sharding(plan)}
    text = json.dumps(values, indent=2) + "\n"
    liger = ("training.loss", "training.kernels") if values.get("use_liger_kernel") else ()
    return Export(
        target="training_arguments",
        file_name="training_arguments.json",
        text=text,
        carries=(*STEP, *PRECISION, *liger),
    )


def trainer_step(plan: Plan) -> dict[str, Any]:
    """Batch, precision, optimizer and checkpointing as the trainer spells them."""
    held = plan.resolved
    training, precision = held.training, held.training.precision
    return tidy(
        {
            "per_device_train_batch_size": training.micro_batch,
            "gradient_accumulation_steps": training.gradient_accumulation,
            **mixed(plan),
            "optim": hf_optimizer(held),
            **checkpointing(plan),
            "torch_compile": bool(held.runtime.compile),
            "use_liger_kernel": liger(plan),
            "ddp_bucket_cap_mb": whole(held.parallel.bucket_mb),
            "num_train_epochs": _epochs(plan),
        }
    ) | ({} if precision.autocast else {"bf16": False, "fp16": False})


def _epochs(plan: Plan) -> float | int | None:
    return None if plan.scenario.workload is None else whole(plan.scenario.workload.epochs)


def mixed(plan: Plan) -> dict[str, bool]:
    """Autocast in one of the two 16-bit types, or none."""
    precision = plan.resolved.training.precision
    on = bool(precision.autocast)
    allowed = ("bf16", "fp16") if on else (precision.parameters,)
    require("training.precision.compute", precision.compute, *allowed)
    return {"bf16": on and precision.compute == "bf16", "fp16": on and precision.compute == "fp16"}


def checkpointing(plan: Plan) -> dict[str, Any]:
    """All layers or none."""
    training = plan.resolved.training
    require("training.checkpointing", training.checkpointing, "none", "full")
    if training.checkpointing == "none":
        return {"gradient_checkpointing": False}
    options = {"use_reentrant": training.checkpoint_reentrant}
    told = {} if training.checkpoint_reentrant is None else {"gradient_checkpointing_kwargs": options}
    return {"gradient_checkpointing": True, **told}


def liger(plan: Plan) -> bool | None:
    """Liger's kernels, which the trainer puts in all together; None where stock code runs."""
    training = plan.resolved.training
    require("training.loss", training.loss, "standard", "fused_linear")
    if training.loss == "standard":
        require("training.kernels", training.kernels or (), ())
        return None
    wanted = {"rms_norm", "rope", "swiglu"}
    require("training.kernels", frozenset(training.kernels or ()) == wanted, True)
    return True


def sharding(plan: Plan) -> dict[str, Any]:
    """FSDP by the trainer's own arguments, DeepSpeed by its file inside them."""
    kind = plan.resolved.parallel.sharding
    if kind == "none" or cards(plan) == 1:
        return {}
    if kind != "fsdp":
        return {"deepspeed": deepspeed.configuration(plan)}
    again = plan.resolved.parallel.reshard_after_forward is not False
    section: dict[str, Any] = {
        "version": 2,
        "reshard_after_forward": again,
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    }
    return {"fsdp": True, "fsdp_config": section | ({"cpu_offload": True} if offloaded(plan) else {})}
