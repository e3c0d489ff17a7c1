"""Pictures on their way: the forward pass through the tower, and the moments of the backward pass behind the text's."""

from collections.abc import Iterable, Sequence
from typing import Final

from planner.ledger import ALWAYS, Category, Entry, Phase
from planner.memory.terms import item, whole
from planner.training.arrived import arrived, trained_in
from planner.training.backward_gradients import gradients_so_far, stream_gradient
from planner.training.inside_layer import layer_gradients
from planner.training.pictures import (
    Pictures,
    ends_entries,
    held,
    learned_later,
    named,
    picture_entries,
    pictures_of,
    until_returned,
)
from planner.training.saved import layer_entries, reads_stored
from planner.training.step import BACKWARD, FORWARD, Step

SUM_BYTES: Final = 8
PLACE_BYTES: Final = 24
"""Three 64-bit numbers: row, token and element."""


def forward_extra(step: Step, entries: Sequence[Entry]) -> list[Entry]:
    """What the forward pass has beyond the text's while pictures pass through, and what the class's outputs hold.

    Args:
        step: The step.
        entries: What is there at the end of the forward pass.
    """
    pictures = pictures_of(step)
    if pictures is None:
        return []
    outputs = _outputs(step, pictures)
    there = sum(entry.bytes for entry in entries if Phase.FORWARD in entry.phases) + sum(
        x.bytes for x in outputs
    )
    needed = max(_passing(step, pictures), _merging(step, pictures))
    if needed <= there:
        return outputs
    symbols = {"a": needed, "b": there}
    more = item(
        Category.ACTIVATIONS,
        "tower_forward",
        needed - there,
        "a - b",
        symbols,
        "vision_tower",
        phases=FORWARD,
    )
    return [*outputs, more]


def _outputs(step: Step, pictures: Pictures) -> list[Entry]:
    """The class puts out what its tower and projector did, with the layers behind the one that is read.

    They go with the other outputs, before the backward pass.
    """
    tower, setup, inner = pictures.tower, step.setup, pictures.step
    e, out, hidden = setup.compute_bytes, tower.projector.out, tower.encoder.hidden_size
    symbols = {"t": pictures.all_tokens, "o": out, "p": pictures.all_patches, "h": hidden, "e": e}
    symbols["k"] = 1 + tower.projector.taps
    amount = (symbols["t"] * out * symbols["k"] + symbols["p"] * hidden) * e
    phases = ALWAYS if setup.keeps_outputs else until_returned(step)
    found = [
        item(
            Category.ACTIVATIONS, "picture_outputs", amount, "(t*o*k + p*h)*e", symbols, "vision_tower",
            phases=phases,
        )
    ]  # fmt: skip
    if tower.unused_layers and pictures.mode != "frozen":
        found += [entry._replace(phases=phases) for entry in _named_all(_layers(inner, tower.unused_layers))]
    return [*found, *(entry._replace(phases=FORWARD) for entry in found)] if setup.keeps_outputs else found


def _layers(inner: Step, number: int) -> list[Entry]:
    if inner.setup.checkpointed:
        h, e, t = inner.residual_width, inner.setup.residual_bytes, inner.setup.tokens
        symbols = {"L": number, "t": t, "h": h, "e": e}
        return [
            item(
                Category.ACTIVATIONS,
                "tower_activations",
                number * t * h * e,
                "L*t*h*e",
                symbols,
                "vision_tower",
                phases=FORWARD,
            )
        ]
    return layer_entries(inner, inner.kinds[-1], number, FORWARD, "saved_activations")


def _named_all(entries: Iterable[Entry]) -> list[Entry]:
    return [named(entry) for entry in entries]


def _embeddings(step: Step) -> int:
    """Bytes of the text's embeddings."""
    return step.setup.tokens * step.model.hidden_size * step.setup.residual_bytes


def _passing(step: Step, pictures: Pictures) -> int:
    """Bytes of activations while the tower's last layer runs: what is kept, and one layer's own tensors."""
    inner = pictures.step
    kept = sum(entry.bytes for entry in picture_entries(step, FORWARD))
    keeps_all = pictures.mode != "frozen" and not inner.setup.checkpointed
    layer = 0 if keeps_all else _one_layer(inner)
    return kept + layer + _embeddings(step)


