"""What transformers' classes call what a config or a catalogue row says under another name. No PyTorch.

A class takes any key, and goes on with its default where it does not know one: a name that it does not know makes
another model. Classes map some names themselves (`attribute_map`); these are the others.
"""

from collections.abc import Mapping
from typing import Any, Final

_EXPERTS: Final = {"num_experts": ("n_routed_experts",)}
_TWO_SIDES: Final = {
    "intermediate_size": ("encoder_ffn_dim", "decoder_ffn_dim"),
    "num_attention_heads": ("decoder_attention_heads",),
}
_T5: Final = {"intermediate_size": ("d_ff",)}
NAMES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "opt": {"intermediate_size": ("ffn_dim",)},
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "bart": _TWO_SIDES,
    "mbart": _TWO_SIDES,
    "whisper": _TWO_SIDES,
    "distilbert": {"intermediate_size": ("hidden_dim",), "hidden_act": ("activation",)},
    "modernbert": {"hidden_act": ("hidden_activation",)},
    "falcon": {"num_key_value_heads": ("num_kv_heads",)},
    "deepseek_v2": _EXPERTS,
    "deepseek_v3": _EXPERTS,
    "deepseek_v32": _EXPERTS,
    "deepseek_v4": _EXPERTS,
    "dots1": _EXPERTS,
    "glm4_moe": _EXPERTS,
    "glm4_moe_lite": _EXPERTS,
    "glm_moe_dsa": _EXPERTS,
}
"""By model type: the class's names of a key."""

LEFT_OUT: Final[Mapping[str, frozenset[str]]] = {
    "falcon": frozenset({"head_dim"}),
    "glm4_moe_lite": frozenset({"head_dim"}),
    "longcat_flash": frozenset({"num_hidden_layers", "head_dim"}),
}
"""Keys that a class works out itself (`FalconConfig.head_dim`), or means something else by.

`Glm4MoeLiteConfig.head_dim` is that of the rotary part; `LongcatFlashConfig` has two attentions in each of its layers.
"""


def in_class_names(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with the names that its class knows added; what the config says under such a name itself stays.

    A query that is not compressed has to be said (`DeepseekV2Config.q_lora_rank` is 1536 else), and so has the order of
    attentions, as long as the model (`GPTNeoConfig.attention_types`).

    Args:
        config: Keys of config.json, or those that a catalogue row stands for.
    """
    kind = str(config.get("model_type"))
    left_out = LEFT_OUT.get(kind, frozenset())
    found = {key: value for key, value in config.items() if key not in left_out}
    for key, names in NAMES.get(kind, {}).items():
        if key in config:
            found = dict.fromkeys(names, config[key]) | found
    if config.get("kv_lora_rank") and "q_lora_rank" not in config:
        found["q_lora_rank"] = None
    if kind == "gpt_neo" and "attention_types" not in config and "num_hidden_layers" in config:
        found["attention_types"] = [[["global", "local"], int(config["num_hidden_layers"]) // 2]]
    return found
