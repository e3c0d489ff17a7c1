"""Denoisers of diffusion pipelines, described by the keys of diffusers' config.json.

Read off diffusers 0.42.1's classes (`models/transformers/transformer_*.py`). Where text and image have matrices of
their own and meet in attention, every token passes one of the two sets: the image's count as a layer's work per token,
the text's as weights alone.
"""

from collections.abc import Callable, Mapping
from typing import Final

from planner.model.diffusion_parts import (
    Row,
    block,
    denoiser,
    embedder,
    joint_attention,
    layer,
    text_matrix,
    times,
)
from planner.model.fields import HEADS, LAYERS, Fields
from planner.model.native_size import native_side_px
from planner.model.spec import Block, Latents, Layer, MlpKind, ModelSpec, Part, Split

TIME_CHANNELS: Final = 256
TIME_WIDTH: Final = 4 * TIME_CHANNELS
"""Of Z-Image's embedding of the time step (`TimestepEmbedder.mid_size`)."""
KL_DECODE: Final = 3 * 256
"""Elements per pixel at the fullest moment of `AutoencoderKL.decode`: what was upsampled last, normed, activated."""
KL_ENCODE: Final = 5 * 128
"""The same of `encode`: a residual block at full size, both its sums, and their halves."""
QWEN_DECODE: Final = 1730
"""Of `AutoencoderKLQwenImage.decode`, traced on shape-only tensors at 1024 x 1024 (diffusers 0.42.1, 2026-11-30)."""
QWEN_ENCODE: Final = 967


def _heads(f: Fields) -> tuple[int, int]:
    return f.size("num_attention_heads", span=HEADS), f.size("attention_head_dim")


def _gelu(hidden: int, inner: int, name: str, *, text: bool = False, bias: bool = True) -> list[Row]:
    part, column, row = (Part.OTHER, Split.NONE, Split.NONE) if text else (Part.MLP, Split.COLUMN, Split.ROW)
    return [
        Row(f"{name}.net.0.proj", hidden, inner, part, column, bias),
        Row(f"{name}.net.2", inner, hidden, part, row, bias),
    ]


def _double(
    kind: str,
    hidden: int,
    heads: tuple[int, int],
    *,
    norms: bool = True,
    mods: tuple[str, str] = ("norm1.linear", "norm1_context.linear"),
    feeds: tuple[str, str] = ("ff", "ff_context"),
) -> Layer:
    """Two streams that meet in attention, with matrices for their modulation (Flux, Hunyuan, SD 3, Qwen)."""
    inner = 4 * hidden
    rows = [
        *joint_attention(hidden, hidden, bias=True),
        *_gelu(hidden, inner, feeds[0]),
        *_gelu(hidden, inner, feeds[1], text=True),
        *(text_matrix(name, hidden, 6 * hidden, bias=True) for name in mods),
    ]
    return layer(kind, rows, heads, inner, norm_params=4 * heads[1] if norms else 0)


def _single(kind: str, hidden: int, heads: tuple[int, int]) -> Layer:
    """Attention and feed-forward part side by side (Flux, Hunyuan)."""
    inner = 4 * hidden
    rows = [
        *(
            Row(f"attn.{x}", hidden, hidden, Part.ATTENTION, Split.COLUMN, True)
            for x in ("to_q", "to_k", "to_v")
        ),
        Row("proj_mlp", hidden, inner, Part.MLP, Split.COLUMN, True),
        Row("proj_out", hidden + inner, hidden, Part.MLP, Split.ROW, True),
        text_matrix("norm.linear", hidden, 3 * hidden, bias=True),
    ]
    return layer(kind, rows, heads, inner, norm_params=2 * heads[1])


