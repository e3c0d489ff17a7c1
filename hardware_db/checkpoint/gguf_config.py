"""What a GGUF header says of the model, under the keys of a Hugging Face config.

The names of the metadata are llama.cpp's (`gguf-py/gguf/constants.py`, `Keys`), `<architecture>.` before each.
An architecture that is not in the table gives no config; its sizes are still true.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hardware_db.checkpoint.gguf import Header, Value

COMMON: Final = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "context_length": "max_position_embeddings",
    "vocab_size": "vocab_size",
    "rope.freq_base": "rope_theta",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
EXPERTS: Final = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
LOCAL: Final = {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
ROUTED: Final = {
    "expert_count": "n_routed_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "nextn_predict_layers": "num_nextn_predict_layers",
}
LATENT: Final = {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "rope.dimension_count": "qk_rope_head_dim",
}
WINDOW: Final = {"attention.sliding_window": "sliding_window"}
HEAD: Final = {"attention.key_length": "head_dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How one of llama.cpp's architectures is called here.

    Attributes:
        model_type: As in a Hugging Face config.
        keys: Metadata beyond `COMMON` and the head width, with the config's keys.
        fixed: What the architecture always has.
        head_width: Whether the width of a head stands in the metadata.
    """

    model_type: str
    keys: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    head_width: bool = True


ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "llama": Architecture(model_type="llama"),
    "qwen2": Architecture(model_type="qwen2"),
    "qwen3": Architecture(model_type="qwen3"),
    "qwen2moe": Architecture(model_type="qwen2_moe", keys=EXPERTS),
    "qwen3moe": Architecture(model_type="qwen3_moe", keys=EXPERTS),
    "gemma": Architecture(model_type="gemma"),
    "gemma2": Architecture(model_type="gemma2", keys=WINDOW),
    "gemma3": Architecture(model_type="gemma3_text", keys=WINDOW),
    "phi3": Architecture(model_type="phi3", keys=WINDOW, head_width=False),
    "glm4": Architecture(model_type="glm4"),
    "glm4moe": Architecture(model_type="glm4_moe", keys=ROUTED),
    "olmo2": Architecture(model_type="olmo2", head_width=False),
    "granite": Architecture(model_type="granite", head_width=False),
    "command-r": Architecture(model_type="cohere", head_width=False),
    "starcoder2": Architecture(model_type="starcoder2", head_width=False),
    "gpt-oss": Architecture(
        model_type="gpt_oss", keys={**LOCAL, **WINDOW, "expert_feed_forward_length": "intermediate_size"}
    ),
    "deepseek2": Architecture(model_type="deepseek_v3", keys={**ROUTED, **LATENT}, head_width=False),
}


def config_of(header: Header) -> tuple[str, dict[str, object] | None]:
    """Name of the architecture, and its config where it is one of the table.

    A value that the table's keys would need as one number, and that differs from layer to layer, gives no config.
    """
    name = str(header.values.get("general.architecture", ""))
    known = ARCHITECTURES.get(name)
    if known is None:
        return name, None
    found = _Reading(header, name)
    config = found.keys({**COMMON, **known.keys, **(HEAD if known.head_width else {})})
    config |= {"model_type": known.model_type, "tie_word_embeddings": "output.weight" not in header.shapes}
    config |= known.fixed
    found.vocabulary(config)
    found.details(config)
    return name, None if found.by_layer else config


class _Reading:
    """Metadata of one file under an architecture's prefix."""

    def __init__(self, header: Header, prefix: str) -> None:
        self.header, self.prefix = header, prefix
        self.by_layer = False

    def get(self, key: str) -> Value:
        """One value; a list whose elements are equal counts as one of them."""
        value = self.header.values.get(f"{self.prefix}.{key}")
        if not isinstance(value, list):
            return value
        if len(set(value)) != 1:
            self.by_layer = True
            return None
        return value[0]

    def keys(self, table: Mapping[str, str]) -> dict[str, object]:
        """Every key that is there, under the config's name."""
        found = {target: self.get(key) for key, target in table.items()}
        return {key: value for key, value in found.items() if value is not None}

    def vocabulary(self, config: dict[str, object]) -> None:
        """Rows of the embedding, from its own shape."""
        shape = self.header.shapes.get("token_embd.weight", ())
        if len(shape) == 2:
            config["vocab_size"] = shape[1]

    def details(self, config: dict[str, object]) -> None:
        """What tensors show better than metadata, and what two kinds of model share one name for."""
        draft = self.get("nextn_predict_layers")
        layers = config.get("num_hidden_layers")
        if isinstance(draft, int) and isinstance(layers, int):
            config["num_hidden_layers"] = layers - draft
        if self.prefix == "llama" and isinstance(self.get("expert_count"), int):
            config |= {"model_type": "mixtral"} | self.keys(LOCAL)
        if self.prefix == "deepseek2":
            self._latent(config)
        if self.prefix in {"llama", "granite", "glm4moe"}:
            config["attention_bias"] = "blk.0.attn_q.bias" in self.header.shapes
        if self.prefix == "glm4moe":
            config["use_qk_norm"] = "blk.0.attn_q_norm.weight" in self.header.shapes

    def _latent(self, config: dict[str, object]) -> None:
        """Head widths of latent attention: files of 2025 and later name them for the decompressed heads apart."""
        key = self.get("attention.key_length_mla") or self.get("attention.key_length")
        value = self.get("attention.value_length_mla") or self.get("attention.value_length")
        rope = config.get("qk_rope_head_dim")
        if isinstance(key, int) and isinstance(rope, int):
            config["qk_nope_head_dim"] = key - rope
        if isinstance(value, int):
            config["v_head_dim"] = value
        config["num_key_value_heads"] = config.get("num_attention_heads")
        if "blk.0.attn_q.weight" in self.header.shapes:
            config["model_type"] = "deepseek_v2"
