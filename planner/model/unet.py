"""U-Nets of latent diffusion (Stable Diffusion 1, 2, XL), described by the keys of diffusers' config.json.

Read off diffusers 0.42.1's `models/unets/unet_2d_condition.py` and `unet_2d_blocks.py`. A convolution of k x k cells is
a matrix with k*k times its input channels as columns: so much its weights, its adapter and its products come to.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NoReturn

from planner.model.decoder import grouped
from planner.model.diffusion_parts import Row, block, layer, merged
from planner.model.fields import HEADS, Fields
from planner.model.native_size import native_side_px
from planner.model.spec import (
    Attention,
    AttentionKind,
    Block,
    Latents,
    Layer,
    Mlp,
    MlpKind,
    ModelSpec,
    Part,
    Split,
    Structure,
)
from planner.model.unet_shape import UnetShape

CLASS: Final = "UNet2DConditionModel"
DOWN: Final = ("CrossAttnDownBlock2D", "DownBlock2D")
UP: Final = ("CrossAttnUpBlock2D", "UpBlock2D")
MIDDLE: Final = "UNetMidBlock2DCrossAttn"
TEXT_TIME: Final = "text_time"
RESOLUTIONS: Final = (1, 6)
RESNETS: Final = (1, 16)
DEPTHS: Final = (1, 64)
MOST_BLOCKS: Final = 500
"""Transformer blocks in all; SDXL has 70. Every one is written down operation by operation."""
TEXT_TOKENS: Final = 77
"""Of CLIP."""
ABSENT: Final = (
    "encoder_hid_dim",
    "encoder_hid_dim_type",
    "class_embed_type",
    "num_class_embeds",
    "cross_attention_norm",
    "time_embedding_act_fn",
    "timestep_post_act",
    "reverse_transformer_layers_per_block",
    "num_attention_heads",
)
"""Keys that add parts which are not described."""
NOT_SET: Final = (
    "dual_cross_attention",
    "resnet_skip_time_act",
    "class_embeddings_concat",
    "mid_block_only_cross_attention",
)
FIXED: Final[Mapping[str, str]] = {
    "resnet_time_scale_shift": "default",
    "time_embedding_type": "positional",
    "attention_type": "default",
    "mid_block_type": MIDDLE,
}
ONE_VALUE: Final[Mapping[str, int]] = {"conv_in_kernel": 3, "conv_out_kernel": 3}


def unet(f: Fields) -> ModelSpec:
    """A U-Net that sees the text by cross-attention."""
    _check(f)
    shape = _shape(f)
    time = f.size("time_embedding_dim", default=4 * shape.channels[0])
    layers = tuple(_shared(_layers(shape, time)))
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.DENOISER,
        hidden_size=shape.channels[0],
        vocab_size=0,
        layers=layers,
        embedding_params=0,
        blocks=merged(tuple(_ends(f, shape, time))),
        norm="layer_norm",
        hidden_act="silu",
        position_embedding="none",
        latents=Latents(
            pixels_per_token=8,
            channels=shape.in_channels,
            text_tokens=f.size("text_tokens", default=TEXT_TOKENS),
            text_width=shape.text_widths[-1],
            joint=False,
            passes=2,
            decode_elements_per_pixel=3 * 256,
            encode_elements_per_pixel=5 * 128,
            wide_vae=f.has("addition_embed_type"),
            native_side_px=native_side_px(f),
        ),
        unet=shape,
    )


def _check(f: Fields) -> None:
    for key in ABSENT:
        if f.has(key):
            _refuse(f, key, "null")
    for key in NOT_SET:
        if f.flag(key, default=False):
            _refuse(f, key, "false")
    for key, only in FIXED.items():
        f.text(key, default=only, allowed=(only,))
    for key, number in ONE_VALUE.items():
        f.size(key, default=number, span=(number, number))
    if f.has("addition_embed_type"):
        f.text("addition_embed_type", allowed=(TEXT_TIME,))
    crossed = f.config.get("only_cross_attention")
    if crossed not in (None, False) and not (isinstance(crossed, list) and not any(crossed)):
        _refuse(f, "only_cross_attention", "false")


def _refuse(f: Fields, key: str, allowed: str) -> NoReturn:
    f.refuse(key, f.config.get(key), allowed)


def _shape(f: Fields) -> UnetShape:
    channels = f.sizes("block_out_channels", None) or (320, 640, 1280, 1280)
    count = len(channels)
    if not RESOLUTIONS[0] <= count <= RESOLUTIONS[1]:
        _refuse(f, "block_out_channels", f"{RESOLUTIONS[0]}..{RESOLUTIONS[1]} items")
    down = f.texts("down_block_types", count, DOWN) or ((DOWN[0],) * 3 + (DOWN[1],))
    up = f.texts("up_block_types", count, UP) or ((UP[1],) + (UP[0],) * 3)
    if len(down) != count or len(up) != count:
        _refuse(f, "block_out_channels", "as many items as down_block_types")
    depths = _each(f, "transformer_layers_per_block", count, 1, DEPTHS)
    heads = _each(f, "attention_head_dim", count, 8, HEADS)
    attends = [name == DOWN[0] for name in down]
    for index, number in enumerate(heads):
        if channels[index] % number:
            f.refuse("attention_head_dim", number, f"a divisor of {channels[index]} (block_out_channels)")
    resnets = _each(f, "layers_per_block", count, 2, RESNETS)
    if sum((2 * n + 1) * depth for n, depth in zip(resnets, depths, strict=True)) > MOST_BLOCKS:
        _refuse(f, "transformer_layers_per_block", f"{MOST_BLOCKS} blocks in all, down and up")
    return UnetShape(
        channels=channels,
        resnets=resnets,
        down_depths=tuple(depth if yes else 0 for depth, yes in zip(depths, attends, strict=True)),
        up_depths=tuple(
            depth if name == UP[0] else 0 for depth, name in zip(reversed(depths), up, strict=True)
        ),
        middle_depth=depths[-1],
        heads=heads,
        text_widths=_each(f, "cross_attention_dim", count, 1280, (1, 1_000_000)),
        in_channels=f.size("in_channels", default=4),
        out_channels=f.size("out_channels", default=4),
        linear_projection=f.flag("use_linear_projection", default=False),
        upcasts=f.flag("upcast_attention", default=False),
    )


def _each(f: Fields, key: str, count: int, default: int, span: tuple[int, int]) -> tuple[int, ...]:
    """A number for every resolution, or one for all."""
    if isinstance(f.config.get(key), list):
        return f.sizes(key, count, span) or (default,) * count
    return (f.size(key, default=default, span=span),) * count


def _shared(layers: Iterator[Layer]) -> Iterator[Layer]:
    """Equal layers as one object."""
    known: dict[Layer, Layer] = {}
    for one in layers:
        yield known.setdefault(one, one)


def _layers(shape: UnetShape, time: int) -> Iterator[Layer]:
    """Every residual block, attention and change of size, in the order in which they run."""
    coarsest, before = shape.levels - 1, shape.channels[0]
    for level, out in enumerate(shape.channels):
        for _ in range(shape.resnets[level]):
            yield _resnet(before, out, time, level)
            before = out
            yield from _attention(shape, level, shape.down_depths[level])
        if level < coarsest:
            yield _resampled("unet_down", out, level + 1)
    yield _resnet(before, before, time, coarsest)
    yield from _attention(shape, coarsest, shape.middle_depth)
    yield _resnet(before, before, time, coarsest)
    for level, depth, comes in shape.up():
        for channels in comes:
            yield _resnet(channels, shape.channels[level], time, level)
            yield from _attention(shape, level, depth)
        if level:
            yield _resampled("unet_up", shape.channels[level], level - 1)


def convolution(name: str, columns: int, rows: int, cells: int = 9) -> Row:
    """A convolution of `cells` cells."""
    return Row(name, cells * columns, rows, Part.OTHER, Split.NONE, True)


CONVOLUTIONS: Final = frozenset({"conv", "conv1", "conv2", "conv_shortcut"})


def _at(level: int, made: Layer, *, more: frozenset[str] = frozenset()) -> Layer:
    """The layer at its resolution, its convolutions marked: what packs or adapts linear layers leaves them alone."""
    fixed = tuple(
        replace(x, quantizable=False, convolution=True) if x.name in CONVOLUTIONS | more else x
        for x in made.linears
    )
    return replace(made, linears=fixed, halvings=level)


def _without_tokens(program: str, rows: list[Row], norms: int) -> Layer:
    none = Attention(kind=AttentionKind.NONE)
    made = layer(program, rows, (1, 1), 0, norm_params=norms)
    return replace(made, attention=none, mlp=Mlp(kind=MlpKind.NONE, gated=False))


def _resnet(before: int, out: int, time: int, level: int) -> Layer:
    rows = [
        convolution("conv1", before, out),
        convolution("conv2", out, out),
        Row("time_emb_proj", time, out, Part.OTHER, Split.NONE, True),
        *([convolution("conv_shortcut", before, out, 1)] if before != out else []),
    ]
    return _at(level, _without_tokens("unet_resnet", rows, 2 * before + 2 * out))


def _resampled(program: str, channels: int, level: int) -> Layer:
    return _at(level, _without_tokens(program, [convolution("conv", channels, channels)], 0))


def _attention(shape: UnetShape, level: int, depth: int) -> Iterator[Layer]:
    """Transformer blocks between two projections."""
    if not depth:
        return
    h = shape.channels[level]
    ends = ("proj_in", "proj_out")
    rows = [Row(name, h, h, Part.ATTENTION, Split.NONE, True) for name in ends]
    convolutions = frozenset() if shape.linear_projection else frozenset(ends)
    yield _at(level, _without_tokens("unet_projections", rows, 2 * h), more=convolutions)
    for _ in range(depth):
        yield _at(level, _transformer(h, shape.heads[level], shape.text_widths[level]))


def _transformer(h: int, heads: int, text: int) -> Layer:
    inner = 4 * h
    rows = [
        *(Row(f"attn1.{x}", h, h, Part.ATTENTION, Split.COLUMN) for x in ("to_q", "to_k", "to_v")),
        Row("attn1.to_out.0", h, h, Part.ATTENTION, Split.ROW, True),
        Row("attn2.to_q", h, h, Part.ATTENTION, Split.COLUMN),
        *(Row(f"attn2.{x}", text, h, Part.OTHER, Split.COLUMN) for x in ("to_k", "to_v")),
        Row("attn2.to_out.0", h, h, Part.ATTENTION, Split.ROW, True),
        Row("ff.net.0.proj", h, 2 * inner, Part.MLP, Split.COLUMN, True),
        Row("ff.net.2", inner, h, Part.MLP, Split.ROW, True),
    ]
    made = layer(
        "unet_transformer", rows, (heads, h // heads), inner, norm_params=6 * h, kind_of=MlpKind.GATED
    )
    return replace(made, attention=grouped(heads, heads, h // heads))


def _ends(f: Fields, shape: UnetShape, time: int) -> Iterator[Block]:
    first = shape.channels[0]
    yield Block(name="timestep_embedding", params=(first + 1) * time + (time + 1) * time)
    if f.has("time_cond_proj_dim"):
        yield Block(name="timestep_embedding", params=f.size("time_cond_proj_dim") * first)
    if f.has("addition_embed_type"):
        given = f.size("projection_class_embeddings_input_dim")
        f.size("addition_time_embed_dim")
        yield Block(name="timestep_embedding", params=(given + 1) * time + (time + 1) * time)
    yield block("latent_embedding", 9 * shape.in_channels, first)
    norms = 2 * first if f.config.get("norm_num_groups", 32) is not None else 0
    yield Block(name="latent_projection", params=norms + (9 * first + 1) * shape.out_channels, stage="last")


BUILDERS: Mapping[str, Callable[[Fields], ModelSpec]] = {"unet_2d_condition": unet}
