"""Vision towers as a training step sees them: an encoder's layers, patches, and what joins them to the text.

Source: the modeling files of transformers 5.24. Parameters are counted in `planner.model.vision`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isqrt

from planner.model.decoder import grouped
from planner.model.encoders import IMAGE, encoder_layer
from planner.model.errors import UnknownArchitecture
from planner.model.fields import HEADS, LAYERS, Fields
from planner.model.parts import AttentionNames, Feed, Mixer, MlpNames, attention_matrices, dense_feed, join
from planner.model.spec import Layer, ModelSpec, Structure
from planner.model.vision import MERGE

_FC = MlpNames(up="fc1", down="fc2")
_QKV = AttentionNames(fused="qkv", output="proj")
_LINEAR_FC = MlpNames(up="linear_fc1", down="linear_fc2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Projector:
    """What joins a tower to the language model, in widths per token of a picture.

    Attributes:
        reads: Inputs of the first matrix.
        middle: Inputs of the second one, behind an activation; 0 where there is none.
        merged: Inputs of a matrix before both; 0 where there is none.
        norm: `rms_norm`, `layer_norm` or "".
        normed: Elements that the norm reads.
        rows: Rows of that norm.
        pooled: Elements that are averaged before.
        out: Outputs: the language model's width.
        taps: Further mergers of the same widths, whose outputs are added behind the first text layers (DeepStack).
    """

    reads: int
    out: int
    middle: int = 0
    merged: int = 0
    norm: str = ""
    normed: int = 0
    rows: int = 1
    pooled: int = 0
    taps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A vision tower.

    Attributes:
        encoder: Its layers, described as an encoder's.
        projector: What follows it.
        patch_size: Pixels along a side of a patch.
        channels: Colours.
        frames: Copies of a picture that a patch holds (Qwen takes two frames of a film).
        image_size: Pixels along a side of every picture; 0 where pictures may have any size.
        side: Patches along a side of what becomes one token.
        class_tokens: Tokens in front of a picture's patches.
        norms_before: Norms of all patches before the layers.
        norms_behind: Norms of all patches behind them.
        window_patches: Patches that see each other in most layers; 0 where all do.
        full_layers: Layers without that window.
        unused_layers: Last layers whose output is not read (LLaVA's `vision_feature_layer`).
        masks_text: Tokens of one picture see each other in the language model, which takes a mask.
        one_row: Pictures lie one after the other in one row, each attending to itself.
        whole_pictures: Pictures are given whole, not as patches.
        masked: The attention takes a mask of scores.
        interpolates: Learned positions are interpolated for each picture.
        reorders: Patches are put in the order of their windows, and back.
    """

    encoder: ModelSpec
    projector: Projector
    patch_size: int
    channels: int = 3
    frames: int = 1
    image_size: int = 0
    side: int = 1
    class_tokens: int = 0
    norms_before: int = 0
    norms_behind: int = 0
    window_patches: int = 0
    full_layers: int = 0
    unused_layers: int = 0
    masks_text: bool = False
    one_row: bool = False
    whole_pictures: bool = False
    masked: bool = False
    interpolates: bool = False
    reorders: bool = False

    @property
    def fixed(self) -> bool:
        """Whether every picture has the tower's own size."""
        return self.image_size > 0

    def patches(self, pixels: int | None) -> int:
        """Patches of a picture of so many pixels (width x height); the tower's own size if it has one."""
        if self.fixed:
            return int(self.image_size // self.patch_size) ** 2
        unit = self.side**2
        return max(1, (pixels or 0) // (self.patch_size**2 * unit)) * unit

    def sequence(self, pixels: int | None) -> int:
        """Tokens of a picture inside the tower."""
        return self.patches(pixels) + self.class_tokens

    def tokens(self, pixels: int | None) -> int:
        """Tokens of a picture in the language model."""
        return max(1, self.patches(pixels) // self.side**2)


def _encoder(v: Fields, layer: Layer, count: int, *, norm: str, act: str, positions: str) -> ModelSpec:
    return ModelSpec(
        model_type=v.model_type,
        structure=Structure.ENCODER,
        hidden_size=layer.linears[0].in_features,
        vocab_size=0,
        layers=(layer,) * count,
        embedding_params=0,
        norm=norm,
        hidden_act=act,
        position_embedding=positions,
    )


def _vit(v: Fields, act: str) -> ModelSpec:
    hidden, heads = v.size("hidden_size"), v.size("num_attention_heads", span=HEADS)
    v.divides("num_attention_heads", heads, "hidden_size", hidden)
    layer = encoder_layer(hidden, heads, v.size("intermediate_size"))
    count = v.size("num_hidden_layers", span=LAYERS)
    shown = v.text("hidden_act", default=act)
    return _encoder(v, layer, count, norm="layer_norm", act=shown, positions="none")


def _own_size(v: Fields) -> tuple[int, int]:
    patch, image = v.size("patch_size", span=IMAGE), v.size("image_size", span=IMAGE)
    return patch, image


def _unused(f: Fields, layers: int) -> int:
    """Layers behind the one whose output is taken; lists of layers take the last of them."""
    found = f.config.get("vision_feature_layer", -2)
    index = found if type(found) is int else -1
    return max(0, min(layers - 1, -1 - index if index < 0 else layers - index))


def _llava(f: Fields, encoder: ModelSpec, text_width: int) -> tuple[int, Projector]:
    return _unused(f, encoder.num_layers), Projector(
        reads=encoder.hidden_size, middle=text_width, out=text_width
    )


def clip(f: Fields, v: Fields, text_width: int) -> Tower:
    """CLIP below LLaVA: a class token, a norm before the layers."""
    encoder = _vit(v, "quick_gelu")
    patch, image = _own_size(v)
    unused, projector = _llava(f, encoder, text_width)
    return Tower(
        encoder=encoder, projector=projector, patch_size=patch, image_size=image,
        class_tokens=1, norms_before=1, unused_layers=unused,
    )  # fmt: skip


def siglip(f: Fields, v: Fields, text_width: int) -> Tower:
    """SigLIP: averaged below Gemma 3, as it is below PaliGemma, with two matrices below LLaVA."""
    encoder = _vit(v, "gelu_pytorch_tanh")
    patch, image = _own_size(v)
    hidden, pooled, side = encoder.hidden_size, 0, 1
    unused, projector = 0, Projector(reads=hidden, out=text_width)
    if f.model_type == "gemma3":
        tokens = f.size("mm_tokens_per_image", default=256)
        side = max(1, image // patch // max(1, isqrt(tokens)))
        pooled = side * side * hidden
        projector = Projector(reads=hidden, out=text_width, norm="rms_norm", normed=hidden, pooled=pooled)
    elif f.model_type.startswith("llava"):
        unused, projector = _llava(f, encoder, text_width)
    return Tower(
        encoder=encoder, projector=projector, patch_size=patch, image_size=image, side=side,
        norms_behind=int(not unused and f.model_type not in {"llava", "llava_next", "llava_onevision"}),
        unused_layers=unused, masks_text=f.model_type in {"gemma3", "paligemma"},
    )  # fmt: skip


def idefics3(f: Fields, v: Fields, text_width: int) -> Tower:
    """Idefics3 and SmolVLM: SigLIP, then one matrix on patches put together."""
    encoder = _vit(v, "gelu_pytorch_tanh")
    patch, image = _own_size(v)
    scale = f.size("scale_factor", span=MERGE, default=2)
    return Tower(
        encoder=encoder,
        projector=Projector(reads=encoder.hidden_size * scale * scale, out=text_width),
        patch_size=patch, image_size=image, side=scale, norms_behind=1,
    )  # fmt: skip


def pixtral(f: Fields, v: Fields, text_width: int) -> Tower:
    """Pixtral below Mistral 3 (a merger of neighbours) or LLaVA."""
    hidden, width = v.size("hidden_size"), v.size("intermediate_size")
    heads = v.size("num_attention_heads", span=HEADS)
    shape = grouped(heads, heads, v.size("head_dim", default=hidden // heads))
    mixer = Mixer(shape=shape, linears=attention_matrices(hidden, shape, AttentionNames()))
    layer = join(mixer, dense_feed(hidden, width), 2 * hidden)
    count = v.size("num_hidden_layers", span=LAYERS)
    act = v.text("hidden_act", default="gelu")
    encoder = _encoder(v, layer, count, norm="rms_norm", act=act, positions="rope")
    side = f.size("spatial_merge_size", span=MERGE, default=2) if f.model_type != "llava" else 1
    projector = Projector(reads=hidden, middle=text_width, out=text_width)
    if side > 1:
        merged = hidden * side * side
        projector = replace(projector, merged=merged, norm="rms_norm", normed=merged, rows=side * side)
    unused = 0 if f.config.get("vision_feature_layer", -1) == -1 else _unused(f, count)
    return Tower(
        encoder=encoder, projector=projector, patch_size=v.size("patch_size", span=IMAGE), side=side,
        norms_before=1, unused_layers=unused, one_row=True, whole_pictures=True, masked=True,
    )  # fmt: skip


def _qwen(
    v: Fields, *, hidden: int, width: int, out: int, gated: bool, norm: str, names: MlpNames, act: str
) -> Tower:
    """What Qwen's towers have in common: one matrix for query, key and value, rotary positions, merged patches."""
    heads = v.size("num_heads", span=HEADS)
    v.divides("num_heads", heads, "hidden_size", hidden)
    shape = grouped(heads, heads, hidden // heads)
    linears = attention_matrices(hidden, shape, _QKV, qkv_bias=True, output_bias=True)
    feed: Feed = dense_feed(hidden, width, names, gated=gated, bias=True)
    each = 2 if norm == "layer_norm" else 1
    layer = join(Mixer(shape=shape, linears=linears), feed, 2 * each * hidden)
    encoder = _encoder(
        v,
        layer,
        v.size("depth", span=LAYERS),
        norm=norm,
        act=v.text("hidden_act", default=act),
        positions="rope",
    )
    side = v.size("spatial_merge_size", span=MERGE, default=2)
    merged = hidden * side * side
    return Tower(
        encoder=encoder,
        projector=Projector(reads=merged, middle=merged, out=out, norm=norm, normed=merged, rows=side * side),
        patch_size=v.size("patch_size", span=IMAGE),
        channels=v.size("in_channels", "in_chans", "num_channels", span=IMAGE, default=3),
        frames=v.size("temporal_patch_size", span=IMAGE, default=2),
        side=side,
        one_row=True,
    )


def qwen2_vl(f: Fields, v: Fields, text_width: int) -> Tower:
    """Qwen2-VL."""
    del f
    hidden = v.size("embed_dim")
    width = int(hidden * v.number("mlp_ratio", span=(0.1, 64.0), default=4.0))
    return _qwen(
        v,
        hidden=hidden,
        width=width,
        out=text_width,
        gated=False,
        norm="layer_norm",
        names=_FC,
        act="quick_gelu",
    )


def qwen2_5_vl(f: Fields, v: Fields, text_width: int) -> Tower:
    """Qwen2.5-VL: most layers attend inside windows."""
    del f
    tower = _qwen(
        v, hidden=v.size("hidden_size"), width=v.size("intermediate_size"), out=text_width, gated=True,
        norm="rms_norm", names=MlpNames(), act="silu",
    )  # fmt: skip
    window = v.size("window_size", default=112) // tower.patch_size
    full = v.sizes("fullatt_block_indexes", None, span=(0, LAYERS[1])) or (7, 15, 23, 31)
    count = sum(index < tower.encoder.num_layers for index in full)
    return replace(tower, window_patches=window * window, full_layers=count, reorders=True)


def qwen3_vl(f: Fields, v: Fields, text_width: int) -> Tower:
    """Qwen3-VL and Qwen3.5: learned positions, and a merger for each layer that is tapped."""
    del f
    tower = _qwen(
        v, hidden=v.size("hidden_size"), width=v.size("intermediate_size"), out=text_width, gated=False,
        norm="layer_norm", names=_LINEAR_FC, act="gelu_pytorch_tanh",
    )  # fmt: skip
    taps = len(v.sizes("deepstack_visual_indexes", None, span=(0, LAYERS[1])) or ())
    return replace(tower, projector=replace(tower.projector, taps=taps), interpolates=True)


BUILDERS: dict[str, Callable[[Fields, Fields, int], Tower]] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "idefics3_vision": idefics3,
    "pixtral": pixtral,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_5": qwen3_vl,
    "qwen3_5_moe": qwen3_vl,
}
"""Towers whose activations are described, by the name that `planner.model.vision.TOWERS` has for them."""


def tower_of(name: str, f: Fields, v: Fields, text_width: int) -> Tower | None:
    """The tower of that name; None where it is not described, or its config lacks what a description needs."""
    build = BUILDERS.get(name)
    if build is None:
        return None
    try:
        tower = build(f, v, text_width)
    except UnknownArchitecture:
        return None
    return replace(tower, encoder=replace(tower.encoder, model_type=f"{name}_tower"))
