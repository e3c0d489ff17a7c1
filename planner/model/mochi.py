"""Mochi, described by the keys of diffusers' config.json: two streams of different widths that meet in attention.

Read off diffusers 0.42.1's `models/transformers/transformer_mochi.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from planner.model.diffusion_parts import Row, block, denoiser, embedder, layer, text_matrix, times
from planner.model.fields import HEADS, LAYERS, Fields
from planner.model.spec import Block, Latents, Layer, Linear, MlpKind, ModelSpec, Part, Split

FRAMES: Final = 6
"""Frames that one cell of the latents stands for (`AutoencoderKLMochi`)."""


def mochi(f: Fields) -> ModelSpec:
    """Mochi: the last block makes nothing more of the text."""
    heads = f.size("num_attention_heads", span=HEADS, default=24), f.size("attention_head_dim", default=128)
    hidden, stream = heads[0] * heads[1], f.size("pooled_projection_dim", default=1536)
    if f.has("qk_norm"):
        f.text("qk_norm", allowed=("rms_norm",))
    f.text("activation_fn", default="swiglu", allowed=("swiglu",))
    count, patch = f.size("num_layers", span=LAYERS, default=48), f.size("patch_size", default=2)
    text, channels = f.size("text_embed_dim", default=4096), f.size("in_channels", default=12)
    time = f.size("time_embed_dim", default=256)
    whole, last = _block(hidden, stream, heads), _block(hidden, stream, heads, last=True)
    cells = channels * patch**2
    ends = (
        *times(embedder(time, hidden)),
        block("latent_embedding", cells, hidden),
        block("text_projection", text, stream),
        Block(name="rotary_frequencies", params=3 * heads[0] * (heads[1] // 2)),
        block("latent_projection", hidden, 2 * hidden, stage="last"),
        block("latent_projection", hidden, f.size("out_channels", default=channels) * patch**2, stage="last"),
    )
    latents = Latents(
        pixels_per_token=8 * patch,
        frames_per_token=FRAMES,
        channels=cells,
        text_tokens=f.size("text_tokens", default=f.size("max_sequence_length", default=256)),
        text_width=text,
        joint=True,
        passes=2,
    )
    spec = denoiser(f, hidden, (whole,) * (count - 1) + (last,), ends, latents)
    return replace(spec, blocks=(*spec.blocks, _pooling(text, hidden)))


def _pooling(text: int, hidden: int) -> Block:
    """The text's mean as a query of its tokens (`MochiAttentionPool`); adapters named `to_q` are put on it as well."""
    sizes = {"to_kv": 2 * text, "to_q": text, "to_out": hidden}
    linears = tuple(
        Linear(name=name, in_features=text, out_features=rows, bias_features=rows, part=Part.OTHER)
        for name, rows in sizes.items()
    )
    return Block(name="text_pooling", params=sum(linear.params for linear in linears), linears=linears)


def _block(hidden: int, stream: int, heads: tuple[int, int], *, last: bool = False) -> Layer:
    inner, text_inner = 4 * hidden * 2 // 3, 4 * stream * 2 // 3
    rows = [
        *(Row(f"attn1.{x}", hidden, hidden, Part.ATTENTION, Split.COLUMN) for x in ("to_q", "to_k", "to_v")),
        Row("attn1.to_out.0", hidden, hidden, Part.ATTENTION, Split.ROW, True),
        *(text_matrix(f"attn1.{x}", stream, hidden) for x in ("add_q_proj", "add_k_proj", "add_v_proj")),
        Row("ff.net.0.proj", hidden, 2 * inner, Part.MLP, Split.COLUMN),
        Row("ff.net.2", inner, hidden, Part.MLP, Split.ROW),
        text_matrix("norm1.linear", hidden, 4 * hidden, bias=True),
    ]
    if last:
        rows.append(text_matrix("norm1_context.linear_1", hidden, stream, bias=True))
        return layer("mochi_last", rows, heads, inner, norm_params=4 * heads[1], kind_of=MlpKind.GATED)
    rows += [
        text_matrix("attn1.to_add_out", hidden, stream, bias=True),
        text_matrix("ff_context.net.0.proj", stream, 2 * text_inner),
        text_matrix("ff_context.net.2", text_inner, stream),
        text_matrix("norm1_context.linear", hidden, 4 * stream, bias=True),
    ]
    return layer("mochi", rows, heads, inner, norm_params=4 * heads[1], kind_of=MlpKind.GATED)


BUILDERS: Mapping[str, Callable[[Fields], ModelSpec]] = {"mochi": mochi}
