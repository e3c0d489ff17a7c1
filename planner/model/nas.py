"""Models found by architecture search, whose layers all differ: Nemotron-NAS (DeciLM).

Source: `modeling_decilm.py` and `configuration_decilm.py` in the models' repositories.
"""

from collections.abc import Callable
from dataclasses import replace

from planner.model.decoder import Trunk, decoder_spec, grouped
from planner.model.fields import HEADS, LAYERS, VOCAB, Fields
from planner.model.parts import (
    NO_FEED,
    NO_MIXER,
    AttentionNames,
    Feed,
    Mixer,
    attention_matrices,
    dense_feed,
    join,
    matrix,
)
from planner.model.spec import Layer, ModelSpec, Part
from planner.model.style import Style
from planner.units import round_up

_STYLE = Style()
_FACTOR = (1e-6, 1e3)


def nemotron_nas(f: Fields) -> ModelSpec:
    """Nemotron-NAS: a block has attention, or one matrix in its place, or nothing; its MLP likewise."""
    hidden = f.size("hidden_size")
    count = f.size("num_hidden_layers", span=LAYERS)
    heads = f.size("num_attention_heads", span=HEADS)
    blocks = f.items("block_configs", count)
    if blocks is None:
        f.missing("block_configs")
    made: dict[tuple[_Choice, _Choice], Layer] = {}
    layers = []
    for block in blocks:
        attention, ffn = block.nested("attention"), block.nested("ffn")
        key = (_choice(attention), _choice(ffn))
        if key not in made:
            mixer, feed = _mixer(f, attention, hidden, heads), _feed(ffn, hidden)
            made[key] = join(mixer, feed, hidden * ((mixer is not NO_MIXER) + (feed is not NO_FEED)))
        layers.append(made[key])
    trunk = Trunk(
        hidden_size=hidden,
        num_layers=count,
        vocab_size=f.size("vocab_size", span=VOCAB),
        norm="rms_norm",
        norm_params=hidden,
    )
    return decoder_spec(f, _STYLE, trunk, tuple(layers))


_Choice = tuple[bool, bool, int | None, int | None, float]


def _choice(block: Fields) -> _Choice:
    """What a block's half is made of; equal choices are equal layers."""
    return (
        block.flag("no_op", default=False),
        block.flag("replace_with_linear", default=False),
        block.optional_size("n_heads_in_group", span=HEADS),
        block.optional_size("intermediate_size"),
        block.number("ffn_mult", span=_FACTOR, default=0.0),
    )


def _mixer(f: Fields, block: Fields, hidden: int, heads: int) -> Mixer:
    if block.flag("no_op", default=False):
        return NO_MIXER
    if block.flag("replace_with_linear", default=False):
        return replace(NO_MIXER, linears=(matrix("linear_attn", hidden, hidden, Part.ATTENTION),))
    group = block.size("n_heads_in_group", span=HEADS)
    kv_heads = block.divides("n_heads_in_group", group, "num_attention_heads", heads)
    head_dim = f.optional_size("head_dim")
    if head_dim is None:
        head_dim = f.divides("num_attention_heads", heads, "hidden_size", hidden)
    shape = grouped(heads, kv_heads, head_dim)
    return Mixer(shape=shape, linears=attention_matrices(hidden, shape, AttentionNames()))


def _feed(block: Fields, hidden: int) -> Feed:
    if block.flag("no_op", default=False):
        return NO_FEED
    if block.flag("replace_with_linear", default=False):
        return replace(NO_FEED, linears=(matrix("linear_mlp", hidden, hidden, Part.MLP),))
    width = block.optional_size("intermediate_size")
    if width is None:
        factor = block.number("ffn_mult", span=_FACTOR)
        width = round_up(int(2 * factor * hidden / 3), 256)
    return dense_feed(hidden, width)


BUILDERS: dict[str, Callable[[Fields], ModelSpec]] = {"nemotron-nas": nemotron_nas}
