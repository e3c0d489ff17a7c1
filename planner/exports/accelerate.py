"""Accelerate's configuration file. Accepted by accelerate 1.15's `load_config_from_file` (in the tests)."""

from typing import Any

from planner.exports.facts import cards, nodes, offloaded, refuse, require_runtime, tidy
from planner.exports.hugging_face import PRECISION, mixed
from planner.exports.types import Export
from planner.plan_types import Plan
from planner.yaml_text import write_yaml

CARRIES = (
    "runtime.compile",
    "parallel.sharding",
    "parallel.reshard_after_forward",
    "parallel.offload",
    "hardware.devices.0.count",
    *PRECISION,
)


def accelerate(plan: Plan) -> Export:
    """The file for `accelerate launch --config_file`: how processes are started and parameters divided.

    Batch, optimizer and checkpointing belong to the script; under FSDP the file switches checkpointing on itself.

    Raises:
        ExportRefusedError: Another runtime, or a division that the file cannot say.
    """
    require_runtime(plan, "hf_trainer", "generic")
    held = plan.resolved.parallel
    if held.sharding not in {"none", "fsdp"}:
        raise refuse("parallel.sharding", held.sharding, "none, fsdp")
    for name in ("tensor", "pipeline", "context"):
        if getattr(held, name) > 1:
            raise refuse(f"parallel.{name}", getattr(held, name), "1")
    sharded = held.sharding == "fsdp"
    machines, _ = nodes(plan)
    kind = "FSDP" if sharded else "MULTI_GPU" if cards(plan) > 1 else "NO"
    on = mixed(plan)
    values: dict[str, Any] = tidy(
        {
            "compute_environment": "LOCAL_MACHINE",
            "debug": False,
            "distributed_type": kind,
            "fsdp_config": _fsdp(plan) if sharded else None,
            "dynamo_config": {"dynamo_backend": "INDUCTOR"} if plan.resolved.runtime.compile else None,
            "machine_rank": 0,
            "main_training_function": "main",
            "mixed_precision": "bf16" if on["bf16"] else "fp16" if on["fp16"] else "no",
            "num_machines": machines,
            "num_processes": cards(plan),
            "rdzv_backend": "static",
            "same_network": True,
            "use_cpu": False,
        }
    )
    checkpointed = sharded and plan.resolved.training.checkpointing == "full"
    return Export(
        target="accelerate",
        file_name="accelerate.yaml",
        text=write_yaml(values),
        carries=(*CARRIES, *(("training.checkpointing",) if checkpointed else ())),
    )


def _fsdp(plan: Plan) -> dict[str, Any]:
    return {
        "fsdp_version": 2,
        "fsdp_reshard_after_forward": plan.resolved.parallel.reshard_after_forward is not False,
        "fsdp_offload_params": offloaded(plan),
        "fsdp_activation_checkpointing": plan.resolved.training.checkpointing == "full",
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        "fsdp_cpu_ram_efficient_loading": True,
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    }
