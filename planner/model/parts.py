"""Pieces of layers: attention and feed-forward blocks as shapes plus named matrices."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from planner.model.spec import Attention, AttentionKind, Layer, Linear, Mlp, MlpKind, Part, Split

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """The token-mixing half of a layer.

    Attributes:
        norm_params: Elements of norms inside it, such as those on queries and keys.
        vector_params: Elements that are neither matrix nor norm.
    """

    shape: Attention
    linears: tuple[Linear, ...] = ()
    norm_params: int = 0
    vector_params: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """The feed-forward half of a layer.

    Attributes:
        norm_params: Elements of norms inside it.
        vector_params: Elements that are neither matrix nor norm, such as a router's correction.
    """

    shape: Mlp
    linears: tuple[Linear, ...] = ()
    norm_params: int = 0
    vector_params: int = 0


NO_MIXER = Mixer(shape=Attention(kind=AttentionKind.NONE))
NO_FEED = Feed(shape=Mlp(kind=MlpKind.NONE))


def join(
    mixer: Mixer, feed: Feed, norm_params: int, vector_params: int = 0, cross: Mixer | None = None
) -> Layer:
    """A layer from its halves and the norms around them.

    Args:
        mixer: Attention, or what stands in its place.
        feed: The feed-forward half.
        norm_params: Elements of the norms around both.
        vector_params: Neither matrix nor norm, beside what the halves have.
        cross: Attention to an encoder, of a decoder beside one.
    """
    linears = mixer.linears + (cross.linears if cross else ()) + feed.linears
    extra_norm = cross.norm_params if cross else 0
    extra_vector = cross.vector_params if cross else 0
    return Layer(
        attention=mixer.shape,
        mlp=feed.shape,
        linears=linears,
        norm_params=norm_params + mixer.norm_params + feed.norm_params + extra_norm,
        vector_params=vector_params + mixer.vector_params + feed.vector_params + extra_vector,
        cross_attention=cross.shape if cross else None,
    )


def share(keys: Iterable[Key], make: Callable[[Key], Layer]) -> tuple[Layer, ...]:
    """One layer per key, in order; equal keys give the same object."""
    made: dict[Key, Layer] = {}
    layers = []
    for key in keys:
        layer = made.get(key)
        if layer is None:
            layer = made[key] = make(key)
        layers.append(layer)
    return tuple(layers)


def matrix(
    name: str,
    in_features: int,
    out_features: int,
    part: Part,
    split: Split = Split.NONE,
    *,
    bias: bool = False,
    copies: int = 1,
    quantizable: bool = True,
) -> Linear:
    """A `Linear` with a bias as wide as its output, or none.

    Args:
        name: The field's own name.
        in_features: Input width.
        out_features: Output width.
        part: Where it is counted.
        split: How tensor parallelism divides it.
        bias: Whether it has one.
        copies: Such matrices in the layer.
        quantizable: False for what weight-only formats leave in 16 bit.
    """
    return Linear(
        name=name,
        in_features=in_features,
        out_features=out_features,
        bias_features=out_features if bias else 0,
        copies=copies,
        part=part,
        split=split,
        quantizable=quantizable,
    )


def head(hidden_size: int, vocab_size: int, *, bias: bool = False, name: str = "lm_head") -> Linear:
    """The output matrix."""
    return matrix(name, hidden_size, vocab_size, Part.HEAD, Split.VOCAB, bias=bias, quantizable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionNames:
    """The names of a family's attention matrices; `fused` set means one matrix for query, key and value."""

    query: str = "q_proj"
    key: str = "k_proj"
    value: str = "v_proj"
    output: str = "o_proj"
    fused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpNames:
    """The names of a family's feed-forward matrices; `fused` set means gate and up in one matrix."""

    gate: str = "gate_proj"
    up: str = "up_proj"
    down: str = "down_proj"
    fused: str = ""


LLAMA_ATTENTION = AttentionNames()
LLAMA_MLP = MlpNames()


def attention_matrices(
    hidden_size: int,
    shape: Attention,
    names: AttentionNames,
    *,
    qkv_bias: bool = False,
    output_bias: bool = False,
) -> tuple[Linear, ...]:
    """Query, key, value and output projections of grouped-query attention.

    Args:
        hidden_size: Residual width.
        shape: Heads and their widths.
        names: Of the projections; a fused one stands for three.
        qkv_bias: Whether query, key and value have one.
        output_bias: Whether the output has one.
    """
    q, k, v = shape.q_width, shape.k_width, shape.v_width
    output = matrix(
        names.output,
        shape.num_heads * shape.v_head_dim,
        hidden_size,
        Part.ATTENTION,
        Split.ROW,
        bias=output_bias,
    )
    if names.fused:
        fused = matrix(names.fused, hidden_size, q + k + v, Part.ATTENTION, Split.COLUMN, bias=qkv_bias)
        return (fused, output)
    return (
        matrix(names.query, hidden_size, q, Part.ATTENTION, Split.COLUMN, bias=qkv_bias),
        matrix(names.key, hidden_size, k, Part.ATTENTION, Split.COLUMN, bias=qkv_bias),
        matrix(names.value, hidden_size, v, Part.ATTENTION, Split.COLUMN, bias=qkv_bias),
        output,
    )


