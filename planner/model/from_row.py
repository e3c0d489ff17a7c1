"""A model description from a catalog row.

A row holds facts under neutral names (`num_experts`, `first_k_dense`, ...). They are turned into the
config keys of the row's class and read by the same builders. Where a row says only how many layers of
each kind there are and the class has no rule for their order, the rarer kinds are spread evenly;
parameter counts do not depend on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from planner.model.errors import UnknownArchitecture
from planner.model.fields import LAYERS, PARAMS, Fields
from planner.model.from_config import model_from_config
from planner.model.row_towers import tower_of_row
from planner.model.spec import Block, Component, ModelSpec

Row = Mapping[str, object]
Config = dict[str, object]

_SAME = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "tie_word_embeddings",
    "max_position_embeddings",
    "sliding_window",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "type_vocab_size",
)
_RENAMED = {"first_k_dense": "first_k_dense_replace", "num_shared_experts": "n_shared_experts"}

_TEXT_TYPES = {
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "llama4": "llama4_text",
    "gemma4": "gemma4_text",
    "glm5_next": "glm5_next_text",
    "deepseek_v41": "deepseek_v41_text",
    "step3p7": "step3p5",
    "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral_large4": "mistral_large4_text",
}
"""Row types whose vision tower the row counts as `vision_params`: the builder of their language model."""

_MTP_KEYS = {"qwen3_5": "mtp_num_hidden_layers", "qwen3_5_moe": "mtp_num_hidden_layers"}
_BIASED = frozenset({"llama", "phimoe", "glm", "glm4", "glm4_moe", "seed_oss"})
"""Types whose class takes `attention_bias` as the row states it."""


def _extra(row: Row, key: str) -> object:
    extra = row.get("extra")
    return extra.get(key) if isinstance(extra, Mapping) else None


def _falcon(row: Row) -> Config:
    several = row.get("num_key_value_heads") != 1
    return {"new_decoder_architecture": several, "multi_query": not several}


def _opt(row: Row) -> Config:
    return {"do_layer_norm_before": _extra(row, "word_embed_proj_dim") == row.get("hidden_size")}


def _chatglm(row: Row) -> Config:
    return {
        "num_layers": row.get("num_hidden_layers"),
        "ffn_hidden_size": row.get("intermediate_size"),
        "kv_channels": row.get("head_dim"),
        "add_qkv_bias": row.get("attention_bias"),
        "multi_query_attention": True,
        "multi_query_group_num": row.get("num_key_value_heads"),
    }


def _t5(row: Row) -> Config:
    return {
        "d_kv": row.get("head_dim"),
        "num_decoder_layers": row.get("decoder_layers"),
        "feed_forward_proj": "gated-gelu" if row.get("mlp_gated") else "relu",
    }


def _whisper(row: Row) -> Config:
    return {
        "max_source_positions": row.get("max_position_embeddings"),
        "decoder_layers": row.get("decoder_layers"),
    }


def _dual(row: Row) -> Config:
    """The row's own facts are the image tower's; the text tower stands in `extra`."""
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    image = ("patch_size", "image_size")
    tower = {key: row.get(key) for key in keys} | {key: _extra(row, key) for key in image}
    return {"vision_config": tower}


def _vit(row: Row) -> Config:
    """A checkpoint not named after its pretraining on ImageNet-21k is a classifier of 1,000 classes."""
    return {} if str(row.get("id")).endswith("in21k") else {"num_labels": 1_000}


def _untied(row: Row) -> Config:
    """The row states the nested config's flag; the class reads the one at the top, which is false."""
    del row
    return {"tie_word_embeddings": False}


def _ernie(row: Row) -> Config:
    return {
        "moe_num_experts": row.get("num_experts"),
        "moe_k": row.get("num_experts_per_tok"),
        "moe_num_shared_experts": row.get("num_shared_experts"),
        "moe_layer_start_index": row.get("first_k_dense"),
    }


def _dbrx(row: Row) -> Config:
    return {
        "d_model": row.get("hidden_size"),
        "n_heads": row.get("num_attention_heads"),
        "n_layers": row.get("num_hidden_layers"),
        "max_seq_len": row.get("max_position_embeddings"),
        "attn_config": {"kv_n_heads": row.get("num_key_value_heads")},
        "ffn_config": {
            "ffn_hidden_size": row.get("moe_intermediate_size"),
            "moe_num_experts": row.get("num_experts"),
            "moe_top_k": row.get("num_experts_per_tok"),
        },
    }