def flux(f: Fields) -> ModelSpec:
    """FLUX.1: two streams first, then one; each block makes its own modulation."""
    heads = _heads(f)
    hidden = heads[0] * heads[1]
    channels = f.size("in_channels", default=64)
    doubles, singles = f.size("num_layers", span=LAYERS), f.size("num_single_layers", span=LAYERS)
    steps = (2 if f.flag("guidance_embeds", default=False) else 1) * embedder(TIME_CHANNELS, hidden)
    ends = (
        *times(steps + embedder(f.size("pooled_projection_dim", default=768), hidden)),
        block("latent_embedding", channels, hidden),
        block("text_projection", f.size("joint_attention_dim", default=4096), hidden),
        block("latent_projection", hidden, 2 * hidden, stage="last"),
        block("latent_projection", hidden, channels, stage="last"),
    )
    layers = (_double("flux_double", hidden, heads),) * doubles
    layers += (_single("flux_single", hidden, heads),) * singles
    latents = _image(f, channels, f.size("joint_attention_dim", default=4096), 512)
    return denoiser(f, hidden, layers, ends, latents)


def _image(
    f: Fields,
    channels: int,
    text_width: int,
    text_tokens: int,
    *,
    joint: bool = True,
    passes: int = 1,
    decode: int = KL_DECODE,
    encode: int = KL_ENCODE,
) -> Latents:
    """Latents of a picture: 8 pixels a cell, 2 cells a token."""
    return Latents(
        pixels_per_token=16,
        channels=channels,
        text_tokens=f.size("text_tokens", default=text_tokens),
        text_width=text_width,
        joint=joint,
        passes=passes,
        decode_elements_per_pixel=decode,
        encode_elements_per_pixel=encode,
        native_side_px=native_side_px(f),
    )


def _video(
    f: Fields,
    channels: int,
    text_width: int,
    text_tokens: int,
    *,
    joint: bool,
    passes: int = 1,
    pixels: int = 16,
    frames: int = 4,
) -> Latents:
    """Latents of a clip: what its decoder needs is not described."""
    return Latents(
        pixels_per_token=pixels,
        frames_per_token=frames,
        channels=channels,
        text_tokens=f.size("text_tokens", default=text_tokens),
        text_width=text_width,
        joint=joint,
        passes=passes,
    )


def flux2(f: Fields) -> ModelSpec:
    """FLUX.2: joint attention in the first blocks, one stream in the rest, shared modulation, no biases."""
    heads = _heads(f)
    hidden = heads[0] * heads[1]
    inner = int(hidden * f.number("mlp_ratio", span=(0.1, 64.0), default=3.0))
    doubles, singles = f.size("num_layers", span=LAYERS), f.size("num_single_layers", span=LAYERS)
    rows = [
        *joint_attention(hidden, hidden, bias=False),
        Row("ff.linear_in", hidden, 2 * inner, Part.MLP, Split.COLUMN),
        Row("ff.linear_out", inner, hidden, Part.MLP, Split.ROW),
        text_matrix("ff_context.linear_in", hidden, 2 * inner),
        text_matrix("ff_context.linear_out", inner, hidden),
    ]
    double = layer("flux2_double", rows, heads, inner, norm_params=4 * heads[1], kind_of=MlpKind.GATED)
    fused = [
        Row("attn.to_qkv_mlp_proj", hidden, 3 * hidden + 2 * inner, Part.ATTENTION, Split.COLUMN),
        Row("attn.to_out", hidden + inner, hidden, Part.MLP, Split.ROW),
    ]
    single = layer("flux2_single", fused, heads, inner, norm_params=2 * heads[1], kind_of=MlpKind.GATED)
    channels = f.size("in_channels")
    out = f.size("out_channels", default=channels) * f.size("patch_size", default=1) ** 2
    step = f.size("timestep_guidance_channels", default=TIME_CHANNELS) * hidden + hidden**2
    ends = (
        Block(name="latent_embedding", params=channels * hidden),
        Block(name="text_projection", params=f.size("joint_attention_dim") * hidden),
        Block(name="timestep_embedding", params=(2 if f.flag("guidance_embeds", default=True) else 1) * step),
        Block(name="modulation", params=(6 + 6 + 3) * hidden**2),
        Block(name="latent_projection", params=2 * hidden**2 + hidden * out, stage="last"),
    )
    latents = _image(f, channels, f.size("joint_attention_dim"), 512)
    return denoiser(f, hidden, (double,) * doubles + (single,) * singles, ends, latents)


