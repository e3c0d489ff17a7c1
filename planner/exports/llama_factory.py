"""LLaMA-Factory's configuration file. Accepted by llamafactory 0.9.5's argument parser; see docs/exports.md."""

from typing import Any, Final

from planner.exports.axolotl import CARRIES
from planner.exports.facts import (
    ADAPTER_TASKS,
    adapter_of,
    hf_optimizer,
    model_name,
    refuse,
    require,
    require_runtime,
    targets,
    tidy,
    whole,
)
from planner.exports.hugging_face import STEP, checkpointing, liger, mixed, sharding
from planner.exports.types import Export
from planner.plan_types import Plan
from planner.scenario import Adapter
from planner.training.pictures import learns
from planner.yaml_text import write_yaml

ATTENTION: Final = {"sdpa": "sdpa", "flash": "fa2", "eager": "disabled"}


PICTURES: Final = ("training.image_pixels", "training.tower")


def _pictures(plan: Plan) -> dict[str, Any]:
    """Size of pictures, and whether tower and projector stay as they are: it freezes both unless told."""
    training = plan.resolved.training
    if not training.images or plan.model.tower is None:
        return {}
    frozen = not learns(training, plan.resolved.adapter)
    return {
        "image_max_pixels": training.image_pixels,
        "freeze_vision_tower": frozen,
        "freeze_multi_modal_projector": frozen,
    }


def llama_factory(plan: Plan) -> Export:
    """The file for `llamafactory-cli train`; the data set in it is an example to replace.

    Raises:
        ExportRefusedError: Another runtime, or a setting that the file cannot say.
    """
    require_runtime(plan, "hf_trainer")
    held, training = plan.resolved, plan.resolved.training
    name, remarks = model_name(plan.scenario)
    adapter = adapter_of(plan)
    attention = training.attention or "sdpa"
    require("training.attention", attention, *ATTENTION)
    shard = sharding(plan)
    if "deepspeed" in shard:
        raise refuse("parallel.sharding", held.parallel.sharding, "none, fsdp")
    saved = checkpointing(plan)
    epochs = plan.scenario.workload.epochs if plan.scenario.workload else None
    values = tidy(
        {
            "model_name_or_path": name,
            "trust_remote_code": True,
            "stage": "pt" if held.task == "pretrain" else "sft",
            "do_train": True,
            **(
                _adapter(adapter, held.task == "qlora")
                if adapter is not None
                else {"finetuning_type": "full"}
            ),
            "dataset": "alpaca_en_demo",
            "template": "default",
            "cutoff_len": training.sequence_length,
            "packing": training.packing not in {None, "none"},
            "output_dir": "outputs",
            "per_device_train_batch_size": training.micro_batch,
            "gradient_accumulation_steps": training.gradient_accumulation,
            "learning_rate": 1e-4 if adapter is not None else 1e-5,
            "num_train_epochs": whole(epochs),
            "optim": hf_optimizer(held),
            **_precision(plan),
            "disable_gradient_checkpointing": not saved["gradient_checkpointing"],
            "use_reentrant_gc": training.checkpoint_reentrant,
            "flash_attn": ATTENTION[attention],
            "enable_liger_kernel": liger(plan),
            "torch_compile": True if held.runtime.compile else None,
            "ddp_bucket_cap_mb": whole(held.parallel.bucket_mb),
            **_pictures(plan),
            **shard,
        }
    )
    return Export(
        target="llama_factory",
        file_name="llama_factory.yaml",
        text=write_yaml(values),
        carries=tuple(dict.fromkeys((*CARRIES, *STEP, *(PICTURES if _pictures(plan) else ())))),
        remarks=(*remarks, ("data_set", "dataset"), ("template", "template")),
    )


def _adapter(adapter: Adapter, quantized: bool) -> dict[str, Any]:
    if quantized:
        require("adapter.base", adapter.base, "nf4", "nf4_dq", "int8")
    chosen = targets(adapter)
    return tidy(
        {
            "finetuning_type": "lora",
            "quantization_bit": (8 if adapter.base == "int8" else 4) if quantized else None,
            "double_quantization": False if adapter.base == "nf4" else None,
            "lora_rank": adapter.rank,
            "lora_alpha": whole(adapter.alpha),
            "lora_dropout": whole(adapter.dropout),
            "lora_target": "all" if chosen == "all-linear" else ",".join(chosen),
            "additional_target": ",".join(adapter.modules_to_save) or None,
            "use_dora": True if adapter.method == "dora" else None,
            "use_rslora": True if adapter.method == "rslora" else None,
        }
    )


def _precision(plan: Plan) -> dict[str, Any]:
    """Trainable parameters are made fp32 unless everything is bf16."""
    precision = plan.resolved.training.precision
    if not precision.autocast and precision.parameters == "bf16":
        return {"pure_bf16": True}
    full = plan.resolved.task not in ADAPTER_TASKS
    if not full or precision.compute != "fp32":
        require("training.precision.autocast", bool(precision.autocast), True)
    require("training.precision.parameters", precision.parameters, "fp32" if full else precision.compute)
    return dict(mixed(plan))
