"""LLaMA-Factory's configuration file.

Source: LLaMA-Factory 0.9.5 `hparams/model_args.py`, `finetuning_args.py`, `data_args.py`, `model/adapter.py`:
checkpointing is on unless switched off, and trainable parameters are made fp32 unless `pure_bf16`.
"""

from typing import Final

from planner.imports import hugging_face as hf
from planner.imports.draft import Draft
from planner.imports.keys import Keys

ATTENTION: Final = {"auto": "sdpa", "disabled": "eager", "sdpa": "sdpa", "fa2": "flash", "fa3": "flash"}
STAGES: Final = {"pt": "pretrain", "sft": "full"}
HARMLESS: Final = (
    *hf.HARMLESS, "template", "cutoff_*", "max_samples", "overwrite_cache", "preprocessing_*", "val_size",
    "plot_loss", "dataset_dir", "media_dir", "mask_history", "train_on_prompt", "adapter_name_or_path",
    "use_fast_tokenizer", "export_*", "tool_format", "buffer_size", "mix_strategy", "interleave_probs",
    "split_special_tokens", "new_special_tokens", "resize_vocab", "hf_hub_token", "ms_hub_token", "infer_*",
    "create_new_adapter", "loraplus_*", "image_*", "video_*", "tokenized_path", "ignore_pad_token_for_loss",
    "compute_accuracy", "use_swanlab", "swanlab_*", "additional_config", "print_param_status",
)  # fmt: skip
NOT_MODELLED: Final = (
    *hf.NOT_MODELLED, "use_badam", "use_apollo", "use_galore", "shift_attn", "mixture_of_depths",
    "freeze_trainable_layers", "use_llama_pro", "upcast_lmhead_output", "upcast_layernorm",
    "enable_liger_kernel_loss", "ref_model", "reward_model", "pissa_init",
)  # fmt: skip


def read(keys: Keys, draft: Draft) -> None:
    """The whole file."""
    draft.train("unsloth" if keys.flag("", "use_unsloth", default=False) else "hf_trainer")
    draft.model(keys.raw("model_name_or_path"))
    task = keys.pick("", STAGES, "stage", default="full")
    if keys.pick("", {"full": "full", "lora": "lora"}, "finetuning_type", default="lora") == "lora":
        _adapter(keys, draft)
    elif task is not None:
        draft.put("task", task)
    _precision(keys, draft)
    keys.whole("training.sequence_length", "cutoff_len", default=2048)
    _packing(keys, draft)
    keys.pick("training.attention", ATTENTION, "flash_attn", default="sdpa")
    if keys.flag("", "enable_liger_kernel", default=False):
        hf.liger(draft)
    elif draft.get("runtime.name") == "hf_trainer":
        draft.put("training.loss", "standard")
        draft.put("training.kernels", [])
    _step(keys, draft)
    hf.read_sharding(keys, draft)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)


def _step(keys: Keys, draft: Draft) -> None:
    keys.whole("training.micro_batch", "per_device_train_batch_size", default=hf.BATCH_DEFAULT)
    keys.whole("training.gradient_accumulation", "gradient_accumulation_steps", default=1)
    hf.read_optimizer(keys, draft, default="adamw_torch_fused")
    off = keys.flag("", "disable_gradient_checkpointing", default=False)
    draft.put("training.checkpointing", "none" if off else "full")
    keys.flag("training.checkpoint_reentrant", "use_reentrant_gc")
    keys.raw("gradient_checkpointing", "use_unsloth_gc")
    keys.flag("runtime.compile", "torch_compile", default=False)
    keys.real("parallel.bucket_mb", "ddp_bucket_cap_mb")
    keys.real("workload.epochs", "num_train_epochs")


def _adapter(keys: Keys, draft: Draft) -> None:
    bits = keys.pick("", {"4": 4, "8": 8}, "quantization_bit")
    keys.pick("", {"bnb": "bnb", "bitsandbytes": "bnb"}, "quantization_method")
    keys.pick("", {"nf4": "nf4", "fp4": "nf4"}, "quantization_type")
    double = keys.flag("", "double_quantization", default=True)
    dora, stable = keys.flag("", "use_dora"), keys.flag("", "use_rslora")
    draft.adapter("dora" if dora else "rslora" if stable else "lora", quantized=bits is not None)
    if bits is not None:
        draft.put("adapter.base", ("nf4_dq" if double else "nf4") if bits == 4 else "int8")
    rank = keys.whole("adapter.rank", "lora_rank", default=8)
    keys.real("adapter.alpha", "lora_alpha", default=2.0 * (rank or 8))
    keys.real("adapter.dropout", "lora_dropout", default=0.0)
    draft.put("adapter.targets", hf.read_targets(keys.raw("lora_target") or "all"))
    saved = hf.read_targets(keys.raw("additional_target") or "")
    draft.put("adapter.modules_to_save", saved if isinstance(saved, list) else None)


def _precision(keys: Keys, draft: Draft) -> None:
    """Autocast over fp32 trainable parameters; `pure_bf16` keeps everything in bf16."""
    pure = keys.flag("", "pure_bf16", default=False)
    if pure:
        keys.raw("bf16", "fp16")
        draft.put("training.precision.parameters", "bf16")
        draft.put("training.precision.compute", "bf16")
        draft.put("training.precision.autocast", False)
        return
    hf.read_precision(keys, draft)
    if draft.get("task") in {"full", "pretrain"}:
        draft.put("training.precision.parameters", "fp32")
    else:
        draft.put("training.precision.parameters", draft.get("training.precision.compute"))


def _packing(keys: Keys, draft: Draft) -> None:
    neat = keys.flag("", "neat_packing", default=False)
    packed = keys.flag("", "packing", default=draft.get("task") == "pretrain")
    draft.put("training.packing", "packed" if neat or packed else "none")
