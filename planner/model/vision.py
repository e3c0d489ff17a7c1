"""Parameters of vision towers and of the projectors behind them, in closed form.

Source: the modeling files of transformers 5.24; for MoonViT, `modeling_kimi_vl.py` in the model's repository.
"""

from collections.abc import Callable

from planner.model.encoders import IMAGE, patch_params, patches
from planner.model.fields import HEADS, LAYERS, WIDTH, Fields

MERGE = (1, 64)


def vit_layer(hidden: int, width: int) -> int:
    """A layer with biases everywhere and two layer norms."""
    return 4 * (hidden * hidden + hidden) + 2 * hidden * width + width + hidden + 4 * hidden


def _vit_layers(v: Fields) -> tuple[int, int]:
    hidden, width = v.size("hidden_size"), v.size("intermediate_size")
    return hidden, v.size("num_hidden_layers", span=LAYERS) * vit_layer(hidden, width)


def siglip(v: Fields) -> int:
    """SigLIP: a pooling head with one query, unless `vision_use_head` is false."""
    hidden, layers = _vit_layers(v)
    width = v.size("intermediate_size")
    pooling = 0
    if v.flag("vision_use_head", default=True):
        pooling = hidden + vit_layer(hidden, width) - 2 * hidden
    return patch_params(v, hidden, bias=True) + patches(v) * hidden + layers + 2 * hidden + pooling


def idefics3(v: Fields) -> int:
    """Idefics3 and SmolVLM: SigLIP without its pooling head."""
    hidden, layers = _vit_layers(v)
    return patch_params(v, hidden, bias=True) + patches(v) * hidden + layers + 2 * hidden


def clip(v: Fields) -> int:
    """CLIP: a class token and norms before and after."""
    hidden, layers = _vit_layers(v)
    return patch_params(v, hidden, bias=False) + (patches(v) + 2) * hidden + layers + 4 * hidden


