"""A DeepSpeed configuration. Accepted by deepspeed 0.19.8's `DeepSpeedConfig`; see docs/exports.md."""

import json
from typing import Any, Final

from planner.exports.facts import data_ranks, refuse, require, require_runtime, tidy
from planner.exports.types import Export, Remark
from planner.plan_types import Plan
from planner.scenario import Parallel

STAGES: Final = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3}
OPTIMIZERS: Final = {"adamw": "AdamW", "adam": "Adam", "lion": "Lion", "sgd": "SGD", "muon": "Muon"}
NVME_FOLDER: Final = "/local_nvme"
CARRIES: Final = (
    "runtime.name",
    "training.micro_batch",
    "training.gradient_accumulation",
    "training.precision.parameters",
    "training.precision.compute",
    "training.checkpoint_partitioned",
    "training.activation_offload",
    "training.optimizer.name",
    "parallel.sharding",
    "parallel.offload",
)


def deepspeed(plan: Plan) -> Export:
    """The file for `deepspeed --deepspeed_config`; checkpointing itself is switched on in the model.

    Raises:
        ExportRefusedError: Another runtime, or a setting that the file cannot say.
    """
    require_runtime(plan, "deepspeed")
    values = configuration(plan)
    remarks: tuple[Remark, ...] = ()
    if plan.resolved.training.checkpointing != "none":
        remarks += (("checkpointing_in_the_model", plan.resolved.training.checkpointing or ""),)
    if "nvme" in {plan.resolved.parallel.offload.parameters, plan.resolved.parallel.offload.optimizer}:
        remarks += (("nvme_folder", NVME_FOLDER),)
    return Export(
        target="deepspeed",
        file_name="ds_config.json",
        text=json.dumps(values, indent=2) + "\n",
        carries=CARRIES,
        remarks=remarks,
    )


def configuration(plan: Plan) -> dict[str, Any]:
    """The mapping itself."""
    held = plan.resolved
    training, precision = held.training, held.training.precision
    require("training.precision.parameters", precision.parameters, "bf16", "fp16", "fp32")
    require("training.precision.compute", precision.compute, precision.parameters)
    batch = training.micro_batch * training.gradient_accumulation * data_ranks(plan)
    kind = precision.parameters
    return tidy(
        {
            "train_batch_size": batch,
            "train_micro_batch_size_per_gpu": training.micro_batch,
            "gradient_accumulation_steps": training.gradient_accumulation,
            "bf16": {"enabled": True} if kind == "bf16" else None,
            "fp16": {"enabled": True, "loss_scale": 0} if kind == "fp16" else None,
            "optimizer": {"type": _optimizer(plan), "params": {"lr": 1e-5}},
            "zero_optimization": _zero(held.parallel),
            "activation_checkpointing": _saved(plan),
            "aio": {"thread_count": 1, "queue_depth": 8} if "nvme" in _places(held.parallel) else None,
        }
    )


def _optimizer(plan: Plan) -> str:
    name = plan.resolved.training.optimizer.name
    if name not in OPTIMIZERS or plan.resolved.training.optimizer.paged:
        raise refuse("training.optimizer.name", name, ", ".join(OPTIMIZERS))
    return OPTIMIZERS[name]


def _places(parallel: Parallel) -> set[str]:
    return {parallel.offload.parameters, parallel.offload.optimizer}


def _zero(parallel: Parallel) -> dict[str, Any]:
    if parallel.sharding not in STAGES:
        raise refuse("parallel.sharding", parallel.sharding, ", ".join(STAGES))
    values: dict[str, Any] = {"stage": STAGES[parallel.sharding]}
    for name, where in (
        ("offload_optimizer", parallel.offload.optimizer),
        ("offload_param", parallel.offload.parameters),
    ):
        if where != "none":
            place = {"nvme_path": NVME_FOLDER} if where == "nvme" else {}
            values[name] = {"device": where, "pin_memory": True, **place}
    return values


def _saved(plan: Plan) -> dict[str, bool] | None:
    training = plan.resolved.training
    found = {
        "partition_activations": training.checkpoint_partitioned,
        "cpu_checkpointing": training.activation_offload,
    }
    return {name: True for name, on in found.items() if on} or None
