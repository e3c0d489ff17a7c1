"""Which ggml type each matrix of a GGUF file gets: the mixtures behind names such as Q4_K_M.

A file type names a base type; llama.cpp's quantizer raises some matrices above it by layer and role. The
rules here are those of `llama_tensor_get_type`, without an importance matrix. Published "dynamic" mixtures
differ per file: give `weights_file_bytes` for those.
"""

from dataclasses import dataclass, replace
from typing import Final

from planner.memory.weight_formats import FORMATS, WeightFormat, base_type
from planner.model.spec import AttentionKind, Layer, Linear, ModelSpec, Part

VALUE_NAMES: Final = frozenset({"v_proj", "value", "wv", "v"})
KEY_NAMES: Final = frozenset({"k_proj", "key", "wk", "k"})
QUERY_NAMES: Final = frozenset({"q_proj", "query", "wq", "q"})
EIGHT: Final = 8
"""Experts of Mixtral, for which the quantizer has rules of its own."""
GROUPED_70B: Final = frozenset({"llama", "qwen2"})
LAYERS_70B: Final = 80
"""Models of 80 layers with grouped heads, whose value matrices are never below Q5_K."""
DOWN_SUFFIXES: Final = ("down_proj", "fc2", "c_proj", "w2", "dense_4h_to_h", "fc_out", "wo", "output_linear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """What a file type does to each role; empty = the base type.

    Attributes:
        base: Type of everything that has no rule.
        output: Output matrix, and the token embedding where it is tied to it.
        embedding: Token embedding where it is not tied.
        value: Attention value matrix; `value_wide` where at least four query heads share one.
        value_more, value_first: Value matrix in the layers of `more_bits`, and in the first
            `value_first_layers`.
        down: Down projections; `down_more` in the layers of `more_bits`, `down_first` in the first
            1/`down_first_share` of the layers.
        attention_output: Attention output matrix.
        fused: Fused query-key-value matrix.
        query_key: Query and key matrices.
        up_between: Gate and up projections, but in the first and last eighth of the layers.
        eight_keys: Key and value matrices where a model has eight experts; `eight_output` the attention output.
        wide_experts: A mixture of experts takes `value_wide` however many heads share a value.
    """

    base: str
    output: str = "q6_k"
    embedding: str = ""
    value: str = ""
    value_wide: str = ""
    value_more: str = ""
    value_first: str = ""
    value_first_layers: int = 0
    down: str = ""
    down_more: str = ""
    down_first: str = ""
    down_first_share: int = 8
    attention_output: str = ""
    fused: str = ""
    query_key: str = ""
    up_between: str = ""
    eight_keys: str = ""
    eight_output: str = ""
    wide_experts: bool = False


def by_place(mix: Mixture) -> bool:
    """Whether a mixture treats some layers differently from others."""
    return bool(mix.value_more or mix.value_first or mix.down_more or mix.down_first or mix.up_between)


def _small(base: str, *, better: str, attention_output: str = "") -> Mixture:
    """The 1- and 2-bit family."""
    return Mixture(
        base=base, output="q5_k", embedding=better, value=better, value_wide="q4_k", down_first=better,
        attention_output=attention_output, eight_keys="q4_k", eight_output="q5_k", wide_experts=True,
    )  # fmt: skip


_FILE_TYPES: Final[dict[str, Mixture]] = {
    "q2_k": Mixture(base="q2_k", value="q3_k", value_wide="q4_k", down="q3_k", attention_output="q3_k"),
    "q2_k_s": Mixture(base="q2_k", value_wide="q4_k", down_first="q4_k"),
    "q3_k_s": Mixture(base="q3_k"),
    "q3_k_m": Mixture(
        base="q3_k", value="q4_k", value_first="q5_k", value_first_layers=2, down="q4_k", down_first="q5_k",
        down_first_share=16, attention_output="q4_k", fused="q4_k",
    ),
    "q3_k_l": Mixture(base="q3_k", value="q5_k", down="q5_k", attention_output="q5_k", fused="q4_k"),
    "q4_k_s": Mixture(base="q4_k", value_first="q5_k", value_first_layers=4, down_first="q5_k"),
    "q4_k_m": Mixture(base="q4_k", value_more="q6_k", down_more="q6_k", fused="q5_k"),
    "q5_k_s": Mixture(base="q5_k"),
    "q5_k_m": Mixture(base="q5_k", value_more="q6_k", down_more="q6_k", fused="q6_k"),
    "q4_0": Mixture(base="q4_0"),
    "q4_1": Mixture(base="q4_1"),
    "q5_0": Mixture(base="q5_0"),
    "q5_1": Mixture(base="q5_1"),
    "q6_k": Mixture(base="q6_k"),
    "q8_0": Mixture(base="q8_0", output="q8_0"),
    "iq1_s": _small("iq1_s", better="q2_k", attention_output="iq2_xxs"),
    "iq1_m": _small("iq1_m", better="q2_k", attention_output="iq2_xxs"),
    "iq2_xxs": _small("iq2_xxs", better="q2_k"),
    "iq2_xs": _small("iq2_xs", better="q2_k"),
    "iq2_s": _small("iq2_xs", better="iq3_s", attention_output="iq3_s"),
    "iq2_m": _small("iq2_s", better="iq3_s", attention_output="iq3_s"),
    "iq3_xxs": Mixture(
        base="iq3_xxs", embedding="iq3_s", value="iq3_s", value_wide="q4_k", down="q3_k", down_first="q4_k",
        attention_output="iq3_s", query_key="iq2_s",
    ),
    "iq3_xs": Mixture(base="iq3_s", value_wide="q4_k", query_key="iq3_xxs", up_between="iq3_xxs"),
    "iq3_s": Mixture(base="iq3_s", value_wide="q4_k"),
    "iq3_m": Mixture(base="iq3_s", value="q4_k", down_first="q4_k", attention_output="q4_k", fused="q4_k"),
    "iq4_nl": Mixture(base="iq4_nl", value_wide="q5_k", down_first="q5_k"),
    "iq4_xs": Mixture(base="iq4_xs", value_wide="q5_k", down_first="q5_k"),
    "mxfp4": Mixture(base="mxfp4_gguf", output="q8_0"),
}  # fmt: skip

_EIGHT_OUTPUT: Final = frozenset({
    "q2_k", "iq3_xs", "iq3_xxs", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq3_s", "iq3_m", "iq4_xs",
})  # fmt: skip
"""File types that raise the attention output of a model with eight experts."""


def _with_eight(name: str, mix: Mixture) -> Mixture:
    """What every file type does to attention beside eight experts, unless it has said so."""
    if mix.eight_keys or name == "mxfp4":
        return mix
    output = "q5_k" if name in _EIGHT_OUTPUT else mix.attention_output
    return replace(mix, eight_keys="q8_0", eight_output=output)


MIXTURES: Final[dict[str, Mixture]] = {name: _with_eight(name, mix) for name, mix in _FILE_TYPES.items()}

OLLAMA_DELTA: Final = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})
OLLAMA_DELTA_TYPES: Final = frozenset({"q4_k_m", "q4_k_s"})
OLLAMA_DELTA_MIXTURE: Final = Mixture(base="q4_k", value="q6_k", down="q6_k")
"""Ollama's own quantizer raises every value and down projection of models with delta nets
(`qwen3LinearAttnQuantType`)."""

PLAIN_GGUF: Final[dict[str, str]] = {"fp32": "f32", "fp16": "f16", "bf16": "f16"}
WIDE_GROUP: Final = 4

_ROWS_NOT_OF_256: Final[dict[str, str]] = {
    "q2_k": "q4_0", "q3_k": "q4_0", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
    "iq2_xxs": "iq4_nl", "iq2_xs": "iq4_nl", "iq2_s": "iq4_nl", "iq3_xxs": "iq4_nl", "iq3_s": "iq4_nl",
    "iq1_s": "iq4_nl", "iq1_m": "iq4_nl", "iq4_xs": "iq4_nl",
    "iq2_ks": "iq4_nl", "iq2_k": "iq4_nl", "iq2_kl": "iq4_nl", "iq3_ks": "iq4_nl", "iq3_k": "iq4_nl",
    "iq4_kss": "iq4_nl", "iq4_ks": "iq4_nl", "iq4_k": "q5_0", "iq5_ks": "q5_0", "iq5_k": "q6_0", "iq6_k": "q8_0",
}  # fmt: skip
"""What llama.cpp's and ik_llama.cpp's quantizers take where a row is no multiple of 256."""


def file_type(model: ModelSpec) -> str:
    """The file type that most take: Q4_K_M, for gpt-oss the one that it was published in."""
    return "mxfp4" if model.model_type == "gpt_oss" else "q4_k_m"


def mixture(name: str) -> Mixture | None:
    """The mixture of a file type; a single type is a mixture of itself. None where no size is documented."""
    plain = PLAIN_GGUF.get(name)
    if plain:
        return Mixture(base=plain, output=plain)
    stem = base_type(name)
    if stem in MIXTURES:
        return MIXTURES[stem]
    if stem in FORMATS:
        return Mixture(base=stem, output="" if stem.startswith("iq6") else "q6_k")
    return None


def more_bits(layer: int, num_layers: int) -> bool:
    """The layers that the `_M` mixtures raise: the first and last eighth, and every third between."""
    eighth = num_layers // 8
    return layer < eighth or layer >= 7 * num_layers // 8 or (layer - eighth) % 3 == 2


def zones(first: int, last: int, num_layers: int) -> list[int]:
    """What the rules can tell of each layer's place, as a number; equal zones get equal types."""
    eighth, sixteenth, late = num_layers // 8, num_layers // 16, 7 * num_layers // 8
    return [
        (1 if i < eighth or i >= late or (i - eighth) % 3 == 2 else 0)
        + (2 if i < eighth else 0)
        + (4 if i < sixteenth else 0)
        + (8 if i < 2 else 16 if i < 4 else 0)
        + (32 if i >= late else 0)
        for i in range(first, last)
    ]


def linear_type(linear: Linear, layer: Layer, index: int, model: ModelSpec, mix: Mixture) -> WeightFormat:
    """The type of one of a layer's matrices; routers stay in 32 bit."""
    if linear.part is Part.ROUTER:
        return FORMATS["f32"]
    return fitted(_role_type(linear, layer, index, model, mix) or mix.base, linear.in_features)


def fitted(name: str, in_features: int) -> WeightFormat:
    """The type, or the one that takes its place where a row is no multiple of the block."""
    found = FORMATS[name]
    if in_features % found.elements == 0:
        return found
    replacement = FORMATS[_ROWS_NOT_OF_256.get(name, "f16")]
    return replacement if in_features % replacement.elements == 0 else FORMATS["f16"]


def _role_type(linear: Linear, layer: Layer, index: int, model: ModelSpec, mix: Mixture) -> str:
    if linear.part is Part.ATTENTION:
        return _attention_type(linear, layer, index, model, mix)
    if linear.name.endswith(DOWN_SUFFIXES):
        return _down_type(index, model.num_layers, mix)
    between = model.num_layers // 8 <= index < 7 * model.num_layers // 8
    return mix.up_between if between else ""


def _attention_type(linear: Linear, layer: Layer, index: int, model: ModelSpec, mix: Mixture) -> str:
    shape = layer.attention
    eight = layer.mlp.num_experts == EIGHT
    if linear.name in VALUE_NAMES and shape.kind is not AttentionKind.MLA:
        if eight and mix.eight_keys:
            return mix.eight_keys
        return _value_type(shape.num_heads // max(1, shape.num_kv_heads), index, model, mix)
    if linear.name in KEY_NAMES and eight and mix.eight_keys:
        return mix.eight_keys
    if linear.name in KEY_NAMES | QUERY_NAMES and shape.kind is not AttentionKind.MLA:
        return mix.query_key
    if linear.in_features == shape.num_heads * shape.v_head_dim and linear.out_features == model.hidden_size:
        return mix.eight_output if eight else mix.attention_output
    if linear.out_features == shape.q_width + shape.k_width + shape.v_width:
        return mix.fused
    return ""


def _value_type(group: int, index: int, model: ModelSpec, mix: Mixture) -> str:
    found = mix.value
    if index < mix.value_first_layers:
        found = mix.value_first
    elif mix.value_more and more_bits(index, model.num_layers):
        found = mix.value_more
    elif mix.value_wide and (group >= WIDE_GROUP or (mix.wide_experts and model.has_experts)):
        found = mix.value_wide
    of_70b = model.model_type in GROUPED_70B and model.num_layers == LAYERS_70B and group > 1
    return "q5_k" if of_70b and (found or mix.base) in {"q3_k", "q4_k"} else found


def _down_type(index: int, num_layers: int, mix: Mixture) -> str:
    if mix.down_first and index < num_layers // mix.down_first_share:
        return mix.down_first
    if mix.down_more and more_bits(index, num_layers):
        return mix.down_more
    return mix.down


def output_type(model: ModelSpec, mix: Mixture) -> WeightFormat:
    """The type of the output matrix, and of the token embedding that is tied to it."""
    return fitted(mix.output or mix.base, model.hidden_size)


def embedding_type(model: ModelSpec, mix: Mixture) -> WeightFormat:
    """The type of the token embedding on the host."""
    if model.tie_word_embeddings:
        return output_type(model, mix)
    return fitted(mix.embedding or mix.base, model.hidden_size)