def _llama4(row: Row) -> Config:
    return {
        "intermediate_size": row.get("moe_intermediate_size"),
        "intermediate_size_mlp": row.get("intermediate_size"),
        "num_local_experts": row.get("num_experts"),
    }


def _longcat(row: Row) -> Config:
    return {
        "num_layers": row.get("num_hidden_layers"),
        "ffn_hidden_size": row.get("intermediate_size"),
        "expert_ffn_hidden_size": row.get("moe_intermediate_size"),
        "n_routed_experts": row.get("num_experts"),
        "moe_topk": row.get("num_experts_per_tok"),
    }


def _gemma4(row: Row) -> Config:
    return {
        "attention_k_eq_v": _extra(row, "num_global_key_value_heads") is not None,
        "enable_moe_block": row.get("num_experts") is not None,
        "top_k_experts": row.get("num_experts_per_tok"),
    }


def _nemotron_h(row: Row) -> Config:
    return {
        "layer_types": spread(row),
        "n_routed_experts": row.get("num_experts"),
        "moe_shared_expert_intermediate_size": row.get("shared_expert_intermediate_size"),
    }


def _delta(row: Row) -> Config:
    """Kimi delta attention has as many heads as the other layers and, in every release, heads of 128."""
    return {"linear_num_heads": row.get("num_attention_heads"), "linear_head_dim": 128}


def _minimax_m3(row: Row) -> Config:
    """The class, and so the row's count, has experts in every layer."""
    return {
        "first_k_dense_replace": 0,
        "num_local_experts": row.get("num_experts"),
        "shared_intermediate_size": row.get("shared_expert_intermediate_size"),
    }


_SPECIAL: dict[str, Callable[[Row], Config]] = {
    "falcon": _falcon,
    "opt": _opt,
    "chatglm": _chatglm,
    "t5": _t5,
    "whisper": _whisper,
    "vit": _vit,
    "clip": _dual,
    "siglip": _dual,
    "ernie4_5_moe": _ernie,
    "dbrx": _dbrx,
    "llama4": _llama4,
    "longcat_flash": _longcat,
    "gemma4": _gemma4,
    "nemotron_h": _nemotron_h,
    "kimi_linear": _delta,
    "glm5_next": _delta,
    "minimax_m3_vl": _minimax_m3,
    "qwen3_vl_moe": _untied,
    "phimoe": lambda row: {"lm_head_bias": row.get("attention_bias")},
    "cohere": lambda row: {"use_qk_norm": row.get("qk_norm")},
    "glm4_moe": lambda row: {"use_qk_norm": row.get("qk_norm")},
    "internlm2": lambda row: {"bias": row.get("attention_bias")},
    "lfm2_moe": lambda row: {"num_dense_layers": row.get("first_k_dense"), "layer_types": spread(row)},
    "minimax": lambda row: {"num_local_experts": row.get("num_experts"), "layer_types": spread(row)},
    "step3p7": lambda row: {
        "n_routed_experts": row.get("num_experts"),
        "share_expert_dim": row.get("shared_expert_intermediate_size"),
    },
}


def pattern_counts(row: Row) -> dict[str, int]:
    """Layers of each kind from `layer_pattern`, such as `36xlinear_attention 12xfull_attention`.

    Raises:
        UnknownArchitecture: A part is no number with a kind.
    """
    counts: dict[str, int] = {}
    for part in str(row.get("layer_pattern") or "").split():
        number, _, kind = part.partition("x")
        if not number.isdecimal() or not kind or not LAYERS[0] <= int(number) <= LAYERS[1]:
            raise UnknownArchitecture(
                str(row.get("model_type")), "bad_value", "layer_pattern", value=part, allowed="<count>x<kind>"
            )
        counts[kind] = counts.get(kind, 0) + int(number)
    return counts


def spread(row: Row) -> list[str]:
    """An order for `layer_pattern`: every rarer kind at even distances, its last at the end.

    Raises:
        UnknownArchitecture: There is no pattern, or it cannot be read.
    """
    counts = pattern_counts(row)
    if not counts:
        raise UnknownArchitecture(str(row.get("model_type")), "missing_key", "layer_pattern")
    total = min(sum(counts.values()), LAYERS[1])
    order = [""] * total
    common = max(counts, key=lambda kind: counts[kind])
    for kind, count in counts.items():
        if kind == common:
            continue
        for turn in range(count):
            at = (turn + 1) * total // count - 1
            while at >= 0 and order[at]:
                at -= 1
            if at >= 0:
                order[at] = kind
    return [kind or common for kind in order]


