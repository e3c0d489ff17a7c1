"""axolotl's configuration file.

Source: axolotl 0.19 `utils/schemas/config.py`, `loaders/model.py`: `bf16: true` loads the parameters in bf16 and trains
under autocast, `bfloat16: true` (once `bf16: full`) without it; what is not quantized is brought to that type; 4-bit
bases are NF4 with double quantization.
"""

from typing import Any, Final

from planner.imports import hugging_face as hf
from planner.imports.draft import Draft
from planner.imports.fsdp import read_fsdp_config
from planner.imports.keys import Keys

ATTENTION: Final = {
    "flash_attention": "flash",
    "sdp_attention": "sdpa",
    "flex_attention": "flex",
    "eager_attention": "eager",
    "xformers_attention": "sdpa",
}
KERNELS: Final = {
    "liger_rope": "rope",
    "liger_rms_norm": "rms_norm",
    "liger_layer_norm": "rms_norm",
    "liger_glu_activation": "swiglu",
    "liger_swiglu": "swiglu",
    "lora_qkv_kernel": "lora_attention",
    "lora_o_kernel": "lora_attention",
    "lora_mlp_kernel": "lora_mlp",
}
HARMLESS: Final = (
    *hf.HARMLESS, "datasets", "test_datasets", "pretraining_dataset", "val_set_size", "dataset_*",
    "chat_template*", "type", "wandb_*", "mlflow_*", "comet_*", "hub_model_id", "hf_use_auth_token",
    "special_tokens", "tokens", "added_tokens_*", "model_type", "tokenizer_*", "is_*_derived_model",
    "train_on_inputs", "gradient_clipping", "max_packed_sequence_len", "evals_per_epoch", "saves_per_epoch",
    "early_stopping_patience", "auto_resume_from_checkpoints", "strict", "debug", "loss_watchdog_*",
    "sample_packing_*", "eval_sample_packing", "pad_to_sequence_len", "shuffle_merged_datasets", "plugins",
    "base_model_config", "base_model_ignore_patterns", "revision_of_model", "lora_model_dir",
    "trust_remote_code", "resize_token_embeddings_to_32x", "processor_type", "fsdp_version",
    "lora_on_cpu", "excess_length_strategy", "dp_shard_size", "dp_replicate_size", "group_by_length",
    "torch_compile_backend",
)  # fmt: skip
NOT_MODELLED: Final = (
    *hf.NOT_MODELLED, "relora", "relora_steps", "lora_layers_to_transform", "unfrozen_parameters",
    "cut_cross_entropy", "reward_model", "rl", "quantize_moe_experts", "qat", "activation_offloading",
    "layer_offloading",
)  # fmt: skip