def pixtral(v: Fields) -> int:
    """Pixtral: gated, rotary, no biases."""
    hidden, width = v.size("hidden_size"), v.size("intermediate_size")
    heads = v.size("num_attention_heads", span=HEADS)
    inner = heads * v.size("head_dim", default=hidden // heads)
    layer = 4 * hidden * inner + 3 * hidden * width + 2 * hidden
    return patch_params(v, hidden, bias=False) + hidden + v.size("num_hidden_layers", span=LAYERS) * layer


def moonvit(v: Fields) -> int:
    """MoonViT of Kimi-VL: a fixed grid of positions that is interpolated."""
    hidden, layers = _vit_layers(v)
    grid = v.size("init_pos_emb_height", span=IMAGE) * v.size("init_pos_emb_width", span=IMAGE)
    return patch_params(v, hidden, bias=True) + grid * hidden + layers + 2 * hidden


def kimi_k25(v: Fields) -> int:
    """The tower of Kimi K2.5: MoonViT under other keys; its positions in time are fixed."""
    hidden, width = (
        v.size("vt_hidden_size", "hidden_size"),
        v.size("vt_intermediate_size", "intermediate_size"),
    )
    count = v.size("vt_num_hidden_layers", "num_hidden_layers", span=LAYERS)
    rows = v.size("init_pos_emb_height", "pos_emb_height", span=IMAGE)
    grid = rows * v.size("init_pos_emb_width", "pos_emb_width", span=IMAGE)
    return patch_params(v, hidden, bias=True) + grid * hidden + count * vit_layer(hidden, width) + 2 * hidden


def llama4(v: Fields) -> int:
    """Llama 4: CLIP-like, then an MLP on shuffled pixels."""
    hidden, layers = _vit_layers(v)
    width, out = v.size("intermediate_size"), v.size("projector_output_dim")
    adapter = width * v.size("projector_input_dim") + out * out
    return patch_params(v, hidden, bias=False) + (patches(v) + 2) * hidden + layers + 4 * hidden + adapter


def _video_patch(v: Fields, hidden: int, *, bias: bool) -> int:
    channels = v.size("in_channels", "in_chans", "num_channels", span=IMAGE, default=3)
    frames, patch = v.size("temporal_patch_size", span=IMAGE, default=2), v.size("patch_size", span=IMAGE)
    return hidden * channels * frames * patch * patch + (hidden if bias else 0)


def _merged(v: Fields, hidden: int) -> int:
    merge = v.size("spatial_merge_size", span=MERGE)
    return hidden * merge * merge


def qwen2_vl(v: Fields) -> int:
    """Qwen2-VL: `embed_dim` is the tower's width, `hidden_size` the language model's."""
    hidden, out = v.size("embed_dim"), v.size("hidden_size")
    width = int(hidden * v.number("mlp_ratio", span=(0.1, 64.0), default=4.0))
    merged = _merged(v, hidden)
    merger = 2 * hidden + merged * merged + merged + merged * out + out
    layers = v.size("depth", span=LAYERS) * vit_layer(hidden, width)
    return _video_patch(v, hidden, bias=False) + layers + merger


def qwen2_5_vl(v: Fields) -> int:
    """Qwen2.5-VL: gated MLPs with biases, RMS norms."""
    hidden, width, out = v.size("hidden_size"), v.size("intermediate_size"), v.size("out_hidden_size")
    merged = _merged(v, hidden)
    merger = hidden + merged * merged + merged + merged * out + out
    attention = 4 * hidden * hidden + 4 * hidden
    layer = attention + 3 * hidden * width + 2 * width + hidden + 2 * hidden
    return _video_patch(v, hidden, bias=False) + v.size("depth", span=LAYERS) * layer + merger


def qwen3_vl(v: Fields) -> int:
    """Qwen3-VL and Qwen3.5: learned positions; a further merger for each layer that is tapped (DeepStack)."""
    hidden, width, out = v.size("hidden_size"), v.size("intermediate_size"), v.size("out_hidden_size")
    merged = _merged(v, hidden)
    projection = merged * merged + merged + merged * out + out
    taps = len(v.sizes("deepstack_visual_indexes", None, span=(0, LAYERS[1])) or ())
    mergers = 2 * hidden + projection + taps * (2 * merged + projection)
    layers = v.size("depth", span=LAYERS) * vit_layer(hidden, width)
    positions = v.size("num_position_embeddings") * hidden
    return _video_patch(v, hidden, bias=True) + positions + layers + mergers


def gemma4(v: Fields) -> int:
    """Gemma 4: gated, four norms and norms on queries and keys, a table of positions per axis."""
    hidden, width = v.size("hidden_size"), v.size("intermediate_size")
    heads, kv_heads = v.size("num_attention_heads", span=HEADS), v.size("num_key_value_heads", span=HEADS)
    dim, patch = v.size("head_dim"), v.size("patch_size", span=IMAGE)
    layer = 2 * hidden * dim * (heads + kv_heads) + 3 * hidden * width + 4 * hidden + 2 * dim
    tables = 2 * v.size("position_embedding_size", default=10_240) * hidden
    return 3 * patch * patch * hidden + tables + v.size("num_hidden_layers", span=LAYERS) * layer


def glm5_next(v: Fields) -> int:
    """GLM-5.3: gated with biases, norms on queries and keys, a strided convolution and a gated merger."""
    hidden, width, out = v.size("hidden_size"), v.size("intermediate_size"), v.size("out_hidden_size")
    heads = v.size("num_heads", span=HEADS)
    dim = v.divides("num_heads", heads, "hidden_size", hidden)
    biased = v.flag("attention_bias", default=True)
    layer = 4 * hidden * hidden + 3 * hidden * width + 2 * hidden + 2 * dim
    layer += (4 * hidden + 2 * width + hidden) if biased else 0
    merger = out * out + 2 * out + 3 * out * v.size("projection_intermediate_size")
    downsample = out * _merged(v, hidden) + out
    layers = v.size("depth", span=LAYERS) * layer
    return _video_patch(v, hidden, bias=True) + layers + merger + downsample + hidden


def glm4v(v: Fields) -> int:
    """GLM-4.1V: gated without biases, learned positions, a strided convolution and a gated merger."""
    hidden, out = v.size("hidden_size"), v.size("out_hidden_size")
    layer = 4 * hidden * hidden + 3 * hidden * out + 2 * hidden
    if v.flag("attention_bias", default=False):
        layer += 4 * hidden
    merger = out * out + 2 * out + 3 * out * v.size("intermediate_size")
    downsample = out * _merged(v, hidden) + out
    layers = v.size("depth", span=LAYERS) * layer + 2 * hidden
    return _video_patch(v, hidden, bias=True) + patches(v) * hidden + layers + merger + downsample


def step3p7(v: Fields) -> int:
    """Step-3.7: a scale per width on both halves of a layer, two strided convolutions behind."""
    hidden, layers = _vit_layers(v)
    layers += v.size("num_hidden_layers", span=LAYERS) * 2 * hidden
    down = 9 * hidden * 2 * hidden + 2 * hidden + 9 * 2 * hidden * 4 * hidden + 4 * hidden
    return patch_params(v, hidden, bias=False) + patches(v) * hidden + layers + 2 * hidden + down


def minimax_m3(v: Fields) -> int:
    """MiniMax-M3: rotary, patches of two frames."""
    hidden, layers = _vit_layers(v)
    return _video_patch(v, hidden, bias=False) + layers + 2 * hidden


TOWERS: dict[str, Callable[[Fields], int]] = {
    "siglip_vision_model": siglip,
    "clip_vision_model": clip,
    "pixtral": pixtral,
    "moonvit": moonvit,
    "kimi_k25_vision": kimi_k25,
    "llama4_vision_model": llama4,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_vision": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_vl_moe_vision": qwen3_vl,
    "qwen3_5": qwen3_vl,
    "qwen3_5_vision": qwen3_vl,
    "qwen3_5_moe": qwen3_vl,
    "qwen3_5_moe_vision": qwen3_vl,
    "gemma4_vision": gemma4,
    "glm4v_vision": glm4v,
    "glm5_next_vision": glm5_next,
    "idefics3_vision": idefics3,
    "step3p5_vision": step3p7,
    "minimax_m3_vl_vision": minimax_m3,
}


def _taps(f: Fields) -> int:
    """Vision layers whose outputs are joined before the projector."""
    value = f.config.get("vision_feature_layer")
    return max(1, len(value)) if isinstance(value, list | tuple) else 1


def two_linears(f: Fields, vision_width: int, text_width: int) -> int:
    """LLaVA: two matrices with biases."""
    bias = 2 * text_width if f.flag("multimodal_projector_bias", default=True) else 0
    return vision_width * _taps(f) * text_width + text_width * text_width + bias


def two_linears_newline(f: Fields, vision_width: int, text_width: int) -> int:
    """LLaVA-NeXT: also a learned end of line."""
    return two_linears(f, vision_width, text_width) + text_width


def patch_merger(f: Fields, vision_width: int, text_width: int) -> int:
    """Mistral 3: a norm, a merger of neighbouring patches, two matrices."""
    merge = f.size("spatial_merge_size", span=MERGE, default=2)
    bias = 2 * text_width if f.flag("multimodal_projector_bias", default=False) else 0
    merger = vision_width * merge * merge * vision_width
    return vision_width + merger + vision_width * _taps(f) * text_width + text_width * text_width + bias


def norm_and_linear(f: Fields, vision_width: int, text_width: int) -> int:
    """Gemma 3: a norm and one matrix."""
    del f
    return vision_width + vision_width * text_width


def one_linear(f: Fields, vision_width: int, text_width: int) -> int:
    """Gemma 4: one matrix."""
    del f
    return vision_width * text_width


def linear_with_bias(f: Fields, vision_width: int, text_width: int) -> int:
    """PaliGemma: one matrix with a bias."""
    del f
    return vision_width * text_width + text_width


def shuffled_linear(f: Fields, vision_width: int, text_width: int) -> int:
    """Idefics3 and SmolVLM: one matrix on patches put together `scale_factor` by `scale_factor`."""
    scale = f.size("scale_factor", span=MERGE, default=2)
    return vision_width * scale * scale * text_width


def llama4_linear(f: Fields, vision_width: int, text_width: int) -> int:
    """Llama 4: one matrix from the tower's output width."""
    del vision_width
    return f.nested("vision_config").size("vision_output_dim") * text_width


def step_linear(f: Fields, vision_width: int, text_width: int) -> int:
    """Step-3.7: one matrix from the four times wider output of the tower."""
    bias = text_width if f.flag("projector_bias", default=False) else 0
    return 4 * vision_width * text_width + bias


def kimi_vl_projector(f: Fields, vision_width: int, text_width: int) -> int:
    """Kimi-VL: a norm, then two matrices on merged patches."""
    merge = f.nested("vision_config").sizes("merge_kernel_size", 2, span=MERGE) or (2, 2)
    merged = vision_width * merge[0] * merge[1]
    return 2 * vision_width + merged * merged + merged + merged * text_width + text_width


def kimi_k25_projector(f: Fields, vision_width: int, text_width: int) -> int:
    """Kimi K2.5: as Kimi-VL."""
    return kimi_vl_projector(f, vision_width, text_width)


def minimax_m3_projector(f: Fields, vision_width: int, text_width: int) -> int:
    """MiniMax-M3: two matrices per patch and two per merged patch."""
    hidden = f.size("projector_hidden_size", span=WIDTH, default=text_width)
    merged = text_width * f.nested("vision_config").size("spatial_merge_size", span=MERGE, default=2) ** 2
    first = vision_width * hidden + hidden + hidden * text_width + text_width
    return first + merged * hidden + hidden + hidden * text_width + text_width
