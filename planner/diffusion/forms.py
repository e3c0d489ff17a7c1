"""What a denoiser's block keeps and works with in one training step, or while it makes a picture, per token."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from planner.diffusion.operations import Trace, Trains
from planner.diffusion.programs import PROGRAMS, PUTS_TOGETHER
from planner.diffusion.tape import Tape
from planner.memory.adapters import PROMPT_METHODS, adapter_rank, block_sites, layer_sites
from planner.memory.layer_view import LayerForm
from planner.memory.terms import Terms, add, scaled
from planner.model.spec import Latents, Layer, Linear, ModelSpec
from planner.training.setup import Setup

PARTS: Final = ("h", "i", "n", "rank", "gate_up")
MATRICES: Final = {
    "w_up": ("proj_mlp", "net.0.proj", "linear_in", "w1"),
    "w_down": ("net.2", "linear_out", "w2"),
    "w_attention": ("to_q",),
    "w_text": ("to_add_out",),
    "w_in": ("to_qkv_mlp_proj",),
    "w_out": ("proj_out", "attn.to_out"),
}
"""A matrix of each place in a block, for what DoRA makes of it."""


def denoiser_form(layer: Layer, model: ModelSpec, setup: Setup) -> LayerForm:
    """What the block keeps without checkpointing, and what its passes work with beside that.

    Of a U-Net nothing: its layers are worked out together (`planner.diffusion.unet_memory`).

    Args:
        layer: A block with a program.
        model: The denoiser.
        setup: The step.
    """
    if model.unet is not None:
        return LayerForm({}, {"h": model.hidden_size, "": 1}, 0, int(layer.attention.num_heads), working={})
    rank = adapter_rank(setup.adapter) if setup.adapter else 0
    widths = widths_of(layer, model, setup.sequence, setup.batch, rank)
    trace = traced(layer.program, stream_bytes(setup), trains(layer, setup, model), tuple(widths.items()))
    outputs = {} if layer.program in PUTS_TOGETHER else trace.outputs
    kept = add(trace.kept, outputs)
    fullest = max(trace.backward, trace.again, key=lambda peak: peak.bytes)
    return LayerForm(
        merged(kept),
        dict(widths),
        0,
        int(layer.attention.num_heads),
        again=merged(trace.kept),
        working=merged(
            less(fullest.terms, kept) if setup.checkpointed else less(trace.backward.terms, trace.kept)
        ),
        passing=merged(trace.plain.terms if setup.checkpointed else less(trace.forward.terms, kept)),
    )


def stream_bytes(setup: Setup) -> int:
    """Bytes of an element of the stream; under autocast of fp32 weights everything counts as fp32."""
    return setup.residual_bytes if setup.autocast else setup.compute_bytes


MODULATION: Final = ("linear", "linear_1", "img_mod.1", "txt_mod.1", "adaLN_modulation.0")
"""Matrices that make scales and gates of the time step; `linear` is one within a norm."""


def trains(layer: Layer, setup: Setup, model: ModelSpec) -> Trains:
    """What of a block is trained."""
    adapter = setup.adapter
    if adapter is None:
        return Trains(full=True)
    if adapter.method in PROMPT_METHODS:
        return Trains()
    sites = frozenset(site.name for site in layer_sites(layer, adapter))
    return Trains(
        sites=sites,
        modulation=any(_modulates(name) for name in sites) or bool(block_sites(model, adapter)),
        adapter_bytes=setup.compute_bytes if setup.autocast else setup.train_bytes,
        dora=adapter.method == "dora",
        dropout=bool(adapter.dropout),
    )


def _modulates(name: str) -> bool:
    return name in MODULATION or name.partition(".")[2] in MODULATION


@lru_cache(maxsize=512)
def traced(program: str, e: int, asked: Trains, widths: tuple[tuple[str, float], ...]) -> Trace:
    """A program worked out.

    Args:
        program: Kind of block.
        e: Bytes of an element of the stream.
        asked: What is trained.
        widths: Elements per token by symbol.
    """
    write, shape = PROGRAMS[program]
    tape = Tape(e, asked)
    return tape.worked_out(write(tape, shape), dict(widths))


def widths_of(layer: Layer, model: ModelSpec, sequence: int, batch: int, rank: int = 0) -> dict[str, float]:
    """Every width the programs name, per token of the sequence that passes through the block.

    Args:
        layer: The block.
        model: The denoiser.
        sequence: Tokens of a sequence, those of the text included where they are part of it.
        batch: Sequences.
        rank: Rank of the adapters.
    """
    latents = model.latents
    text = text_tokens(latents, sequence) / sequence if latents is not None else 0.0
    image = 1 - text if latents is None or latents.joint else 1.0
    hidden, inner = model.hidden_size, layer.mlp.intermediate_size
    whole: dict[str, float] = {
        "h": hidden,
        "i": inner,
        "n": layer.attention.num_heads,
        "rank": rank,
        "gate_up": 2 * inner,
    }
    stream, feed = _of_text(layer, hidden, inner)
    whole |= {"p": stream, "ip": feed, "gp": 2 * feed}
    shares = {
        f"{part}_{stream}": size * share
        for part, size in whole.items()
        for stream, share in (("image", image), ("text", text))
    }
    together = {"both": hidden + inner, "qkv": 3 * hidden, "fused": 3 * hidden + 2 * inner, "text": text}
    matrices = {
        symbol: _elements(layer.linears, names) / (sequence * batch) for symbol, names in MATRICES.items()
    }
    return {**whole, **shares, **together, **matrices, "": 1}


def _of_text(layer: Layer, hidden: int, inner: int) -> tuple[int, int]:
    """Widths of the text's stream and of its feed-forward part, where they are its own (Mochi)."""
    found = {linear.name: linear.in_features for linear in layer.linears}
    return found.get("attn1.add_q_proj", hidden), found.get("ff_context.net.2", inner)


def _elements(linears: tuple[Linear, ...], names: tuple[str, ...]) -> int:
    found = (
        x.weight_params for x in linears for name in names if x.name == name or x.name.endswith("." + name)
    )
    return next(found, 0)


def text_tokens(latents: Latents, sequence: int) -> int:
    """Tokens of the text that a block sees: those in its sequence, or those it attends to."""
    return latents.text_in_sequence(sequence) if latents.joint else latents.text_tokens


def merged(terms: Terms) -> Terms:
    """Both streams as one where they keep alike."""
    found = dict(terms)
    for part in PARTS:
        image, text = f"{part}_image", f"{part}_text"
        common = min(found.get(image, 0), found.get(text, 0))
        if common > 0 and found.get(image) == found.get(text):
            found[part] = found.get(part, 0) + found.pop(image)
            del found[text]
    return {symbol: c for symbol, c in found.items() if c}


def less(terms: Terms, without: Terms) -> Terms:
    """One sum less another."""
    return add(terms, scaled(without, -1))


def plain_peak(model: ModelSpec, e: int, sequence: int, batch: int) -> tuple[Terms, Mapping[str, float]]:
    """The fullest moment of any block in a pass without gradients, by width.

    Args:
        model: The denoiser.
        e: Bytes of an element.
        sequence: Tokens of a sequence.
        batch: Sequences in one pass.
    """
    best: tuple[float, Terms, Mapping[str, float]] = (-1.0, {}, {})
    for layer, _ in model.distinct_layers():
        widths = widths_of(layer, model, sequence, batch)
        peak = traced(layer.program, e, Trains(), tuple(widths.items())).plain
        if peak.bytes > best[0]:
            best = peak.bytes, merged(peak.terms), widths
    return best[1], best[2]
