"""A DeepSpeed configuration.

Source: deepspeed 0.19 `runtime/config.py`, `runtime/zero/config.py`, `runtime/zero/offload_config.py`. "auto" is not
DeepSpeed's own: the Hugging Face trainer puts its arguments there, so the question keeps what it has.
"""

from typing import Final

from planner.imports.draft import Draft
from planner.imports.keys import Keys

OPTIMIZERS: Final = {
    "adam": "adam", "adamw": "adamw", "onebitadam": "adam", "cpuadam": "adam", "sgd": "sgd", "lion": "lion",
    "adafactor": "adafactor", "muon": "muon",
}  # fmt: skip
INERT: Final = {
    "offload_params_path": "zero_optimization.offload_param.nvme_path",
    "offload_buffer_size": "zero_optimization.offload_param.buffer_size",
    "offload_optimizer_threads": "aio.thread_count",
    "load_sharded_model": "from_pretrained(...) under zero_optimization.stage 3",
    "cpu_offload": "zero_optimization.offload_optimizer.device",
    "cpu_offload_params": "zero_optimization.offload_param.device",
    "enable_kv_cache_sharing": "vllm serve --enable-prefix-caching",
    "gradient_checkpointing": "TrainingArguments(gradient_checkpointing=True)",
    "micro_batch_size": "train_micro_batch_size_per_gpu",
}

"""Keys that articles show and DeepSpeed ignores, with the ones that do what these seem to."""
STAGE_3_ONLY: Final = (
    "stage3_max_live_parameters", "stage3_max_reuse_distance", "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold", "stage3_model_persistence_threshold", "sub_group_size",
    "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save",
    "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_gradients",
    "stage3_module_granularity_threshold", "offload_param", "mics_shard_size", "memory_efficient_linear",
    "stage3_use_all_reduce_for_fetch_params",
)  # fmt: skip
NOT_MODELLED: Final = (
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_gradients",
    "mics_shard_size",
    "curriculum*",
)

HARMLESS: Final = (
    "steps_per_print", "wall_clock_breakdown", "gradient_clipping", "prescale_gradients", "scheduler",
    "dump_state", "tensorboard", "wandb", "csv_monitor", "flops_profiler", "comms_logger", "monitor_config",
    "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "gradient_predivide_factor",
    "sparse_gradients", "communication_data_type", "seq_parallel_communication_data_type",
    "disable_allgather", "memory_breakdown", "checkpoint", "aio", "elasticity", "comet", "fp32_allreduce",
    "dataloader_drop_last", "nebula", "data_types", "amp", "autotuning", "use_data_before_expert_parallel_",
    "graph_harvesting", "timers", "hybrid_engine",
)  # fmt: skip
ZERO_HARMLESS: Final = (
    "overlap_comm", "contiguous_gradients", "reduce_scatter", "allgather_partitions",
    "allgather_bucket_size", "reduce_bucket_size", "round_robin_gradients", "load_from_fp32_weights",
    "elastic_checkpoint", "ignore_unused_parameters", "use_multi_rank_bucket_allreduce", "legacy_stage1",
    "zeropp_loco_param", "mics_hierarchical_params_gather", "log_trace_cache_warnings",
)  # fmt: skip
STAGES: Final = {"0": "none", "1": "zero1", "2": "zero2", "3": "zero3"}
OFFLOAD_HARMLESS: Final = (
    "pin_memory", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pipeline*", "fast_init",
    "ratio", "super_offload", "cpuadam_cores_perc",
)  # fmt: skip
DEVICES: Final = {"none": "none", "cpu": "cpu", "nvme": "nvme"}


def read(keys: Keys, draft: Draft) -> None:
    """A DeepSpeed file by itself."""
    draft.train("deepspeed") if draft.get("adapter") is None else _keep_adapter(draft)
    read_mapping(keys, draft)


def _keep_adapter(draft: Draft) -> None:
    """The file has no word about adapters, so the question's stays."""
    task, adapter = draft.get("task"), draft.get("adapter")
    draft.train("deepspeed")
    if task in {"lora", "qlora"}:
        draft.document["task"], draft.document["adapter"] = task, adapter


