"""What Hugging Face's trainers have in common: optimizers, precision, checkpointing, adapters.

Sources: transformers 5.24 `TrainingArguments` and `OptimizerNames`, TRL `SFTConfig` and `ModelConfig`, PEFT 0.21
`LoraConfig`.
"""

from collections.abc import Mapping
from typing import Any, Final

from planner.imports import deepspeed
from planner.imports.draft import Draft
from planner.imports.fsdp import read_fsdp_config
from planner.imports.keys import Keys

OPTIMIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "adamw_torch": {"name": "adamw", "implementation": "foreach"},
    "adamw_hf": {"name": "adamw", "implementation": "single"},
    "adamw_torch_fused": {"name": "adamw", "implementation": "fused"},
    "adamw_apex_fused": {"name": "adamw", "implementation": "fused"},
    "adamw_8bit": {"name": "adamw_8bit"},
    "adamw_bnb_8bit": {"name": "adamw_8bit"},
    "paged_adamw_8bit": {"name": "adamw_8bit", "paged": True},
    "paged_adamw_32bit": {"name": "adamw", "paged": True},
    "paged_adamw": {"name": "adamw", "paged": True},
    "adafactor": {"name": "adafactor"},
    "sgd": {"name": "sgd"},
    "lion_32bit": {"name": "lion"},
    "lion": {"name": "lion"},
    "lion_8bit": {"name": "lion_8bit"},
    "paged_lion_8bit": {"name": "lion_8bit", "paged": True},
    "paged_lion_32bit": {"name": "lion", "paged": True},
    "galore_adamw": {"name": "galore"},
    "muon": {"name": "muon"},
}

ATTENTION: Final = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash_attention_2": "flash",
    "flash_attention_3": "flash",
    "kernels-community/flash-attn2": "flash",
    "flex_attention": "flex",
}

DTYPES: Final = {
    "bfloat16": "bf16", "bf16": "bf16", "torch.bfloat16": "bf16",
    "float16": "fp16", "fp16": "fp16", "half": "fp16", "torch.float16": "fp16",
    "float32": "fp32", "fp32": "fp32", "float": "fp32", "torch.float32": "fp32",
}  # fmt: skip
LIGER_KERNELS: Final = ("rms_norm", "rope", "swiglu")
BATCH_DEFAULT: Final = 8
"""`per_device_train_batch_size` where a file leaves it out."""
HARMLESS: Final = (
    "output_dir", "overwrite_output_dir", "do_*", "eval_*", "evaluation_*", "per_device_eval_*",
    "per_gpu_eval_*", "prediction_loss_only", "learning_rate", "weight_decay", "adam_*", "max_grad_norm",
    "max_steps", "lr_*", "warmup_*", "log_*", "logging_*", "save_*", "seed", "data_seed", "run_name",
    "report_to", "push_to_hub*", "hub_*", "dataloader_*", "remove_unused_columns", "label_*",
    "load_best_model_at_end", "metric_for_best_model", "greater_is_better", "ignore_data_skip",
    "disable_tqdm", "tf32", "group_by_length", "train_sampling_strategy", "length_column_name",
    "resume_from_checkpoint", "skip_memory_metrics", "ddp_timeout", "ddp_find_unused_parameters",
    "ddp_broadcast_buffers", "full_determinism", "include_*", "use_cpu", "no_cuda", "local_rank",
    "average_tokens_*", "dataset*", "completion_only_loss", "assistant_only_loss", "eos_token", "pad_token",
    "chat_template*", "tokenizer*", "trust_remote_code", "model_revision", "trackio_*", "project",
    "restore_callback_states_from_checkpoint", "past_index", "jit_mode_eval", "batch_eval_metrics",
    "lora_task_type", "use_ipex", "debug", "enable_jit_checkpoint", "train_file", "validation_file",
    "data_path", "cache_dir", "model_max_length", "config_name", "streaming",
)  # fmt: skip
NOT_MODELLED: Final = (
    "auto_find_batch_size", "torch_empty_cache_steps", "neftune_noise_alpha", "use_mps_device",
    "parallelism_config", "optim_target_modules", "activation_offloading", "fp16_full_eval",
    "bf16_full_eval",
)  # fmt: skip


