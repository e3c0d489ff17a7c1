"""Gemma 3n and Gemma 4: embeddings per layer, layers that reuse another layer's cache, two head widths.

Source: the modeling files of transformers 5.24 (`gemma3n`, `gemma4`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.model.decoder import LAYER_KINDS, Trunk, decoder_spec, read_heads, read_trunk, stack
from planner.model.fields import EXPERTS, HEADS, POSITIONS, VOCAB, Fields
from planner.model.parts import Feed, Mixer, attention_matrices, dense_feed, matrix, moe_feed
from planner.model.spec import Attention, AttentionKind, Block, Layer, Linear, ModelSpec, Part
from planner.model.style import Style

_STYLE = Style(tie=True, norms=4, hidden_act="gelu_pytorch_tanh")
_KINDS = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class _Place:
    """What tells one layer from another."""

    kind: str
    shares_kv: bool
    width: int


def _read_kinds(f: Fields, count: int, period: int) -> Sequence[str]:
    kinds = f.texts("layer_types", count, _KINDS)
    if kinds is None:
        return [_KINDS[1] if (index + 1) % period else _KINDS[0] for index in range(count)]
    return kinds


def _read_shared(f: Fields, count: int) -> int:
    """Index of the first layer that reuses a cache."""
    return count - f.size("num_kv_shared_layers", span=(0, count - 1), default=0)


def _attention(f: Fields, hidden: int, shape: Attention, *, tied_values: bool = False) -> Mixer:
    """Attention with norms on queries and keys; without key and value where they come from another layer."""
    linears = attention_matrices(
        hidden, shape, _STYLE.attention_names, **_biases(f.flag("attention_bias", default=False))
    )
    dropped: tuple[str, ...] = ()
    if shape.shares_kv:
        dropped = ("k_proj", "v_proj")
    elif tied_values:
        dropped = ("v_proj",)
    kept = tuple(linear for linear in linears if linear.name not in dropped)
    return Mixer(shape=shape, linears=kept, norm_params=shape.head_dim * (1 if shape.shares_kv else 2))


def _biases(flag: bool) -> dict[str, bool]:
    return {"qkv_bias": flag, "output_bias": flag}


def _window(f: Fields, kind: str) -> tuple[AttentionKind, int | None]:
    found = LAYER_KINDS[kind]
    if found is AttentionKind.FULL:
        return found, None
    return found, f.size("sliding_window", span=POSITIONS, default=512)


def _per_layer(hidden: int, width: int) -> tuple[tuple[Linear, ...], int]:
    """The matrices that feed a layer its own embedding, and their norm."""
    if not width:
        return (), 0
    return (
        matrix("per_layer_input_gate", hidden, width, Part.OTHER),
        matrix("per_layer_projection", width, hidden, Part.OTHER),
    ), hidden


def _per_layer_block(f: Fields, trunk: Trunk, width: int) -> tuple[Block, ...]:
    """The second embedding table, which holds one row of `width` per layer and token, and its projection."""
    if not width:
        return ()
    rows = f.size("vocab_size_per_layer_input", span=VOCAB, default=262_144)
    whole = trunk.num_layers * width
    params = rows * whole + trunk.hidden_size * whole + width
    return (Block(name="per_layer_embeddings", params=params),)


def _extend(layer: Layer, linears: tuple[Linear, ...], norm_params: int, vector_params: int = 0) -> Layer:
    return replace(
        layer,
        linears=layer.linears + linears,
        norm_params=layer.norm_params + norm_params,
        vector_params=layer.vector_params + vector_params,
    )


def _stack(
    places: Sequence[_Place],
    mixer: Callable[[_Place], Mixer],
    feed: Callable[[_Place], Feed],
    norm_params: int,
    finish: Callable[[Layer], Layer],
) -> tuple[Layer, ...]:
    made: dict[_Place, Layer] = {}
    for place in dict.fromkeys(places):
        made[place] = finish(stack((mixer(place),), (feed(place),), norm_params)[0])
    return tuple(made[place] for place in places)


def gemma3n_text(f: Fields) -> ModelSpec:
    """Gemma 3n: four residual streams (AltUp), a low-rank side path (LAuReL), embeddings per layer."""
    trunk = read_trunk(f, _STYLE)
    hidden, count = trunk.hidden_size, trunk.num_layers
    shape = read_heads(f, hidden)
    first_shared = _read_shared(f, count)
    width = f.size("hidden_size_per_layer_input", default=256)
    streams = f.size("altup_num_inputs", span=(1, 64), default=4)
    rank = f.size("laurel_rank", default=64)
    widths = _gemma3n_widths(f, count)
    places = [
        _Place(kind, index >= first_shared, widths[index])
        for index, kind in enumerate(_read_kinds(f, count, 5))
    ]

    def mixer(place: _Place) -> Mixer:
        kind, window = _window(f, place.kind)
        return _attention(f, hidden, replace(shape, kind=kind, window=window, shares_kv=place.shares_kv))

    gates, gate_norm = _per_layer(hidden, width)
    extras = (
        *gates,
        matrix("laurel.linear_left", hidden, rank, Part.OTHER),
        matrix("laurel.linear_right", rank, hidden, Part.OTHER),
        matrix("altup.correction_coefs", streams, streams, Part.OTHER, quantizable=False),
        matrix("altup.prediction_coefs", streams, streams * streams, Part.OTHER, quantizable=False),
        matrix("altup.modality_router", hidden, streams, Part.OTHER, quantizable=False),
    )

    def finish(layer: Layer) -> Layer:
        return _extend(layer, extras, gate_norm + 2 * hidden, hidden)

    layers = _stack(
        places, mixer, lambda place: dense_feed(hidden, place.width), 4 * trunk.norm_params, finish
    )
    altup = Block(name="altup", params=2 * (streams - 1) * hidden * hidden)
    return replace(decoder_spec(f, _STYLE, trunk, layers), blocks=(*_per_layer_block(f, trunk, width), altup))


def _gemma3n_widths(f: Fields, count: int) -> Sequence[int]:
    if isinstance(f.config.get("intermediate_size"), list):
        return f.sizes("intermediate_size", count) or ()
    return (f.size("intermediate_size"),) * count


def gemma4_text(f: Fields) -> ModelSpec:
    """Gemma 4: wider heads in full layers, maybe without a value projection; experts beside a dense MLP."""
    trunk = read_trunk(f, _STYLE)
    hidden, count = trunk.hidden_size, trunk.num_layers
    first_shared = _read_shared(f, count)
    width = f.size("hidden_size_per_layer_input", span=(0, 10**6), default=256)
    dense_width = f.size("intermediate_size")
    double = f.flag("use_double_wide_mlp", default=False)
    kinds = [*_read_kinds(f, count, 6)[:-1], _KINDS[0]]
    places = [
        _Place(kind, index >= first_shared, dense_width * (2 if double and index >= first_shared else 1))
        for index, kind in enumerate(kinds)
    ]
    routed = f.flag("enable_moe_block", default=False)
    gates, gate_norm = _per_layer(hidden, width)

    def feed(place: _Place) -> Feed:
        return _gemma4_experts(f, hidden, place.width) if routed else dense_feed(hidden, place.width)

    layers = _stack(
        places,
        lambda place: _gemma4_attention(f, hidden, place),
        feed,
        (7 if routed else 4) * trunk.norm_params,
        lambda layer: _extend(layer, gates, gate_norm),
    )
    return replace(decoder_spec(f, _STYLE, trunk, layers), blocks=_per_layer_block(f, trunk, width))


def _gemma4_attention(f: Fields, hidden: int, place: _Place) -> Mixer:
    heads = f.size("num_attention_heads", span=HEADS)
    kv_heads = f.size("num_key_value_heads", span=HEADS)
    head_dim = f.size("head_dim")
    kind, window = _window(f, place.kind)
    tied = False
    if kind is AttentionKind.FULL:
        tied = f.flag("attention_k_eq_v", default=False)
        head_dim, kv_heads = _full_heads(f, kv_heads, tied=tied)
    f.divides("num_key_value_heads", kv_heads, "num_attention_heads", heads)
    shape = Attention(
        kind=kind,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        window=window,
        shares_kv=place.shares_kv,
    )
    return _attention(f, hidden, shape, tied_values=tied)


def _full_heads(f: Fields, kv_heads: int, *, tied: bool) -> tuple[int, int]:
    """Head width and key and value heads of the full layers; newer configs hold them layer by layer."""
    if not f.has("per_layer_config"):
        head_dim = f.size("global_head_dim", default=512)
        return head_dim, f.size(
            "num_global_key_value_heads", span=HEADS, default=kv_heads
        ) if tied else kv_heads
    table = f.nested("per_layer_config")
    entries = [table.nested(str(key)) for key in table.config]
    found = {
        (entry.size("head_dim"), entry.size("num_key_value_heads", span=HEADS, default=kv_heads))
        for entry in entries
    }
    if len(found) != 1:
        f.unsupported("per_layer_config", f"{len(found)} kinds of full layers")
    return found.pop()


def _gemma4_experts(f: Fields, hidden: int, dense_width: int) -> Feed:
    """Experts and the dense MLP beside them, which every token visits and is counted as shared."""
    experts = f.size("num_experts", span=EXPERTS)
    top = f.at_most("top_k_experts", f.size("top_k_experts", span=EXPERTS), "num_experts", experts)
    return moe_feed(
        hidden,
        experts=experts,
        experts_per_token=top,
        width=f.size("moe_intermediate_size"),
        shared_width=dense_width,
        shared_prefix="",
        router_name="router.proj",
        vector_params=hidden + experts,
    )


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "gemma3n_text": gemma3n_text,
    "gemma4_text": gemma4_text,
}
