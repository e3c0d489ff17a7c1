"""torchtune's recipe configurations.

Source: torchtune 0.6.1 `recipes/configs`, `recipes/*_finetune_*.py`. Everything is in `dtype`, there is no master copy;
`quantize_base` is NF4 with double quantization.
"""

from collections.abc import Mapping
from typing import Any, Final

from planner.imports.draft import Draft
from planner.imports.keys import Keys

BUILDERS: Final = {
    "meta-llama/Llama-2-7b-hf": "llama2.llama2_7b",
    "meta-llama/Llama-2-13b-hf": "llama2.llama2_13b",
    "meta-llama/Llama-2-70b-hf": "llama2.llama2_70b",
    "meta-llama/Meta-Llama-3-8B": "llama3.llama3_8b",
    "meta-llama/Meta-Llama-3-70B": "llama3.llama3_70b",
    "meta-llama/Llama-3.1-8B": "llama3_1.llama3_1_8b",
    "meta-llama/Llama-3.1-70B": "llama3_1.llama3_1_70b",
    "meta-llama/Llama-3.1-405B": "llama3_1.llama3_1_405b",
    "meta-llama/Llama-3.2-1B": "llama3_2.llama3_2_1b",
    "meta-llama/Llama-3.2-3B": "llama3_2.llama3_2_3b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3_3.llama3_3_70b",
    "mistralai/Mistral-7B-v0.1": "mistral.mistral_7b",
    "google/gemma-2b": "gemma.gemma_2b",
    "google/gemma-7b": "gemma.gemma_7b",
    "google/gemma-2-2b": "gemma2.gemma2_2b",
    "google/gemma-2-9b": "gemma2.gemma2_9b",
    "google/gemma-2-27b": "gemma2.gemma2_27b",
    "microsoft/Phi-3-mini-4k-instruct": "phi3.phi3_mini",
    "microsoft/phi-4": "phi4.phi4_14b",
    "Qwen/Qwen2-0.5B": "qwen2.qwen2_0_5b",
    "Qwen/Qwen2-1.5B": "qwen2.qwen2_1_5b",
    "Qwen/Qwen2-7B": "qwen2.qwen2_7b",
    "Qwen/Qwen2.5-0.5B": "qwen2_5.qwen2_5_0_5b",
    "Qwen/Qwen2.5-3B": "qwen2_5.qwen2_5_3b",
    "Qwen/Qwen2.5-7B": "qwen2_5.qwen2_5_7b_base",
    "Qwen/Qwen2.5-14B": "qwen2_5.qwen2_5_14b_base",
    "Qwen/Qwen2.5-32B": "qwen2_5.qwen2_5_32b_base",
    "Qwen/Qwen2.5-72B": "qwen2_5.qwen2_5_72b_base",
}

"""Catalog id -> module and builder of the full model; LoRA builders have `lora_` before the name, QLoRA's `qlora_`."""
OPTIMIZERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "torch.optim.AdamW": {"name": "adamw"},
    "torch.optim.Adam": {"name": "adam"},
    "torch.optim.SGD": {"name": "sgd"},
    "torchao.optim.AdamW8bit": {"name": "adamw_8bit"},
    "bitsandbytes.optim.AdamW8bit": {"name": "adamw_8bit"},
    "bitsandbytes.optim.PagedAdamW8bit": {"name": "adamw_8bit", "paged": True},
    "bitsandbytes.optim.PagedAdamW": {"name": "adamw", "paged": True},
}

LOSSES: Final = {
    "torchtune.modules.loss.LinearCrossEntropyLoss": "chunked",  # after 0.6
    "torchtune.modules.loss.CEWithChunkedOutputLoss": "chunked",
    "torch.nn.CrossEntropyLoss": "standard",
}

DTYPES: Final = {"bf16": "bf16", "fp32": "fp32", "fp16": "fp16"}
TARGETS: Final = {"output_proj": "o_proj"}
MLP_TARGETS: Final = ("gate_proj", "up_proj", "down_proj")
HARMLESS: Final = (
    "output_dir", "seed", "shuffle", "epochs", "max_steps_per_epoch", "log_*", "metric_logger", "profiler",
    "device", "resume_from_checkpoint", "save_*", "checkpointer", "lr_scheduler", "num_warmup_steps",
    "clip_grad_norm", "safetensors", "optimizer_in_bwd_*", "custom_sharded_layers", "async_checkpointing",
    "enable_async_checkpointing", "dataset_val", "batch_size_val", "run_val_every_n_steps",
    "adapter_checkpoint", "recipe_checkpoint", "keep_last_n_checkpoints", "max_seq_len",
)  # fmt: skip