def sd3(f: Fields) -> ModelSpec:
    """Stable Diffusion 3 and 3.5: two streams throughout; the last block makes nothing more of the text."""
    heads = _heads(f)
    hidden = heads[0] * heads[1]
    count = f.size("num_layers", span=LAYERS)
    normed = f.has("qk_norm")
    second = f.sizes("dual_attention_layers", None, span=(0, LAYERS[1])) or ()
    kind = "joint_normed" if normed else "joint"
    plain = _double(kind, hidden, heads, norms=normed)
    twice = _joint_second(hidden, heads)
    last = _joint_last(kind + "_last", hidden, heads, normed=normed)
    layers = (*(twice if index in second else plain for index in range(count - 1)), last)
    channels, patch = f.size("in_channels", default=16), f.size("patch_size", default=2)
    text, pooled = f.size("joint_attention_dim", default=4096), f.size("pooled_projection_dim", default=2048)
    cells = channels * patch**2
    ends = (
        *times(embedder(TIME_CHANNELS, hidden) + embedder(pooled, hidden)),
        block("latent_embedding", cells, hidden),
        block("text_projection", text, hidden),
        block("latent_projection", hidden, 2 * hidden, stage="last"),
        block("latent_projection", hidden, cells, stage="last"),
    )
    return denoiser(f, hidden, layers, ends, _image(f, cells, text, 333, passes=2))


def _joint_second(hidden: int, heads: tuple[int, int]) -> Layer:
    inner = 4 * hidden
    rows = [
        *joint_attention(hidden, hidden, bias=True),
        *(
            Row(f"attn2.{x}", hidden, hidden, Part.ATTENTION, Split.COLUMN, True)
            for x in ("to_q", "to_k", "to_v")
        ),
        Row("attn2.to_out.0", hidden, hidden, Part.ATTENTION, Split.ROW, True),
        *_gelu(hidden, inner, "ff"),
        *_gelu(hidden, inner, "ff_context", text=True),
        text_matrix("norm1.linear", hidden, 9 * hidden, bias=True),
        text_matrix("norm1_context.linear", hidden, 6 * hidden, bias=True),
    ]
    return layer("joint_second", rows, heads, inner, norm_params=6 * heads[1])


def _joint_last(kind: str, hidden: int, heads: tuple[int, int], *, normed: bool) -> Layer:
    inner = 4 * hidden
    rows = [
        *(row for row in joint_attention(hidden, hidden, bias=True) if row.name != "attn.to_add_out"),
        *_gelu(hidden, inner, "ff"),
        text_matrix("norm1.linear", hidden, 6 * hidden, bias=True),
        text_matrix("norm1_context.linear", hidden, 2 * hidden, bias=True),
    ]
    return layer(kind, rows, heads, inner, norm_params=4 * heads[1] if normed else 0)


def qwen_image(f: Fields) -> ModelSpec:
    """Qwen-Image: two streams throughout."""
    heads = _heads(f)
    hidden = heads[0] * heads[1]
    kind = _double(
        "qwen_double", hidden, heads, mods=("img_mod.1", "txt_mod.1"), feeds=("img_mlp", "txt_mlp")
    )
    channels, text = f.size("in_channels", default=64), f.size("joint_attention_dim", default=3584)
    ends = (
        *times(embedder(TIME_CHANNELS, hidden)),
        block("latent_embedding", channels, hidden),
        Block(name="text_projection", params=text * hidden + hidden + text),
        block("latent_projection", hidden, 2 * hidden, stage="last"),
        block("latent_projection", hidden, channels, stage="last"),
    )
    layers = (kind,) * f.size("num_layers", span=LAYERS)
    latents = _image(f, channels, text, 512, decode=QWEN_DECODE, encode=QWEN_ENCODE)
    return denoiser(f, hidden, layers, ends, latents)


