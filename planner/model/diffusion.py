"""Diffusion transformers: FLUX.2's, which a loop over diffusers trains by itself with text and latents made beforehand.

Read off diffusers' `Flux2Transformer2DModel`. In the double blocks text and image have matrices of their own and meet
in attention: every token passes one of the two sets, so one set counts for what a layer keeps per token, both for
weights. The single blocks run attention and feed-forward part side by side on one projection.
"""

from collections.abc import Callable, Mapping

from planner.model.decoder import grouped
from planner.model.fields import HEADS, LAYERS, WIDTH, Fields
from planner.model.spec import Block, Layer, Linear, Mlp, MlpKind, ModelSpec, Part, Split, Structure


def _attention(hidden: int, width: int) -> tuple[Linear, ...]:
    """The image stream's four matrices; the text stream's stand beside them."""
    own = [
        Linear(
            name=f"attn.{name}",
            in_features=hidden,
            out_features=width,
            part=Part.ATTENTION,
            split=Split.COLUMN,
        )
        for name in ("to_q", "to_k", "to_v")
    ]
    out = Linear(
        name="attn.to_out.0", in_features=width, out_features=hidden, part=Part.ATTENTION, split=Split.ROW
    )
    return (*own, out)


def _text_stream(hidden: int, width: int, inner: int) -> tuple[Linear, ...]:
    """The text stream's matrices, counted as weights alone."""
    shapes = (
        *((f"attn.add_{x}_proj", hidden, width) for x in "qkv"),
        ("attn.to_add_out", width, hidden),
        ("ff_context.linear_in", hidden, 2 * inner),
        ("ff_context.linear_out", inner, hidden),
    )
    return tuple(
        Linear(name=name, in_features=columns, out_features=rows, part=Part.OTHER)
        for name, columns, rows in shapes
    )


def _feed(hidden: int, inner: int) -> tuple[Linear, ...]:
    """Gate and up in one matrix, then down."""
    return (
        Linear(
            name="ff.linear_in", in_features=hidden, out_features=2 * inner, part=Part.MLP, split=Split.COLUMN
        ),
        Linear(name="ff.linear_out", in_features=inner, out_features=hidden, part=Part.MLP, split=Split.ROW),
    )


def _single(hidden: int, width: int, inner: int) -> tuple[Linear, ...]:
    return (
        Linear(
            name="attn.to_qkv_mlp_proj",
            in_features=hidden,
            out_features=3 * width + 2 * inner,
            part=Part.ATTENTION,
            split=Split.COLUMN,
        ),
        Linear(
            name="attn.to_out", in_features=width + inner, out_features=hidden, part=Part.MLP, split=Split.ROW
        ),
    )


def flux2(f: Fields) -> ModelSpec:
    """FLUX.2: joint attention in the first blocks, one stream in the rest, shared modulation, no biases."""
    heads, head_dim = f.size("num_attention_heads", span=HEADS), f.size("attention_head_dim")
    hidden = heads * head_dim
    inner = int(hidden * f.number("mlp_ratio", span=(0.1, 64.0), default=3.0))
    doubles = f.size("num_layers", span=LAYERS)
    singles = f.size("num_single_layers", span=LAYERS)
    shape, mlp = grouped(heads, heads, head_dim), Mlp(kind=MlpKind.GATED, intermediate_size=inner)
    double = Layer(
        attention=shape,
        mlp=mlp,
        linears=(*_attention(hidden, hidden), *_feed(hidden, inner), *_text_stream(hidden, hidden, inner)),
        norm_params=4 * head_dim,
    )
    single = Layer(attention=shape, mlp=mlp, linears=_single(hidden, hidden, inner), norm_params=2 * head_dim)
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=0,
        layers=(double,) * doubles + (single,) * singles,
        embedding_params=0,
        blocks=_ends(f, hidden),
        norm="layer_norm",
        hidden_act="silu",
        position_embedding="rope",
    )


def _ends(f: Fields, hidden: int) -> tuple[Block, ...]:
    """What stands before and after the blocks: embedders, the modulation that all blocks share, the last projection."""
    channels = f.size("in_channels", span=WIDTH)
    out = f.size("out_channels", default=channels) * f.size("patch_size", default=1) ** 2
    steps = f.size("timestep_guidance_channels", default=256) * hidden + hidden**2
    times = 2 if f.flag("guidance_embeds", default=True) else 1
    return (
        Block(name="latent_embedding", params=channels * hidden),
        Block(name="text_projection", params=f.size("joint_attention_dim") * hidden),
        Block(name="timestep_embedding", params=times * steps),
        Block(name="modulation", params=(6 + 6 + 3) * hidden**2),
        Block(name="latent_projection", params=2 * hidden**2 + hidden * out, stage="last"),
    )


BUILDERS: Mapping[str, Callable[[Fields], ModelSpec]] = {"flux2": flux2}