def read(keys: Keys, draft: Draft) -> None:
    """The whole file."""
    draft.train("hf_trainer")
    draft.model(keys.raw("base_model"))
    _adapter(keys, draft)
    _precision(keys, draft)
    keys.whole("training.micro_batch", "micro_batch_size", default=1)
    keys.whole("training.gradient_accumulation", "gradient_accumulation_steps", default=1)
    keys.whole("training.sequence_length", "sequence_len", default=512)
    packed = keys.flag("", "sample_packing", default=False)
    draft.put("training.packing", "packed" if packed else "none")
    hf.read_optimizer(keys, draft, "optimizer", default="adamw_torch_fused")
    _checkpointing(keys, draft)
    _attention(keys, draft)
    _kernels(keys, draft)
    keys.flag("runtime.compile", "torch_compile", default=False)
    keys.real("workload.epochs", "num_epochs")
    keys.real("parallel.bucket_mb", "ddp_bucket_cap_mb")
    keys.whole("parallel.context", "context_parallel_size", "sequence_parallel_degree", default=1)
    keys.whole("parallel.tensor", "tensor_parallel_size", default=1)
    _sharding(keys, draft)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _adapter(keys: Keys, draft: Draft) -> None:
    kind = keys.pick("", {"lora": "lora", "qlora": "qlora"}, "adapter")
    four, eight = keys.flag("", "load_in_4bit", default=False), keys.flag("", "load_in_8bit", default=False)
    options = keys.section("bnb_config_kwargs")
    double: bool | None = True
    if options is not None:
        double = options.flag("", "bnb_4bit_use_double_quant", default=True)
        options.finish(("*",))
    if kind is None:
        return
    dora, rank_stable = keys.flag("", "peft_use_dora"), keys.flag("", "peft_use_rslora")
    draft.adapter("dora" if dora else "rslora" if rank_stable else "lora", quantized=bool(four or eight))
    if four or eight:
        draft.put("adapter.base", ("nf4_dq" if double else "nf4") if four else "int8")
    keys.whole("adapter.rank", "lora_r", default=8)
    keys.real("adapter.alpha", "lora_alpha", default=16)
    keys.real("adapter.dropout", "lora_dropout", default=0.0)
    targets = keys.raw("lora_target_modules")
    everything = keys.flag("", "lora_target_linear")
    if everything:
        draft.put("adapter.targets", "all_linear")
    elif targets is not None:
        draft.put("adapter.targets", hf.read_targets(targets))
    saved = keys.raw("lora_modules_to_save")
    draft.put("adapter.modules_to_save", list(saved) if isinstance(saved, list) else None)


def _precision(keys: Keys, draft: Draft) -> None:
    value: Any = keys.plain("bf16")
    half, single = keys.flag("", "fp16", default=False), keys.flag("", "float32", default=False)
    pure = {"bf16": keys.flag("", "bfloat16", default=False), "fp16": keys.flag("", "float16", default=False)}
    word = "full" if pure["bf16"] else str(value).casefold()
    compute, autocast = "fp16", not pure["fp16"]
    if single or (word in {"none", "false"} and not half and not pure["fp16"]):
        compute, autocast = "fp32", False
    elif word in {"true", "full", "auto", "1"}:
        compute, autocast = "bf16", word != "full"
    draft.put("training.precision.compute", compute)
    draft.put("training.precision.autocast", autocast)
    draft.put("training.precision.parameters", compute)


def _checkpointing(keys: Keys, draft: Draft) -> None:
    value = str(keys.raw("gradient_checkpointing") or False).casefold()
    draft.put("training.checkpointing", "none" if value in {"false", "0", "none"} else "full")
    draft.put("training.activation_offload", True if value in {"offload", "offload_disk"} else None)
    options = keys.section("gradient_checkpointing_kwargs")
    if options is not None:
        options.flag("training.checkpoint_reentrant", "use_reentrant")
        options.finish()


def _attention(keys: Keys, draft: Draft) -> None:
    found = keys.pick("", hf.ATTENTION, "attn_implementation")
    for name, attention in ATTENTION.items():
        if keys.flag("", name) and found is None:
            found = attention
    draft.put("training.attention", found or "sdpa")


def _kernels(keys: Keys, draft: Draft) -> None:
    kernels = [kernel for name, kernel in KERNELS.items() if keys.flag("", name)]
    draft.put("training.kernels", list(dict.fromkeys(kernels)))
    fused = keys.flag("", "liger_fused_linear_cross_entropy", default=False)
    whole = keys.flag("", "liger_cross_entropy", default=False)
    chunked = keys.flag("", "chunked_cross_entropy", default=False)
    loss = "fused_linear" if fused else "fused" if whole else "chunked" if chunked else "standard"
    draft.put("training.loss", loss)


def _sharding(keys: Keys, draft: Draft) -> None:
    options = keys.section("fsdp_config")
    version_two = options is not None and not keys.has("fsdp")
    if version_two and not keys.has("deepspeed"):
        draft.put("parallel.sharding", "fsdp")
        draft.put("parallel.reshard_after_forward", True)
        draft.put("parallel.offload", None)
        read_fsdp_config(options, draft)  # type: ignore[arg-type]
        return
    hf.read_sharding(keys, draft)