def _one_layer(inner: Step) -> int:
    """Bytes of a layer that keeps nothing, at its fuller half."""
    kind, setup = inner.largest, inner.setup
    e, r, t, widths = setup.compute_bytes, setup.residual_bytes, setup.tokens, kind.form.widths
    attention = t * (2 * r * widths["h"] + e * (widths["q"] + widths["k"] + widths["v"] + widths["o"]))
    if kind.form.score_bytes:
        seen = kind.form.score_bytes + e
        attention += seen * setup.batch * kind.form.heads * kind.sequence**2
    feed = t * (2 * r * widths["h"] + (3 if kind.layer.mlp.gated else 2) * e * widths["i"])
    return whole(max(attention, feed))


def _merging(step: Step, pictures: Pictures) -> int:
    """Bytes while the pictures' embeddings are put in place: a prefix sum of the mask, and both copies of the text's.

    PyTorch `masked_scatter_cuda`: a 64-bit sum and a byte of mask for each element.
    """
    kept = sum(entry.bytes for entry in picture_entries(step, FORWARD))
    elements = step.setup.tokens * step.model.hidden_size
    out = pictures.all_tokens * pictures.tower.projector.out * step.setup.compute_bytes
    return kept + 2 * _embeddings(step) + elements * (SUM_BYTES + 1) + out


def picture_moments(step: Step, others: Sequence[Entry]) -> list[list[Entry]]:
    """Moments of the backward pass behind the text's: the merge, the tower's last layer, its first.

    The embedding's gradient waits until the tower is done, since its node is older.
    """
    pictures = pictures_of(step)
    if pictures is None or pictures.mode == "frozen":
        return []
    inner, setup = pictures.step, step.setup
    own = sum(tensor.params for tensor in inner.trained)
    outside = max(0, learned_later(step) - own)
    text = step.trained_params - step.trained_at["embedding"] - learned_later(step)
    waiting = stream_gradient(step, 1, "stream_gradient")
    ends = ends_entries(step, pictures, BACKWARD)
    stored = int(reads_stored(inner))
    base = [*others, *waiting, *ends]
    around, all_held = held(pictures, BACKWARD, but=stored), held(pictures, BACKWARD)
    last, first = inner.largest, inner.first
    merge = [*base, *all_held, *_merge_gradients(step, pictures), *gradients_so_far(step, text)]
    each = trained_in(inner, first) if pictures.mode == "trained" else 0
    come = arrived(inner, last) if pictures.mode == "trained" else 0
    again = layer_entries(inner, last, 1, BACKWARD, "recomputed_layer") if setup.checkpointed else []
    at_last = [
        *base, *around, *_named_all(again), *layer_gradients(inner, last, counted=1 if setup.checkpointed else 0),
        *gradients_so_far(step, text + outside + come),
    ]  # fmt: skip
    at_first = [
        *base, *_named_all(layer_entries(inner, first, 1, BACKWARD, "recomputed_layer")),
        *layer_gradients(inner, first), *gradients_so_far(step, max(0, text + outside + own - each + come)),
    ]  # fmt: skip
    return [merge, at_last, at_first]


def _merge_gradients(step: Step, pictures: Pictures) -> list[Entry]:
    """The stream's gradient beside its masked copy, the mask as bytes, the pictures' places and their gradient.

    PyTorch `masked_scatter_backward`: `masked_select`, which on CUDA finds every element's place (`nonzero`).
    """
    setup, h = step.setup, step.model.hidden_size
    symbols = {
        "t": setup.tokens,
        "h": h,
        "r": setup.residual_bytes,
        "n": pictures.all_tokens,
        "p": PLACE_BYTES,
    }
    amount = setup.tokens * h * (setup.residual_bytes + 1)
    amount += pictures.all_tokens * h * (PLACE_BYTES + setup.residual_bytes)
    return [
        item(
            Category.ACTIVATIONS, "merge_gradients", amount, "t*h*(r + 1) + n*h*(p + r)", symbols, "vision_tower",
            phases=BACKWARD,
        )
    ]  # fmt: skip