def config_from_row(row: Row) -> Config:
    """The config keys that a row's facts stand for.

    Raises:
        UnknownArchitecture: The row has no `model_type`, or is a diffusion pipeline whose denoiser is not described
            (`diffusion_pipeline`).
    """
    if row.get("kind") == "pipeline":
        described = row.get("denoiser")
        if isinstance(described, Mapping):
            return dict(described)
        raise _undescribed(row)
    model_type = row.get("model_type")
    if not isinstance(model_type, str):
        raise UnknownArchitecture("", "missing_key", "model_type")
    config: Config = {key: row.get(key) for key in _SAME}
    config.update({new: row.get(old) for old, new in _RENAMED.items()})
    extra = row.get("extra")
    if isinstance(extra, Mapping):
        config.update({key: value for key, value in extra.items() if isinstance(key, str)})
    if model_type in _BIASED:
        config["attention_bias"] = row.get("attention_bias")
    config[_MTP_KEYS.get(model_type, "num_nextn_predict_layers")] = row.get("num_mtp_layers")
    config["model_type"] = _TEXT_TYPES.get(model_type, model_type)
    special = _SPECIAL.get(model_type)
    if special is not None:
        config.update(special(row))
    return {key: value for key, value in config.items() if value is not None}


def model_from_row(row: Row) -> ModelSpec:
    """Describe the model of a catalog row.

    Args:
        row: One object of the model table.

    Returns:
        The model; a vision tower is one block of `vision_params`.

    Raises:
        UnknownArchitecture: The row cannot be built; `diffusion_pipeline` for pipelines whose denoiser is not
            described, see `pipeline_from_row`.
    """
    config = config_from_row(row)
    identifier = row.get("id")
    spec = model_from_config(config, model_id=identifier if isinstance(identifier, str) else "")
    if row.get("kind") == "pipeline":
        return _with_components(spec, pipeline_from_row(row))
    model_type = str(row.get("model_type"))
    if model_type not in _TEXT_TYPES:
        return spec
    fields = Fields(row, model_type)
    tower = fields.size("vision_params", span=PARAMS, default=0)
    shape = tower_of_row(model_type, spec.hidden_size, tower)
    block = Block(name="vision_tower", params=tower, tower=shape)
    blocks = (block, *spec.blocks) if tower else spec.blocks
    return replace(spec, model_type=model_type, blocks=blocks)


def _undescribed(row: Row) -> UnknownArchitecture:
    """Refusal of a pipeline, with what its components hold."""
    listed = row.get("components")
    first = listed[0] if isinstance(listed, list) and listed else None
    name = str(first.get("name", "")) if isinstance(first, Mapping) else ""
    total = row.get("params_total")
    bound = total if type(total) is int else None
    return UnknownArchitecture("", "diffusion_pipeline", "components", bound, value=name)


COMPONENT_KINDS: Final = {
    "vae": "vae",
    "text_encoder CLIP": "text_encoder_clip",
    "text_encoder OpenCLIP": "text_encoder_clip",
    "text_encoder T5": "text_encoder_t5",
    "text_encoder UMT5": "text_encoder_t5",
    "text_encoder": "text_encoder_llm",
}
"""Kinds of components by what their names begin with; the first that fits."""


def _with_components(spec: ModelSpec, pipeline: "Pipeline") -> ModelSpec:
    """The denoiser with the frozen models beside it."""
    found = [
        Component(name=kind, params=params)
        for name, params in pipeline.components
        if (kind := next((k for start, k in COMPONENT_KINDS.items() if name.startswith(start)), ""))
    ]
    encoders = any(part.name.startswith("text_encoder") for part in found)
    lacking = () if encoders else ("text_encoders_not_counted",)
    return replace(spec, components=tuple(found), approximate=(*spec.approximate, *lacking))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A diffusion pipeline: components that are loaded together, by parameter count only.

    Attributes:
        id: Catalog id.
        components: Name and parameters of each component, in catalog order.
    """

    id: str
    components: tuple[tuple[str, int], ...]

    @property
    def params_total(self) -> int:
        """Parameters of all components."""
        return sum(params for _, params in self.components)


def pipeline_from_row(row: Row) -> Pipeline:
    """Read a diffusion pipeline's components.

    Raises:
        UnknownArchitecture: The row has no components, or one without a name or a count.
    """
    fields = Fields(row, str(row.get("id")))
    listed = row.get("components")
    if not isinstance(listed, list) or not listed:
        fields.missing("components")
    items = fields.items("components", len(listed)) or []
    components = tuple((item.text("name"), item.size("params", span=PARAMS)) for item in items)
    return Pipeline(id=str(row.get("id")), components=components)