def mlp_matrices(
    hidden_size: int,
    width: int,
    names: MlpNames,
    *,
    gated: bool,
    bias: bool = False,
    part: Part = Part.MLP,
    copies: int = 1,
    prefix: str = "",
    quantizable: bool = True,
) -> tuple[Linear, ...]:
    """Up (and gate) and down projections of one MLP, or of `copies` experts.

    Args:
        hidden_size: Residual width.
        width: Of the MLP, or of one expert.
        names: Of the matrices; a fused one stands for gate and up.
        gated: Whether there is a gate.
        bias: Whether each has one.
        part: Where they are counted.
        copies: Experts, 1 for a dense MLP.
        prefix: Before each name.
        quantizable: False for what weight-only formats leave in 16 bit.
    """

    def one(name: str, i: int, o: int, split: Split) -> Linear:
        return matrix(prefix + name, i, o, part, split, bias=bias, copies=copies, quantizable=quantizable)

    down = one(names.down, width, hidden_size, Split.ROW)
    if not gated:
        return (one(names.up, hidden_size, width, Split.COLUMN), down)
    if names.fused:
        return (one(names.fused, hidden_size, 2 * width, Split.COLUMN), down)
    return (
        one(names.gate, hidden_size, width, Split.COLUMN),
        one(names.up, hidden_size, width, Split.COLUMN),
        down,
    )


def dense_feed(
    hidden_size: int, width: int, names: MlpNames = LLAMA_MLP, *, gated: bool = True, bias: bool = False
) -> Feed:
    """A dense MLP.

    Args:
        hidden_size: Residual width.
        width: Of the MLP.
        names: Of its matrices.
        gated: Whether there is a gate.
        bias: Whether each has one.
    """
    shape = Mlp(kind=MlpKind.GATED if gated else MlpKind.PLAIN, intermediate_size=width, gated=gated)
    return Feed(shape=shape, linears=mlp_matrices(hidden_size, width, names, gated=gated, bias=bias))


def moe_feed(
    hidden_size: int,
    *,
    experts: int,
    experts_per_token: int,
    width: int,
    shared_width: int = 0,
    names: MlpNames = LLAMA_MLP,
    shared_names: MlpNames = LLAMA_MLP,
    gated: bool = True,
    bias: bool = False,
    router_name: str = "gate",
    router_bias: bool = False,
    shared_prefix: str = "shared_experts.",
    shared_gate: bool = False,
    vector_params: int = 0,
) -> Feed:
    """Routed experts, their router, and shared experts if any.

    Args:
        hidden_size: Residual width.
        experts: Routed experts.
        experts_per_token: Routed experts that each token visits.
        width: Width of one routed expert.
        shared_width: Width of all shared experts together.
        names: Matrix names of a routed expert, to which `experts.` is prefixed.
        shared_names: Matrix names of the shared expert.
        gated: Whether the experts are gated.
        bias: Whether the experts' matrices have biases.
        router_name: Name of the router.
        router_bias: Whether the router has a bias.
        shared_prefix: Prefix of the shared experts' matrices.
        shared_gate: A one-output gate on the shared expert (Qwen2-MoE and its successors).
        vector_params: Small parameters of the router, such as a trained correction bias.
    """
    router = matrix(router_name, hidden_size, experts, Part.ROUTER, bias=router_bias, quantizable=False)
    linears = (
        router,
        *mlp_matrices(
            hidden_size,
            width,
            names,
            gated=gated,
            bias=bias,
            part=Part.EXPERTS,
            copies=experts,
            prefix="experts.",
        ),
    )
    if shared_width:
        linears += mlp_matrices(
            hidden_size,
            shared_width,
            shared_names,
            gated=gated,
            part=Part.SHARED_EXPERTS,
            prefix=shared_prefix,
        )
    if shared_gate and shared_width:
        linears += (matrix("shared_expert_gate", hidden_size, 1, Part.ROUTER, quantizable=False),)
    shape = Mlp(
        kind=MlpKind.MOE,
        intermediate_size=width,
        gated=gated,
        num_experts=experts,
        experts_per_token=experts_per_token,
        shared_intermediate_size=shared_width,
    )
    return Feed(shape=shape, linears=linears, vector_params=vector_params)
