"""axolotl's configuration file. Accepted by axolotl 0.19.0's `AxolotlInputConfig`; see docs/exports.md."""

from typing import Any, Final

from planner.exports.facts import (
    ATTENTION,
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
from planner.exports.hugging_face import PRECISION, STEP, checkpointing, sharding
from planner.exports.types import Export
from planner.plan_types import Plan
from planner.scenario import Adapter
from planner.yaml_text import write_yaml

KERNELS: Final = {
    "rms_norm": ("liger_rms_norm",),
    "rope": ("liger_rope",),
    "swiglu": ("liger_glu_activation",),
    "lora_attention": ("lora_qkv_kernel", "lora_o_kernel"),
    "lora_mlp": ("lora_mlp_kernel",),
}

LOSSES: Final = {
    "standard": {},
    "fused_linear": {"liger_fused_linear_cross_entropy": True},
    "fused": {"liger_cross_entropy": True},
    "chunked": {"chunked_cross_entropy": True},
}

LIGER_PLUGIN: Final = "axolotl.integrations.liger.LigerPlugin"
CARRIES: Final = (
    "task",
    "model",
    "adapter",
    "training.sequence_length",
    "training.packing",
    "training.attention",
    "training.kernels",
    "training.loss",
    "training.precision.parameters",
    *PRECISION,
    *STEP,
)


def axolotl(plan: Plan) -> Export:
    """The file for `axolotl train`; the data set in it is an example to replace.

    Raises:
        ExportRefusedError: Another runtime, or a setting that the file cannot say.
    """
    require_runtime(plan, "hf_trainer")
    held, training = plan.resolved, plan.resolved.training
    require("training.attention", training.attention or "sdpa", *ATTENTION)
    name, remarks = model_name(plan.scenario)
    adapter = adapter_of(plan)
    epochs = plan.scenario.workload.epochs if plan.scenario.workload else None
    values = tidy(
        {
            "base_model": name,
            **(_adapter(adapter, held.task == "qlora") if adapter is not None else {}),
            "datasets": [{"path": "tatsu-lab/alpaca", "type": "alpaca"}],
            "sequence_len": training.sequence_length,
            "sample_packing": training.packing not in {None, "none"},
            "micro_batch_size": training.micro_batch,
            "gradient_accumulation_steps": training.gradient_accumulation,
            "num_epochs": whole(epochs),
            "optimizer": hf_optimizer(held),
            "learning_rate": 2e-4 if adapter is not None else 2e-5,
            **_precision(plan),
            **checkpointing(plan),
            "attn_implementation": ATTENTION[training.attention or "sdpa"],
            **_kernels(plan),
            "torch_compile": True if held.runtime.compile else None,
            "ddp_bucket_cap_mb": whole(held.parallel.bucket_mb),
            "context_parallel_size": held.parallel.context if held.parallel.context > 1 else None,
            "tensor_parallel_size": held.parallel.tensor if held.parallel.tensor > 1 else None,
            **_sharding(plan),
            "output_dir": "./outputs",
        }
    )
    return Export(
        target="axolotl",
        file_name="axolotl.yaml",
        text=write_yaml(values),
        carries=CARRIES,
        remarks=(*remarks, ("data_set", "datasets")),
    )


def _adapter(adapter: Adapter, quantized: bool) -> dict[str, Any]:
    if quantized:
        require("adapter.base", adapter.base, "nf4", "nf4_dq", "int8")
    chosen = targets(adapter)
    everything = chosen == "all-linear"
    return tidy(
        {
            "adapter": "qlora" if quantized and adapter.base != "int8" else "lora",
            "load_in_4bit": True if adapter.base in {"nf4", "nf4_dq"} else None,
            "load_in_8bit": True if adapter.base == "int8" else None,
            "bnb_config_kwargs": {"bnb_4bit_use_double_quant": False} if adapter.base == "nf4" else None,
            "lora_r": adapter.rank,
            "lora_alpha": whole(adapter.alpha),
            "lora_dropout": whole(adapter.dropout),
            "lora_target_linear": True if everything else None,
            "lora_target_modules": None if everything else chosen,
            "lora_modules_to_save": list(adapter.modules_to_save) or None,
            "peft_use_dora": True if adapter.method == "dora" else None,
            "peft_use_rslora": True if adapter.method == "rslora" else None,
        }
    )


def _precision(plan: Plan) -> dict[str, Any]:
    """`bf16`: parameters of 16 bit under autocast; `bfloat16`: without; never a mixture."""
    precision = plan.resolved.training.precision
    require("training.precision.parameters", precision.parameters, precision.compute)
    if precision.compute == "fp32":
        return {"bf16": False, "fp16": False, "float32": True}
    if precision.compute == "fp16":
        return {"bf16": False, "fp16" if precision.autocast else "float16": True}
    return {"bf16": True} if precision.autocast else {"bf16": False, "bfloat16": True}


def _kernels(plan: Plan) -> dict[str, Any]:
    training = plan.resolved.training
    loss = LOSSES.get(training.loss or "standard")
    if loss is None:
        raise refuse("training.loss", training.loss, ", ".join(LOSSES))
    names = [name for kernel in training.kernels or () for name in KERNELS.get(kernel, ())]
    unknown = [kernel for kernel in training.kernels or () if kernel not in KERNELS]
    if unknown:
        raise refuse("training.kernels", unknown[0], ", ".join(KERNELS))
    values = dict.fromkeys(names, True) | loss
    liger = any(name.startswith("liger") for name in values)
    return {"plugins": [LIGER_PLUGIN], **values} if liger else values


def _sharding(plan: Plan) -> dict[str, Any]:
    values = sharding(plan)
    if "deepspeed" in values:
        raise refuse("parallel.sharding", plan.resolved.parallel.sharding, "none, fsdp")
    if not values:
        return {}
    section = dict(values["fsdp_config"])
    offload = section.pop("cpu_offload", False)
    section |= {"offload_params": offload, "state_dict_type": "FULL_STATE_DICT"}
    section.pop("version")
    return {"fsdp_version": 2, "fsdp_config": section}
