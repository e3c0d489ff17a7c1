"""Hugging Face `TrainingArguments`: as JSON, as Python text, or as the words of a command line.

TRL's `SFTConfig` and `ModelConfig` share the namespace, so their keys are read too.
"""

from typing import Any

from planner.imports import hugging_face as hf
from planner.imports.draft import Draft
from planner.imports.keys import Keys


def read(keys: Keys, draft: Draft) -> None:
    """The whole namespace."""
    task, adapter = draft.get("task"), draft.get("adapter")
    draft.train("hf_trainer")
    named = keys.raw("model_name_or_path", "model_name", "model_id")
    draft.model(named)
    if keys.flag("", "use_peft", default=False) or keys.has("lora_r", "lora_alpha"):
        _adapter(keys, draft)
    elif named is None and task in {"lora", "qlora"}:
        draft.document["task"], draft.document["adapter"] = task, adapter
    keys.pick("training.precision.parameters", hf.DTYPES, "dtype", "torch_dtype", "model_dtype")
    keys.pick("training.attention", hf.ATTENTION, "attn_implementation")
    hf.read_precision(keys, draft)
    hf.read_step(keys, draft)
    hf.read_sharding(keys, draft)
    keys.whole("training.sequence_length", "max_length", "max_seq_length", "block_size")
    if keys.flag("", "packing"):
        draft.put("training.packing", "packed")
    if keys.flag("", "padding_free"):
        draft.put("training.packing", "padding_free")
    processes = keys.whole("", "num_processes", "nproc_per_node")
    nodes = keys.whole("", "nnodes", "num_machines")
    if processes is not None or nodes is not None:
        draft.cards((processes or 1) * (nodes or 1), "nproc_per_node")
    keys.inert(
        {"load_sharded_model": "device_map", "pipeline_micro_batch_size": "per_device_train_batch_size"}
    )
    keys.not_modelled(*hf.NOT_MODELLED)
    keys.finish(hf.HARMLESS)


def _adapter(keys: Keys, draft: Draft) -> None:
    four = keys.flag("", "load_in_4bit", default=False)
    eight = keys.flag("", "load_in_8bit", default=False)
    double = keys.flag("", "use_bnb_nested_quant", "bnb_4bit_use_double_quant", default=False)
    keys.pick("", {"nf4": "nf4", "fp4": "nf4"}, "bnb_4bit_quant_type")
    keys.raw("bnb_4bit_compute_dtype")
    method = "dora" if keys.flag("", "use_dora") else "rslora" if keys.flag("", "use_rslora") else "lora"
    draft.adapter(method, quantized=bool(four or eight))
    if four or eight:
        draft.put("adapter.base", ("nf4_dq" if double else "nf4") if four else "int8")
    keys.whole("adapter.rank", "lora_r", default=16)
    keys.real("adapter.alpha", "lora_alpha", default=32)
    keys.real("adapter.dropout", "lora_dropout", default=0.05)
    targets: Any = keys.raw("lora_target_modules")
    if targets is not None:
        draft.put("adapter.targets", hf.read_targets(targets))
    saved = keys.raw("lora_modules_to_save")
    if saved is not None:
        names = hf.read_targets(saved)
        draft.put("adapter.modules_to_save", names if isinstance(names, list) else None)