def read(keys: Keys, draft: Draft) -> None:
    """The whole recipe."""
    draft.train("torchtune")
    _model(keys, draft)
    tokenizer = keys.section("tokenizer")
    if tokenizer is not None:
        tokenizer.whole("training.sequence_length", "max_seq_len")
        tokenizer.finish(("*",))
    data = keys.section("dataset")
    packed = data is not None and data.flag("", "packed", default=False)
    if data is not None:
        data.finish(("*",))
    draft.put("training.packing", "packed" if packed else "none")
    keys.whole("training.micro_batch", "batch_size", default=1)
    keys.whole("training.gradient_accumulation", "gradient_accumulation_steps", default=1)
    dtype = keys.pick("", DTYPES, "dtype", default="bf16")
    draft.put("training.precision.parameters", dtype)
    draft.put("training.precision.compute", dtype)
    _optimizer(keys, draft)
    loss = keys.section("loss")
    if loss is not None:
        loss.pick("training.loss", LOSSES, "_component_")
        loss.finish(("num_output_chunks", "ignore_index"))
    keys.flag("runtime.compile", "compile", default=False)
    on = keys.flag("", "enable_activation_checkpointing", default=False)
    draft.put("training.checkpointing", "full" if on else "none")
    keys.flag("training.activation_offload", "enable_activation_offloading", default=False)
    _parallel(keys, draft)
    keys.not_modelled("quantizer", "fp8_recipe_name", "enable_fp8_training", "ac_mode")
    keys.finish(HARMLESS)


def _model(keys: Keys, draft: Draft) -> None:
    model = keys.section("model")
    if model is None:
        return
    component = str(model.raw("_component_") or "")
    module, _, name = component.removeprefix("torchtune.models.").rpartition(".")
    kind = "qlora" if name.startswith("qlora_") else "lora" if name.startswith("lora_") else ""
    wanted = f"{module}.{name.removeprefix(f'{kind}_') if kind else name}"
    found = next((model_id for model_id, builder in BUILDERS.items() if builder == wanted), None)
    if found is None:
        model.remark("_component_", component, "bad_value", allowed="torchtune.models.<family>.<builder>")
    draft.model(found)
    if kind:
        _adapter(
            model, draft, quantized=kind == "qlora" or bool(model.flag("", "quantize_base", default=False))
        )
    model.finish(("max_seq_len", "attn_dropout"))


def _adapter(model: Keys, draft: Draft, *, quantized: bool) -> None:
    draft.adapter("dora" if model.flag("", "use_dora", default=False) else "lora", quantized=quantized)
    if quantized:
        draft.put("adapter.base", "nf4_dq")
    names = model.raw("lora_attn_modules") or ["q_proj", "v_proj", "output_proj"]
    targets = [TARGETS.get(str(name), str(name)) for name in names] if isinstance(names, list) else []
    if model.flag("", "apply_lora_to_mlp", default=False):
        targets += MLP_TARGETS
    if model.flag("", "apply_lora_to_output", default=False):
        targets.append("lm_head")
    draft.put("adapter.targets", targets)
    model.whole("adapter.rank", "lora_rank", default=8)
    model.real("adapter.alpha", "lora_alpha", default=16)
    model.real("adapter.dropout", "lora_dropout", default=0.0)


def _optimizer(keys: Keys, draft: Draft) -> None:
    section = keys.section("optimizer")
    in_backward = keys.flag("", "optimizer_in_bwd", default=False)
    if section is None:
        return
    name = str(section.raw("_component_") or "")
    found = OPTIMIZERS.get(name)
    fused = section.flag("", "fused", default=False)
    if found is None:
        section.remark("_component_", name, "bad_value", allowed=", ".join(OPTIMIZERS))
    else:
        entry = dict(found)
        if name.startswith("torch.optim"):
            entry["implementation"] = "fused" if fused else "foreach"
        draft.put("training.optimizer", entry | ({"in_backward": True} if in_backward else {}))
    section.finish(("lr", "weight_decay", "betas", "eps", "momentum"))


def _parallel(keys: Keys, draft: Draft) -> None:
    """The distributed recipes shard with FSDP2 wherever there is more than one card."""
    keys.whole("parallel.tensor", "tensor_parallel_dim", default=1)
    keys.whole("parallel.context", "context_parallel_dim", default=1)
    keys.raw("data_parallel_shard_dim", "data_parallel_replicate_dim", "tensor_parallel_plan")
    devices = draft.get("hardware.devices")
    several = isinstance(devices, list) and sum(int(row.get("count", 1)) for row in devices) > 1
    draft.put("parallel.sharding", "fsdp" if several else "none")
    again = keys.flag("", "fsdp_reshard_after_forward", default=True)
    if several:
        draft.put("parallel.reshard_after_forward", again)
    offload = keys.flag("", "fsdp_cpu_offload", default=False)
    every = {"parameters": "cpu", "gradients": "cpu", "optimizer": "cpu"}
    draft.put("parallel.offload", every if offload else None)
