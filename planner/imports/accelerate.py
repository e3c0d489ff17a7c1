"""Accelerate's configuration file (`accelerate config`), with its FSDP or DeepSpeed section.

Source: accelerate 1.15 `commands/config/config_args.py`.
"""

from typing import Any, Final

from planner.imports import deepspeed
from planner.imports.draft import Draft
from planner.imports.fsdp import read_fsdp_config
from planner.imports.hugging_face import loaded_type
from planner.imports.keys import Keys

KINDS: Final = {
    "NO": "", "MULTI_GPU": "", "FSDP": "fsdp", "DEEPSPEED": "deepspeed", "MEGATRON_LM": "megatron_lm",
    "MULTI_CPU": "",
}  # fmt: skip
HARMLESS: Final = (
    "compute_environment", "debug", "machine_rank", "main_*", "rdzv_backend", "same_network", "use_cpu",
    "tpu_*", "downcast_bf16", "enable_cpu_affinity", "gpu_ids", "ipex_config", "mpirun_config", "command_*",
    "commands", "fp8_*",
)  # fmt: skip
INERT: Final = {"load_sharded_model": "fsdp_config.fsdp_cpu_ram_efficient_loading"}
STAGES: Final = {"0": "none", "1": "zero1", "2": "zero2", "3": "zero3"}
PLUGIN_HARMLESS: Final = (
    "zero3_init_flag", "zero3_save_16bit_model", "deepspeed_multinode_launcher", "deepspeed_hostfile",
    "gradient_clipping", "deepspeed_exclusion_filter", "deepspeed_inclusion_filter",
    "deepspeed_moe_layer_cls_names", "*nvme_path",
)  # fmt: skip


def read(keys: Keys, draft: Draft) -> None:
    """The file. It says nothing about model, batch or adapter, so the question's own stay."""
    task, adapter = draft.get("task"), draft.get("adapter")
    runtime = draft.get("runtime.name")
    kind = keys.pick("", KINDS, "distributed_type", default="")
    draft.train(_runtime(runtime, kind))
    if task in {"lora", "qlora"}:
        draft.document["task"], draft.document["adapter"] = task, adapter
    keys.inert(INERT)
    draft.put("parallel.sharding", "none")
    draft.put("parallel.offload", None)
    _precision(keys, draft)
    count = keys.whole("", "num_processes")
    keys.whole("", "num_machines")
    if count is not None:
        draft.cards(count, "num_processes")
    _sections(keys, draft, kind)
    dynamo: Any = keys.section("dynamo_config")
    if dynamo is not None:
        backend = str(dynamo.raw("dynamo_backend") or "NO").upper()
        draft.put("runtime.compile", backend != "NO")
        dynamo.finish(("*",))
    else:
        draft.put("runtime.compile", False)
    keys.not_modelled("parallelism_config")
    keys.finish(HARMLESS)


def _runtime(now: object, kind: str | None) -> str:
    """Accelerate runs a plain loop or the trainer; DeepSpeed and Megatron bring their own memory."""
    if kind in {"deepspeed", "megatron_lm"}:
        return kind
    return now if now in {"generic", "hf_trainer"} else "hf_trainer"


def _precision(keys: Keys, draft: Draft) -> None:
    found = keys.pick(
        "",
        {"no": "no", "false": "no", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"},
        "mixed_precision",
        default="no",
    )
    if found in {"bf16", "fp16"}:
        draft.put("training.precision.compute", found)
        draft.put("training.precision.autocast", True)
    elif found == "fp8":
        keys.remark("mixed_precision", "fp8", "not_modelled")
    else:
        draft.put("training.precision.autocast", False)
        draft.put("training.precision.compute", loaded_type(draft))


def _sections(keys: Keys, draft: Draft, kind: str | None) -> None:
    fsdp = keys.section("fsdp_config")
    plugin = keys.section("deepspeed_config")
    megatron = keys.section("megatron_lm_config")
    if fsdp is not None:
        if kind == "fsdp":
            draft.put("parallel.sharding", "fsdp")
            read_fsdp_config(fsdp, draft)
        else:
            fsdp.finish(("*",))
    if plugin is not None:
        _plugin(plugin, draft)
    if megatron is not None:
        for name, field in (("tp_degree", "tensor"), ("pp_degree", "pipeline")):
            megatron.whole(f"parallel.{field}", f"megatron_lm_{name}")
        megatron.flag("parallel.sequence", "megatron_lm_sequence_parallelism")
        megatron.finish()


def _plugin(keys: Keys, draft: Draft) -> None:
    """Accelerate's own short form of a DeepSpeed file."""
    file = keys.raw("deepspeed_config_file")
    if file is not None:
        keys.remark("deepspeed_config_file", file, "elsewhere")
    keys.inert(deepspeed.INERT)
    keys.pick("parallel.sharding", STAGES, "zero_stage")
    keys.whole("training.gradient_accumulation", "gradient_accumulation_steps")
    for name, field in (("offload_optimizer_device", "optimizer"), ("offload_param_device", "parameters")):
        device = keys.pick(f"parallel.offload.{field}", deepspeed.DEVICES, name)
        if field == "optimizer" and device in {"cpu", "nvme"}:
            draft.put("parallel.offload.gradients", "cpu")
    keys.finish(PLUGIN_HARMLESS)