def hunyuan_video(f: Fields) -> ModelSpec:
    """HunyuanVideo: Flux's blocks, and a refiner of the text before them."""
    heads = _heads(f)
    hidden = heads[0] * heads[1]
    layers = (_double("hunyuan_double", hidden, heads),) * f.size("num_layers", span=LAYERS)
    layers += (_single("hunyuan_single", hidden, heads),) * f.size("num_single_layers", span=LAYERS)
    cells = f.size("in_channels", default=16) * f.size("patch_size", default=2) ** 2
    text = f.size("text_embed_dim", default=4096)
    refiner = 4 * (hidden + 1) * hidden + 8 * hidden**2 + 5 * hidden + 4 * hidden + 2 * hidden * (hidden + 1)
    ends = (
        *times(
            (2 if f.flag("guidance_embeds", default=False) else 1) * embedder(TIME_CHANNELS, hidden)
            + embedder(f.size("pooled_projection_dim", default=768), hidden)
        ),
        block("latent_embedding", cells, hidden),
        Block(
            name="text_refiner",
            params=embedder(TIME_CHANNELS, hidden)
            + embedder(text, hidden)
            + (text + 1) * hidden
            + f.size("num_refiner_layers", default=2) * refiner,
        ),
        block("latent_projection", hidden, 2 * hidden, stage="last"),
        block("latent_projection", hidden, cells, stage="last"),
    )
    return denoiser(f, hidden, layers, ends, _video(f, cells, text, 256, joint=True))


def _crossed(
    kind: str, hidden: int, inner: int, heads: tuple[int, int], *, feed: str, norms: int, vectors: int
) -> Layer:
    """One stream with attention to itself and to the text, whose keys and values are matrices of the text's tokens."""
    rows: list[Row] = []
    for name in ("attn1", "attn2"):
        keys = Part.ATTENTION if name == "attn1" else Part.OTHER
        rows += [
            Row(f"{name}.to_q", hidden, hidden, Part.ATTENTION, Split.COLUMN, True),
            Row(f"{name}.to_k", hidden, hidden, keys, Split.COLUMN, True),
            Row(f"{name}.to_v", hidden, hidden, keys, Split.COLUMN, True),
            Row(f"{name}.to_out.0", hidden, hidden, Part.ATTENTION, Split.ROW, True),
        ]
    return layer(
        kind, [*rows, *_gelu(hidden, inner, feed)], heads, inner, norm_params=norms, vector_params=vectors
    )


def wan(f: Fields) -> ModelSpec:
    """Wan 2.1: attention of the clip to itself and to the text; scale, shift and gate are a table of each block."""
    heads = _heads(f)
    hidden, inner = heads[0] * heads[1], f.size("ffn_dim")
    cells, text = 4 * f.size("in_channels", default=16), f.size("text_dim", default=4096)
    one = _crossed("wan", hidden, inner, heads, feed="ffn", norms=6 * hidden, vectors=6 * hidden)
    ends = (
        *times(embedder(f.size("freq_dim", default=TIME_CHANNELS), hidden) + (hidden + 1) * 6 * hidden),
        block("latent_embedding", cells, hidden),
        Block(name="text_projection", params=embedder(text, hidden)),
        Block(name="latent_projection", params=2 * hidden + (hidden + 1) * cells, stage="last"),
    )
    layers = (one,) * f.size("num_layers", span=LAYERS)
    return denoiser(f, hidden, layers, ends, _video(f, cells, text, 512, joint=False))


def ltx_video(f: Fields) -> ModelSpec:
    """LTX-Video: the same with norms in single steps, and latents as small as 32 pixels a side."""
    heads = _heads(f)
    hidden = heads[0] * heads[1]
    channels, text = f.size("in_channels", default=128), f.size("caption_channels", default=4096)
    one = _crossed("ltx", hidden, 4 * hidden, heads, feed="ff", norms=4 * hidden, vectors=6 * hidden)
    ends = (
        *times(embedder(TIME_CHANNELS, hidden) + (hidden + 1) * 6 * hidden),
        block("latent_embedding", channels, hidden),
        Block(name="text_projection", params=embedder(text, hidden)),
        Block(name="latent_projection", params=2 * hidden + (hidden + 1) * channels, stage="last"),
    )
    layers = (one,) * f.size("num_layers", span=LAYERS)
    latents = _video(f, channels, text, 128, joint=False, passes=2, pixels=32, frames=8)
    return denoiser(f, hidden, layers, ends, latents)


