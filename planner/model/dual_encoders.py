"""Two towers side by side: CLIP and SigLIP; the image tower layer by layer, the text tower as a block.

Source: the modeling files of transformers 5.24.
"""

from collections.abc import Callable
from typing import Final

from planner.model import vision
from planner.model.encoders import encoder_layer
from planner.model.fields import HEADS, LAYERS, POSITIONS, VOCAB, Fields
from planner.model.spec import Block, ModelSpec, Structure

HEAD_WIDTH: Final = 64
"""Of both classes' text towers where a config does not say."""


def _text_tower(t: Fields, *, head: int) -> int:
    """Embeddings, layers, last norm; `head` is the width of SigLIP's output matrix, 0 for none."""
    hidden = t.size("hidden_size")
    tables = hidden * (t.size("vocab_size", span=VOCAB) + t.size("max_position_embeddings", span=POSITIONS))
    layers = t.size("num_hidden_layers", span=LAYERS) * vision.vit_layer(hidden, t.size("intermediate_size"))
    return tables + layers + 2 * hidden + (hidden * head + head if head else 0)


def _text_block(t: Fields, params: int) -> Block:
    """The text tower, with the matrices that adapters are put on where its heads divide its width."""
    hidden = t.size("hidden_size")
    heads = t.size("num_attention_heads", span=HEADS, default=max(1, hidden // HEAD_WIDTH))
    count = t.size("num_hidden_layers", span=LAYERS)
    if hidden % heads:
        return Block(name="text_tower", params=params)
    layer = encoder_layer(hidden, heads, t.size("intermediate_size"))
    return Block(name="text_tower", params=params, linears=layer.linears * count)


def _spec(f: Fields, tower: int, blocks: tuple[Block, ...]) -> ModelSpec:
    v = f.nested("vision_config")
    hidden, heads = v.size("hidden_size"), v.size("num_attention_heads", span=HEADS)
    v.divides("num_attention_heads", heads, "hidden_size", hidden)
    count = v.size("num_hidden_layers", span=LAYERS)
    layer = encoder_layer(hidden, heads, v.size("intermediate_size"))
    front = tower - count * layer.params
    return ModelSpec(
        model_type=f.model_type,
        structure=Structure.ENCODER,
        hidden_size=hidden,
        vocab_size=0,
        layers=(layer,) * count,
        embedding_params=0,
        blocks=(Block(name="image_ends", params=front), *blocks),
        norm="layer_norm",
        hidden_act=v.text("hidden_act", default="quick_gelu"),
        position_embedding="learned",
    )


def clip(f: Fields) -> ModelSpec:
    """CLIP: both towers projected to one width, one temperature."""
    v, t = f.nested("vision_config"), f.nested("text_config")
    width = f.size("projection_dim", default=512)
    ends = (v.size("hidden_size") + t.size("hidden_size")) * width + 1
    blocks = (_text_block(t, _text_tower(t, head=0)), Block(name="projection", params=ends))
    return _spec(f, vision.clip(v), blocks)


def siglip(f: Fields) -> ModelSpec:
    """SigLIP: a head on the text tower, a temperature and a bias."""
    v, t = f.nested("vision_config"), f.nested("text_config")
    width = t.size("projection_size", default=t.size("hidden_size"))
    blocks = (
        _text_block(t, _text_tower(t, head=width)),
        Block(name="temperature", params=2),
    )
    return _spec(f, vision.siglip(v), blocks)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {"clip": clip, "siglip": siglip}