def read_step(keys: Keys, draft: Draft) -> None:
    """Batch, optimizer, checkpointing, compile and kernels as `TrainingArguments` spells them."""
    keys.whole(
        "training.micro_batch",
        "per_device_train_batch_size",
        "per_gpu_train_batch_size",
        default=BATCH_DEFAULT,
    )
    keys.whole("training.gradient_accumulation", "gradient_accumulation_steps", default=1)
    read_optimizer(keys, draft)
    read_checkpointing(keys, draft)
    keys.flag("runtime.compile", "torch_compile", default=False)
    keys.raw("torch_compile_backend", "torch_compile_mode")
    if keys.flag("", "use_liger_kernel", "use_liger"):
        liger(draft)
    keys.raw("liger_kernel_config")
    keys.real("parallel.bucket_mb", "ddp_bucket_cap_mb")
    keys.real("workload.epochs", "num_train_epochs")


def liger(draft: Draft) -> None:
    """Liger's kernels as its own trainer flag puts them in: the loss never builds all logits."""
    draft.put("training.loss", "fused_linear")
    draft.put("training.kernels", list(LIGER_KERNELS))


def read_optimizer(keys: Keys, draft: Draft, name: str = "optim", *, default: str | None = None) -> None:
    """The optimizer by the trainer's name for it."""
    value = keys.raw(name) or default
    if value is None:
        return
    found = OPTIMIZERS.get(str(value))
    if found is None:
        keys.remark(name, value, "bad_value", allowed=", ".join(OPTIMIZERS))
        return
    draft.put("training.optimizer", dict(found))


def read_checkpointing(keys: Keys, draft: Draft) -> None:
    """Off unless asked for, as the trainer has it."""
    asked = keys.flag("", "gradient_checkpointing", "activation_checkpointing", default=False)
    if asked is not None:
        draft.put("training.checkpointing", "full" if asked else "none")
    options = keys.section("gradient_checkpointing_kwargs") or keys.section("activation_checkpointing_kwargs")
    if options is not None:
        options.flag("training.checkpoint_reentrant", "use_reentrant")
        options.finish()


def read_precision(keys: Keys, draft: Draft) -> None:
    """`bf16` and `fp16` are autocast over parameters as they were loaded; neither computes in their own type."""
    for name in ("bf16", "fp16"):
        asked = keys.flag("", name, default=False)
        if asked is None:
            return
        if asked:
            draft.put("training.precision.compute", name)
            draft.put("training.precision.autocast", True)
            keys.raw("bf16", "fp16")
            return
    draft.put("training.precision.autocast", False)
    draft.put("training.precision.compute", loaded_type(draft))


def loaded_type(draft: Draft) -> str:
    """The type of the parameters where the question says none: the trainer loads fp32 for full training."""
    given = draft.get("training.precision.parameters")
    if isinstance(given, str):
        return given
    return "fp32" if draft.get("runtime.name") == "hf_trainer" and draft.get("adapter") is None else "bf16"


def read_sharding(keys: Keys, draft: Draft) -> None:
    """FSDP, or a DeepSpeed file inside the arguments, or neither."""
    config = keys.raw("deepspeed")
    fsdp = keys.raw("fsdp")
    options = keys.section("fsdp_config")
    draft.put("parallel.sharding", "none")
    draft.put("parallel.offload", None)
    if isinstance(config, Mapping):
        deepspeed.read_mapping(Keys(config, draft, "deepspeed."), draft)
    elif config is not None:
        keys.remark("deepspeed", config, "elsewhere")
    words = " ".join(fsdp) if isinstance(fsdp, list) else "full_shard" if fsdp is True else str(fsdp or "")
    if words:
        _fsdp_words(words.replace(",", " ").split(), keys, draft)
    if options is not None:
        if words:
            read_fsdp_config(options, draft)
        else:
            options.finish(("*",))


def _fsdp_words(words: list[str], keys: Keys, draft: Draft) -> None:
    meaning = {"full_shard": True, "shard_grad_op": False, "hybrid_shard": True, "hybrid_shard_zero2": False}
    for word in words:
        if word in meaning:
            draft.put("parallel.sharding", "fsdp")
            draft.put("parallel.reshard_after_forward", meaning[word])
        elif word == "offload":
            draft.put("parallel.offload", {"parameters": "cpu", "gradients": "cpu", "optimizer": "cpu"})
        elif word not in {"auto_wrap", "no_shard"}:
            keys.remark("fsdp", word, "bad_value", allowed=", ".join((*meaning, "offload", "auto_wrap")))


def read_targets(value: Any) -> list[str] | str | None:
    """Names of targeted matrices from a list or comma-separated text; `all-linear` in PEFT's spelling."""
    names = value if isinstance(value, list) else str(value).split(",")
    words = [str(name).strip() for name in names if str(name).strip()]
    if words in (["all-linear"], ["all"], ["all_linear"]):
        return "all_linear"
    return words or None