def read_mapping(keys: Keys, draft: Draft) -> None:
    """The keys of the file, wherever the mapping stood; the runtime becomes DeepSpeed."""
    draft.runs_on("deepspeed")
    keys.inert(INERT)
    keys.whole("training.micro_batch", "train_micro_batch_size_per_gpu")
    keys.whole("training.gradient_accumulation", "gradient_accumulation_steps")
    _precision(keys, draft)
    _zero(keys, draft)
    _optimizer(keys)
    _checkpointing(keys)
    _pipeline(keys)
    tensor = keys.section("tensor_parallel")
    if tensor is not None:
        tensor.whole("parallel.tensor", "autotp_size")
        tensor.finish(("*",))
    _batch(keys, draft)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _precision(keys: Keys, draft: Draft) -> None:
    """One 16-bit type, or fp32 where neither is on."""
    for name in ("bf16", "fp16"):
        section = keys.section(name) or (keys.section("bfloat16") if name == "bf16" else None)
        if section is None:
            continue
        if section.is_auto("enabled"):
            section.raw("enabled")
            section.finish(("*",))
            return
        enabled = section.flag("", "enabled", default=False)
        section.finish(("*",))
        if enabled:
            draft.put("training.precision.parameters", name)
            draft.put("training.precision.compute", name)
            keys.section("fp16")
            return
    draft.put("training.precision.parameters", "fp32")
    draft.put("training.precision.compute", "fp32")
    draft.put("training.precision.master", "none")


def _zero(keys: Keys, draft: Draft) -> None:
    zero = keys.section("zero_optimization")
    draft.put("parallel.offload", None)
    if zero is None:
        draft.put("parallel.sharding", "none")
        return
    zero.inert({name: real for name, real in INERT.items() if name != "gradient_checkpointing"})
    sharding = zero.pick("parallel.sharding", STAGES, "stage", default="none")
    stage = next((number for number, name in STAGES.items() if name == sharding), "0")
    if stage != "3":
        for name in STAGE_3_ONLY:
            value = zero.raw(name) if zero.has(name) and not zero.is_auto(name) else None
            if value is not None:
                zero.remark(name, value, "stage", needs=3, given=int(stage))
    _offload(zero, "offload_optimizer", "optimizer", draft)
    _offload(zero, "offload_param", "parameters", draft)
    zero.not_modelled(*NOT_MODELLED)
    zero.finish((*ZERO_HARMLESS, *STAGE_3_ONLY))


def _offload(zero: Keys, name: str, what: str, draft: Draft) -> None:
    section = zero.section(name)
    if section is None:
        return
    section.inert(INERT)
    device = section.pick(f"parallel.offload.{what}", DEVICES, "device", default="none")
    if what == "optimizer" and device in {"cpu", "nvme"}:
        draft.put("parallel.offload.gradients", "cpu")
    section.finish(OFFLOAD_HARMLESS)


def _optimizer(keys: Keys) -> None:
    section = keys.section("optimizer")
    if section is None:
        return
    section.pick("training.optimizer.name", OPTIMIZERS, "type")
    section.finish(("params", "legacy_fusion"))


def _checkpointing(keys: Keys) -> None:
    """This section only says how saved inputs are kept; checkpointing itself is switched on in the model."""
    section = keys.section("activation_checkpointing")
    if section is None:
        return
    section.flag("training.checkpoint_partitioned", "partition_activations")
    section.flag("training.activation_offload", "cpu_checkpointing")
    section.finish(
        ("contiguous_memory_optimization", "number_checkpoints", "synchronize_checkpoint_boundary", "profile")
    )


def _pipeline(keys: Keys) -> None:
    section = keys.section("pipeline")
    if section is None:
        return
    section.inert(
        {"micro_batch_size": "train_micro_batch_size_per_gpu", "micro_batches": "gradient_accumulation_steps"}
    )
    section.whole("parallel.pipeline", "stages")
    section.finish(("*",))


def _batch(keys: Keys, draft: Draft) -> None:
    """`train_batch_size` has to be micro-batch x accumulation x data-parallel ranks."""
    total = keys.whole("", "train_batch_size")
    ranks = data_ranks(draft)
    micro, steps = draft.get("training.micro_batch"), draft.get("training.gradient_accumulation")
    if total is None or ranks is None:
        return
    if not keys.has("train_micro_batch_size_per_gpu") and keys.has("gradient_accumulation_steps"):
        micro = total // ranks // (steps or 1)
        draft.put("training.micro_batch", max(1, micro))
    elif not keys.has("gradient_accumulation_steps") and isinstance(micro, int):
        steps = total // ranks // micro
        draft.put("training.gradient_accumulation", max(1, steps))
    made = (micro or 1) * (steps or 1) * ranks
    if made != total:
        keys.remark("train_batch_size", total, "differs", found=made)


def data_ranks(draft: Draft) -> int | None:
    """Cards over tensor, pipeline and context degrees, None where the document does not tell."""
    devices = draft.get("hardware.devices")
    if not isinstance(devices, list) or not all(isinstance(row, dict) for row in devices):
        return None
    cards = sum(int(row.get("count", 1)) for row in devices)
    for name in ("tensor", "pipeline", "context"):
        cards //= max(1, int(draft.get(f"parallel.{name}") or 1))
    return max(1, cards)
