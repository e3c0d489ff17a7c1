"""What a family's class fixes beyond the config: biases, norms, names, windows. One `Style` per family."""

from dataclasses import dataclass
from enum import StrEnum

from planner.model.parts import LLAMA_ATTENTION, LLAMA_MLP, AttentionNames, MlpNames


class QkNorm(StrEnum):
    """Norms on queries and keys."""

    NONE = "none"
    HEAD = "head"  # one weight of head_dim for all query heads, one for all key heads
    WIDTH = "width"  # a weight as wide as all query heads, one as wide as all key heads
    EACH_HEAD = "each_head"  # a weight of head_dim for each query head and each key head


class Slides(StrEnum):
    """Which layers see a window only, where the config has no `layer_types`."""

    NEVER = "never"
    ALWAYS = "always"  # all of them, if `sliding_window` is set
    FLAGGED = "flagged"  # from layer `max_window_layers` on, if `use_sliding_window` is set
    MOST = "most"  # all but every `period`-th


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Defaults of one family's Hugging Face class. A key that stands in the config beats them.

    Attributes:
        gated: Gated MLP.
        qkv_bias: Biases on query, key and value.
        output_bias: Bias on the attention output.
        bias_key: Config key of the attention biases.
        output_bias_key: Config key of the output's bias; empty where `bias_key` sets it too.
        output_follows: `bias_key` sets the output's bias too.
        mlp_bias: Biases in the MLP.
        mlp_bias_key: Config key of the MLP biases.
        norm: `rms_norm` or `layer_norm`.
        norm_bias: The layer norms have biases.
        norm_weight: The norms have weights at all (OLMo's have none).
        norms: Norms of `hidden_size` in a layer.
        qk_norm: Norms on queries and keys.
        qk_norm_key: Config key that turns them on; empty where the class has no such key.
        qk_norm_default: What the class does without that key.
        qk_norm_scale: Parameters per width of those norms: 1, or 2 with a bias.
        tie: `tie_word_embeddings` where the config has no such key.
        head_bias: The output matrix has a bias.
        head_bias_key: Config key of that bias; empty where the class has none.
        head_name: Name of the output matrix.
        parallel: Attention and MLP read the same input.
        attention_names: Names of the attention matrices.
        mlp_names: Names of the MLP matrices.
        slides: Which layers slide.
        period: For `Slides.MOST`.
        full_last: The last layer is never sliding.
        window: Default window of a family that always has one.
        hidden_act: Default activation.
        position: `rope`, `learned`, `alibi`, `relative` or `none`.
    """

    gated: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    bias_key: str = "attention_bias"
    output_bias_key: str = ""
    output_follows: bool = True
    mlp_bias: bool = False
    mlp_bias_key: str = "mlp_bias"
    norm: str = "rms_norm"
    norm_bias: bool = True
    norm_weight: bool = True
    norms: int = 2
    qk_norm: QkNorm = QkNorm.HEAD
    qk_norm_key: str = "qk_norm"
    qk_norm_default: bool = False
    qk_norm_scale: int = 1
    tie: bool = False
    head_bias: bool = False
    head_bias_key: str = ""
    head_name: str = "lm_head"
    parallel: bool = False
    attention_names: AttentionNames = LLAMA_ATTENTION
    mlp_names: MlpNames = LLAMA_MLP
    slides: Slides = Slides.NEVER
    period: int = 0
    full_last: bool = False
    window: int | None = None
    hidden_act: str = "silu"
    position: str = "rope"