def cogvideox(f: Fields) -> ModelSpec:
    """CogVideoX: one set of matrices for text and clip, norms of the heads with biases."""
    heads = _heads(f)
    hidden, time = heads[0] * heads[1], f.size("time_embed_dim", default=512)
    inner = 4 * hidden
    rows = [
        *(
            Row(f"attn1.{x}", hidden, hidden, Part.ATTENTION, Split.COLUMN, True)
            for x in ("to_q", "to_k", "to_v")
        ),
        Row("attn1.to_out.0", hidden, hidden, Part.ATTENTION, Split.ROW, True),
        *_gelu(hidden, inner, "ff"),
        *(text_matrix(f"norm{x}.linear", time, 6 * hidden, bias=True) for x in "12"),
    ]
    one = layer("cogvideox", rows, heads, inner, norm_params=4 * hidden + 4 * heads[1])
    cells, text = 4 * f.size("in_channels", default=16), f.size("text_embed_dim", default=4096)
    ends = (
        *times((hidden + 1) * time + (time + 1) * time),
        block("latent_embedding", cells, hidden),
        block("text_projection", text, hidden),
        Block(
            name="latent_projection",
            params=4 * hidden + (time + 1) * 2 * hidden + (hidden + 1) * cells,
            stage="last",
        ),
    )
    layers = (one,) * f.size("num_layers", span=LAYERS)
    return denoiser(f, hidden, layers, ends, _video(f, cells, text, 226, joint=True, passes=2))


def z_image(f: Fields) -> ModelSpec:
    """Z-Image: one stream; two blocks refine the picture alone, two the text alone, before they are put together."""
    hidden, count = f.size("dim"), f.size("n_heads", span=HEADS)
    heads = (count, f.divides("n_heads", count, "dim", hidden))
    inner, small = int(hidden / 3 * 8), min(hidden, TIME_CHANNELS)
    rows = [
        *(
            Row(f"attention.{x}", hidden, hidden, Part.ATTENTION, Split.COLUMN)
            for x in ("to_q", "to_k", "to_v")
        ),
        Row("attention.to_out.0", hidden, hidden, Part.ATTENTION, Split.ROW),
        Row("feed_forward.w1", hidden, inner, Part.MLP, Split.COLUMN),
        Row("feed_forward.w3", hidden, inner, Part.MLP, Split.COLUMN),
        Row("feed_forward.w2", inner, hidden, Part.MLP, Split.ROW),
    ]
    norms = 4 * hidden + 2 * heads[1]
    modulation = text_matrix("adaLN_modulation.0", small, 4 * hidden, bias=True)
    one = layer("z_image", [*rows, modulation], heads, inner, norm_params=norms, kind_of=MlpKind.GATED)
    refined = f.size("n_refiner_layers", span=LAYERS, default=2)
    text, channels = f.size("cap_feat_dim", default=2560), 4 * f.size("in_channels", default=16)
    text_rows = [text_matrix(f"context.{row.name}", row.columns, row.rows) for row in rows]
    both = layer(
        "z_image", [*rows, *text_rows, modulation], heads, inner, norm_params=2 * norms, kind_of=MlpKind.GATED
    )
    ends = (
        *times((TIME_CHANNELS + 1) * TIME_WIDTH + (TIME_WIDTH + 1) * small),
        block("latent_embedding", channels, hidden),
        Block(name="text_projection", params=text + (text + 1) * hidden + 2 * hidden),
        Block(
            name="latent_projection",
            params=(small + 1) * hidden + (hidden + 1) * channels,
            stage="last",
        ),
    )
    layers = (both,) * refined + (one,) * f.size("n_layers", span=LAYERS)
    return denoiser(f, hidden, layers, ends, _image(f, channels, text, 512))


BUILDERS: Mapping[str, Callable[[Fields], ModelSpec]] = {
    "flux": flux,
    "flux2": flux2,
    "sd3": sd3,
    "qwen_image": qwen_image,
    "hunyuan_video": hunyuan_video,
    "wan": wan,
    "ltx_video": ltx_video,
    "cogvideox": cogvideox,
    "z_image": z_image,
}
