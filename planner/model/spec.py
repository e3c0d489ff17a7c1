"""The model description every formula reads: layers of named matrices with shapes, to count anything from.

A `ModelSpec` is built from a Hugging Face config (`planner.model.from_config`) or a catalog row. Sizes
are element counts, not bytes. Layers are listed in model order and share objects, so two equal layers are
the same object.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.model.tower import Tower

from planner.lazy import lazy
from planner.model.distinct import distinct
from planner.model.unet_shape import UnetShape


class AttentionKind(StrEnum):
    """How a layer mixes tokens."""

    FULL = "full"
    SLIDING = "sliding"  # a window of the newest `window` tokens
    CHUNKED = "chunked"  # Llama-4: attends inside chunks of `window` tokens
    MLA = "mla"  # latent cache of kv_lora_rank + qk_rope_head_dim per token
    LINEAR = "linear"  # gated delta net, KDA, lightning attention: a state of fixed size per sequence
    STATE_SPACE = "state_space"  # Mamba
    CONVOLUTION = "convolution"  # LFM2 short convolution
    NONE = "none"


class MlpKind(StrEnum):
    """The feed-forward half of a layer."""

    GATED = "gated"  # two up projections and a product (SwiGLU, GeGLU)
    PLAIN = "plain"  # one up projection
    MOE = "moe"  # routed experts (gated or plain), maybe with shared ones
    NONE = "none"


class Part(StrEnum):
    """Which part of the model a weight belongs to; the breakdown shown to users."""

    EMBEDDING = "embedding"
    ATTENTION = "attention"
    MLP = "mlp"
    EXPERTS = "experts"
    SHARED_EXPERTS = "shared_experts"
    ROUTER = "router"
    NORM = "norm"
    HEAD = "head"
    OTHER = "other"  # towers, projectors, adapters, named in Block.name


class Split(StrEnum):
    """How tensor parallelism divides a linear."""

    COLUMN = "column"  # outputs divided, bias divided
    ROW = "row"  # inputs divided, bias whole on every rank
    VOCAB = "vocab"  # embedding or head divided over the vocabulary
    NONE = "none"  # whole on every rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One weight matrix of shape (out_features, in_features), `copies` times (experts), with a bias or not.

    Attributes:
        name: The field's own name (`q_proj`, `gate_proj`, `c_attn`, `experts.gate_up_proj`, ...): what
            adapters target.
        in_features: Input width.
        out_features: Output width.
        bias_features: Width of the bias, 0 for none.
        copies: How many such matrices the layer holds (the number of routed experts; else 1).
        part: Where it is counted.
        split: How tensor parallelism divides it.
        quantizable: False for what weight-only formats leave in 16 bit (routers, embeddings, heads).
        convolution: A convolution, its cells times its input channels as columns; "all linear" leaves it out.
    """

    name: str
    in_features: int
    out_features: int
    bias_features: int = 0
    copies: int = 1
    part: Part
    split: Split = Split.NONE
    quantizable: bool = True
    convolution: bool = False

    @property
    def weight_params(self) -> int:
        """Elements of the matrices, biases left out."""
        return self.in_features * self.out_features * self.copies

    @property
    def params(self) -> int:
        """Elements of matrices and biases."""
        return (self.in_features * self.out_features + self.bias_features) * self.copies


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Shape of a layer's token mixing.

    Attributes:
        kind: See `AttentionKind`.
        num_heads: Query heads (value heads for linear attention).
        num_kv_heads: Key and value heads; 1 = multi-query; equal to `num_heads` = multi-head.
        head_dim: Width of a query and key head (for MLA: nope + rope).
        v_head_dim: Width of a value head.
        window: Tokens a sliding or chunked layer sees; None = all.
        kv_lora_rank: MLA latent width, 0 where not MLA.
        qk_rope_head_dim: MLA rope part of the key, 0 where not MLA.
        q_lora_rank: MLA query compression, 0 for none.
        state_elements: Elements of the recurrent state per sequence (linear and state-space layers), 0
            otherwise.
        conv_state_elements: Elements of the convolution state per sequence, 0 otherwise.
        index_head_dim: Width of the key of a sparse-attention indexer, cached per token (per compressed
            entry where `compress_ratio` is set); 0 for none.
        compress_ratio: Beyond the window one entry of `head_dim` is cached for so many tokens
            (DeepSeek-V4); 0 for none.
        kv_tied: One tensor serves as key and as value and is cached once (DeepSeek-V4).
        shares_kv: The layer reuses another layer's cache and keeps none of its own.
    """

    kind: AttentionKind
    num_heads: int = 0
    num_kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int = 0
    window: int | None = None
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    q_lora_rank: int = 0
    state_elements: int = 0
    conv_state_elements: int = 0
    index_head_dim: int = 0
    compress_ratio: int = 0
    kv_tied: bool = False
    shares_kv: bool = False

    @property
    def q_width(self) -> int:
        """Elements of all query heads per token."""
        return self.num_heads * self.head_dim

    @property
    def k_width(self) -> int:
        """Elements of all key heads per token, as computed (MLA: decompressed)."""
        heads = self.num_heads if self.kind is AttentionKind.MLA else self.num_kv_heads
        return heads * self.head_dim

    @property
    def v_width(self) -> int:
        """Elements of all value heads per token, as computed (MLA: decompressed)."""
        heads = self.num_heads if self.kind is AttentionKind.MLA else self.num_kv_heads
        return heads * self.v_head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """Shape of a layer's feed-forward part.

    Attributes:
        kind: See `MlpKind`.
        intermediate_size: Width of the dense MLP, or of one routed expert.
        gated: Whether (the expert's) MLP is gated.
        num_experts: Routed experts, 0 for dense.
        experts_per_token: Routed experts each token visits.
        shared_intermediate_size: Total width of the shared experts, 0 for none.
    """

    kind: MlpKind
    intermediate_size: int = 0
    gated: bool = True
    num_experts: int = 0
    experts_per_token: int = 0
    shared_intermediate_size: int = 0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer: its shapes, its matrices, and its small vectors (norm weights and the like)."""

    attention: Attention
    mlp: Mlp
    linears: tuple[Linear, ...]
    norm_params: int = 0
    vector_params: int = 0
    """Neither linear nor norm: sinks, A_log, dt_bias, convolution kernels, relative biases, ..."""
    cross_attention: Attention | None = None
    program: str = ""
    """Kind of block in `planner.diffusion.blocks`; "" for language models."""
    halvings: int = 0
    """How often both sides of the picture were halved before it: a quarter of the tokens each time."""

    @lazy
    def params(self) -> int:
        """All parameters of the layer."""
        return sum(linear.params for linear in self.linears) + self.norm_params + self.vector_params

    @property
    def idle_expert_params(self) -> int:
        """Parameters of the routed experts that one token does not visit."""
        idle = self.mlp.num_experts - self.mlp.experts_per_token
        if idle <= 0:
            return 0
        experts = sum(linear.params for linear in self.linears if linear.part is Part.EXPERTS)
        return experts // self.mlp.num_experts * idle

    def part_params(self, part: Part) -> int:
        """Parameters of one part of the layer; vectors count with attention."""
        total = sum(linear.params for linear in self.linears if linear.part is part)
        if part is Part.NORM:
            total += self.norm_params
        if part is Part.ATTENTION:
            total += self.vector_params
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A part counted as one piece: a vision tower, a projector, an encoder's front end, MTP layers.

    Attributes:
        name: Stable lowercase id (`vision_tower`, `projector`, `mtp`, ...).
        params: Elements.
        stage: Whether it lives with the first or the last pipeline stage.
        counted: False for parts that are in the checkpoint but not in the class (MTP); not in `params_total`.
        table: Rows that are looked up, divided over ranks and stored in the checkpoint's own format.
        tower: What it is as a step sees it, where it is a vision tower that is described.
        linears: Matrices among its parameters that adapters may be put on; those of most blocks are not described.
    """

    name: str
    params: int
    stage: str = "first"
    counted: bool = True
    table: bool = False
    tower: "Tower | None" = None
    linears: tuple[Linear, ...] = ()


class Structure(StrEnum):
    """What the whole model is."""

    DECODER = "decoder"
    ENCODER = "encoder"
    ENCODER_DECODER = "encoder_decoder"
    DENOISER = "denoiser"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A frozen model that a diffusion pipeline loads beside its denoiser.

    Attributes:
        name: Kind: `text_encoder_clip`, `text_encoder_t5`, `text_encoder_llm` or `vae`.
        params: Elements.
    """

    name: str
    params: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latents:
    """What a denoiser works on.

    Attributes:
        pixels_per_token: Pixels along a side of what one token stands for.
        frames_per_token: Frames that one token stands for; 1 for pictures.
        channels: Elements of the latents per token.
        text_tokens: Tokens of the text, padded.
        text_width: Elements of the text's encoding per token.
        joint: The text's tokens are part of the sequence; otherwise every block attends to them.
        passes: Copies of the batch in one pass where guidance needs the picture with and without its text.
        decode_elements_per_pixel: Most elements per pixel while a picture is decoded; None where that is not described.
        encode_elements_per_pixel: The same while one is encoded.
        wide_vae: The VAE works in fp32 where the rest is fp16, and while the denoiser is trained (`force_upcast`).
        native_side_px: Side of the pictures that the model was made for.
    """

    pixels_per_token: int
    frames_per_token: int = 1
    channels: int
    text_tokens: int
    text_width: int
    joint: bool
    passes: int = 1
    decode_elements_per_pixel: int | None = None
    encode_elements_per_pixel: int | None = None
    wide_vae: bool = False
    native_side_px: int = 8 * 128

    def text_in_sequence(self, sequence: int) -> int:
        """Tokens of the text in a sequence: all of them, but no more than half of it."""
        return min(self.text_tokens, sequence // 2) if self.joint else 0


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A whole model.

    Attributes:
        id: Catalog id or "" for a pasted config.
        model_type: Hugging Face `model_type`.
        structure: Decoder, encoder, encoder-decoder or denoiser.
        hidden_size: Residual width.
        vocab_size: Rows of the embedding as built.
        max_position_embeddings: Longest sequence the config names, None if unlimited or unnamed.
        layers: Decoder (or encoder) layers in model order.
        encoder_layers: Encoder layers of an encoder-decoder, else empty.
        embedding_params: Token embedding.
        position_params: Learned positions, token types, embedding norms and projections.
        final_norm_params: Last norm(s) outside the layers.
        head: The output matrix, or None where the model has none; see `tie_word_embeddings`.
        tie_word_embeddings: The head shares the embedding's storage (then it adds no parameters).
        blocks: Parts counted as one piece.
        norm: `rms_norm` or `layer_norm`.
        hidden_act: Activation function as the config names it.
        position_embedding: `rope`, `learned`, `alibi`, `relative` or `none`.
        config: Sorted (key, JSON text) pairs of the config it was built from; for display and traces.
        approximate: Codes that say why parameter counts are not exact, empty when exact: `class_not_public`,
            `vision_tower_not_counted`, `audio_tower_not_counted`, `speech_tower_not_counted`.
        logit_soft_cap: A final soft cap on logits exists (Gemma-2), which adds logits-sized tensors.
        parallel_residual: Attention and MLP read the same norm (GPT-J, Falcon, Phi-2, NeoX).
        latents: What a denoiser works on; None for other models.
        unet: The shape of a denoiser that is a U-Net; None for all others.
        components: Frozen models beside a denoiser; they are not in `params_total`.
    """

    id: str = ""
    model_type: str
    structure: Structure = Structure.DECODER
    hidden_size: int
    vocab_size: int
    max_position_embeddings: int | None = None
    layers: tuple[Layer, ...]
    encoder_layers: tuple[Layer, ...] = ()
    embedding_params: int
    position_params: int = 0
    final_norm_params: int = 0
    head: Linear | None = None
    tie_word_embeddings: bool = False
    blocks: tuple[Block, ...] = ()
    norm: str = "rms_norm"
    hidden_act: str = "silu"
    position_embedding: str = "rope"
    config: tuple[tuple[str, str], ...] = ()
    approximate: tuple[str, ...] = ()
    logit_soft_cap: bool = False
    parallel_residual: bool = False
    latents: Latents | None = None
    unet: UnetShape | None = None
    components: tuple[Component, ...] = ()

    @property
    def head_params(self) -> int:
        """Parameters the head adds: 0 if tied or absent (its bias stays)."""
        if self.head is None:
            return 0
        return self.head.bias_features if self.tie_word_embeddings else self.head.params

    @property
    def num_layers(self) -> int:
        """Number of decoder (or encoder) layers."""
        return len(self.layers)

    @lazy
    def params_total(self) -> int:
        """All parameters, the tied head counted once, uncounted blocks left out."""
        return (
            sum(layer.params * count for layer, count in self.distinct_layers())
            + self.embedding_params
            + self.position_params
            + self.final_norm_params
            + self.head_params
            + sum(block.params for block in self.blocks if block.counted)
        )

    @property
    def params_active(self) -> int:
        """Parameters one token touches: everything but routed experts it does not visit, and tables' other rows.

        Embeddings, head and vision tower count whole, as in the catalog; makers often leave them out.
        """
        idle = sum(layer.idle_expert_params * count for layer, count in self.distinct_layers())
        return self.params_total - idle - sum(block.params for block in self.blocks if block.table)

    def distinct_layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each layer object, encoder first, and how often it occurs; equal layers share objects."""
        return self._distinct

    @property
    def tower(self) -> "Tower | None":
        """The vision tower, None where there is none or it is not described."""
        return next((block.tower for block in self.blocks if block.tower is not None), None)

    @lazy
    def _distinct(self) -> tuple[tuple[Layer, int], ...]:
        return tuple(distinct((*self.encoder_layers, *self.layers)))

    @lazy
    def has_experts(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(layer.mlp.kind is MlpKind.MOE for layer, _ in distinct(self.layers))


def linears(spec: ModelSpec) -> Iterator[tuple[int, Linear]]:
    """Every matrix of every layer with the layer's index, encoder layers first; without the head."""
    for index, layer in enumerate((*spec.encoder_layers, *spec.layers)):
        for linear in layer.linears:
            yield index, linear
