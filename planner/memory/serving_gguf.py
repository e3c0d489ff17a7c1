"""Which ggml type each matrix of a GGUF file gets: the mixtures behind names such as Q4_K_M.

A file type names a base type; llama.cpp's quantizer raises some matrices above it by layer and role. The
rules here are those of `llama_tensor_get_type`, without an importance matrix. Published "dynamic" mixtures
differ per file: give `weights_file_bytes` for those.
"""

from dataclasses import dataclass
from typing import Final

from planner.memory.weight_formats import FORMATS, WeightFormat, base_type
from planner.model.spec import AttentionKind, Layer, Linear, ModelSpec, Part

VALUE_NAMES: Final = frozenset({"v_proj", "value", "wv", "v"})
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


def by_place(mix: Mixture) -> bool:
    """Whether a mixture treats some layers differently from others."""
    return bool(mix.value_more or mix.value_first or mix.down_more or mix.down_first)


def _small(base: str, *, better: str) -> Mixture:
    """The 1- and 2-bit family."""
    return Mixture(
        base=base, output="q5_k", embedding=better, value=better, value_wide="q4_k", down_first=better
    )


MIXTURES: Final[dict[str, Mixture]] = {
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
    "iq1_s": _small("iq1_s", better="q2_k"),
    "iq1_m": _small("iq1_m", better="q2_k"),
    "iq2_xxs": _small("iq2_xxs", better="q2_k"),
    "iq2_xs": _small("iq2_xs", better="q2_k"),
    "iq2_s": _small("iq2_xs", better="iq3_s"),
    "iq2_m": _small("iq2_s", better="iq3_s"),
    "iq3_xxs": Mixture(
        base="iq3_xxs", embedding="iq3_s", value="iq3_s", value_wide="q4_k", down="q3_k", down_first="q4_k",
        attention_output="iq3_s",
    ),
    "iq3_xs": Mixture(base="iq3_s", value_wide="q4_k"),
    "iq3_s": Mixture(base="iq3_s", value_wide="q4_k"),
    "iq3_m": Mixture(base="iq3_s", value="q4_k", down_first="q4_k", attention_output="q4_k", fused="q4_k"),
    "iq4_nl": Mixture(base="iq4_nl", value_wide="q5_k", down_first="q5_k"),
    "iq4_xs": Mixture(base="iq4_xs", value_wide="q5_k", down_first="q5_k"),
    "mxfp4": Mixture(base="mxfp4_gguf", output="q8_0"),
}  # fmt: skip

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
    shape = layer.attention
    if linear.part is Part.ATTENTION:
        if linear.name in VALUE_NAMES and shape.kind is not AttentionKind.MLA:
            return _value_type(shape.num_heads // max(1, shape.num_kv_heads), index, model, mix)
        if (
            linear.in_features == shape.num_heads * shape.v_head_dim
            and linear.out_features == model.hidden_size
        ):
            return mix.attention_output
        if linear.out_features == shape.q_width + shape.k_width + shape.v_width:
            return mix.fused
        return ""
    if linear.name.endswith(DOWN_SUFFIXES):
        return _down_type(index, model.num_layers, mix)
    return ""


def _value_type(group: int, index: int, model: ModelSpec, mix: Mixture) -> str:
    if index < mix.value_first_layers:
        return mix.value_first
    if mix.value_more and more_bits(index, model.num_layers):
        return mix.value_more
    if mix.value_wide and (group >= WIDE_GROUP or model.has_experts):
        return mix.value_wide
    return mix.value


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
