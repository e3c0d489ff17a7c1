"""PEFT's `LoraConfig` with bitsandbytes' settings: as Python text, or as `adapter_config.json`.

Source: peft 0.21 `LoraConfig`, transformers 5.24 `BitsAndBytesConfig`.
"""

from typing import Final

from planner.imports.draft import Draft
from planner.imports.hugging_face import read_targets
from planner.imports.keys import Keys

METHODS: Final = {"LORA": "lora"}
HARMLESS: Final = (
    "task_type", "bias", "inference_mode", "init_lora_weights", "fan_in_fan_out", "base_model_name_or_path",
    "revision", "auto_mapping", "bnb_4bit_*", "llm_int8_*", "lora_bias", "peft_version", "corda_config",
    "eva_config", "loftq_config",
)  # fmt: skip
NOT_MODELLED: Final = (
    "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern", "megatron_config",
    "layer_replication", "trainable_token_indices", "target_parameters",
)  # fmt: skip


def read(keys: Keys, draft: Draft) -> None:
    """The adapter; the rest of a training question stays."""
    if draft.document.get("task") == "serve":
        draft.train("hf_trainer")
    keys.pick("", METHODS, "peft_type")
    draft.model(keys.raw("base_model_name_or_path") or draft.get("model.id"))
    four, eight = keys.flag("", "load_in_4bit", default=False), keys.flag("", "load_in_8bit", default=False)
    double = keys.flag("", "bnb_4bit_use_double_quant", default=False)
    dora, stable = keys.flag("", "use_dora", default=False), keys.flag("", "use_rslora", default=False)
    now = draft.get("task")
    draft.adapter(
        "dora" if dora else "rslora" if stable else "lora", quantized=bool(four or eight) or now == "qlora"
    )
    if four or eight:
        draft.put("adapter.base", ("nf4_dq" if double else "nf4") if four else "int8")
    keys.whole("adapter.rank", "r", "lora_r", default=8)
    keys.real("adapter.alpha", "lora_alpha", default=8)
    keys.real("adapter.dropout", "lora_dropout", default=0.0)
    chosen = keys.raw("target_modules")
    if chosen is not None:
        draft.put("adapter.targets", read_targets(chosen))
    saved = keys.raw("modules_to_save")
    draft.put("adapter.modules_to_save", [str(name) for name in saved] if isinstance(saved, list) else None)
    keys.not_modelled(*NOT_MODELLED)
    keys.finish(HARMLESS)
