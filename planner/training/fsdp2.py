"""Moments of a step under PyTorch's second FSDP (`fully_shard`): what is gathered, whole and scattered, and when.

Every layer is a unit; all else is the root, which stays gathered from its forward to the end of the backward pass.
A unit is gathered into one flat buffer that is then copied out into parameters. In the forward pass the buffer lives
until the next unit's has been copied out (`comm_ctx.all_gather_state`), so at a unit's start there are two buffers
beside its parameters. In the backward pass the unit below is gathered while one runs. A unit's gradients are whole
until its backward is over, then copied into the input of a reduce-scatter, which lives until the next unit's. The
root's come first and are whole until the end.
"""

from collections.abc import Sequence
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.layer_norms import norm_terms
from planner.memory.terms import item, summed, whole
from planner.moments import fullest
from planner.training.adapters import inner_width
from planner.training.backward_experts import combining
from planner.training.backward_gradients import gradients_so_far, stream_gradient
from planner.training.backward_head import backward_of_head
from planner.training.dtensor import whole_embedding, whole_tied
from planner.training.fsdp2_units import (
    buffer_of,
    buffers,
    gathered,
    gathered_root,
    gradients_of_unit,
    is_kept,
    keeps_last,
    outside,
    scatter_input,
    sizes,
)
from planner.training.inside_layer import layer_gradients, score_gradients
from planner.training.kept_outputs import kept_cache
from planner.training.loss import loss_entries
from planner.training.once import id_entries, once_entries
from planner.training.saved import (
    SELECTIVE,
    again_entries,
    cast_entries,
    checkpoint_interval,
    held_layers,
    layer_entries,
    saved_entries,
)
from planner.training.setup import fused_kernels
from planner.training.step import BACKWARD, FORWARD, LOSS, Kind, Step

LOSS_OUTSIDE: Final = frozenset({"torchtitan", "torchtune"})
"""Runtimes whose loss is worked out after the model's forward, which ends with the last buffer freed."""
FEED_FORWARD: Final = frozenset({"i", "xi", "si"})
"""Widths of tensors within the feed-forward part."""
FP32_TENSORS_OF_NORM: Final = 5
"""Of the backward pass of an RMS norm composed of single steps."""


def forward_entries(step: Step) -> list[Entry]:
    """Saved tensors, head and gathered units: the forward pass at its fullest moment, and those of the loss."""
    saved, head = saved_entries(step), loss_entries(step)
    inside = step.setup.runtime not in LOSS_OUTSIDE
    loss = [
        *_within(saved, LOSS),
        *once_entries(step, LOSS),
        *_within(head, LOSS),
        *gathered(step, outside(step).head, int(keeps_last(step)), LOSS),
        *buffers(step, 1 if inside and not is_kept(step) else 0, LOSS),
    ]
    return [*loss, *fullest(_forward_moments(step, _within(saved, FORWARD), _within(head, FORWARD)))]


def _within(entries: Sequence[Entry], phases: frozenset[Phase]) -> list[Entry]:
    """The entries alive in a phase, as if in that one alone."""
    return [entry._replace(phases=phases) for entry in entries if phases <= entry.phases]


def _forward_moments(step: Step, saved: list[Entry], head: list[Entry]) -> list[list[Entry]]:
    """The head's end, the first layer's start, the last one's start, and what runs inside it."""
    once, layers, root = once_entries(step, FORWARD), step.num_layers, outside(step)
    last_one = int(keeps_last(step))
    end = [*once, *saved, *head, *gathered(step, root.head, last_one, FORWARD)]
    moments = [[*end, *(buffer_of(step, root.head, FORWARD) if root.split else buffers(step, 1, FORWARD))]]
    if not step.kinds:
        return moments
    before, around = (root.embedding, 0) if root.split else (root.head, root.head)
    start = [*once, *_stream(step, FORWARD), *gathered(step, around, 1, FORWARD, kept=1)]
    moments.append([*start, *buffers(step, 1, FORWARD), *buffer_of(step, before, FORWARD)])
    last = [*once, *saved, *gathered(step, around, 1, FORWARD)]
    moments.append([*last, *buffers(step, min(2, layers), FORWARD)])
    if step.setup.checkpointed:
        moments.append([*last, _inside_forward(step, step.largest), *buffers(step, 1, FORWARD)])
    return moments


def _inside_forward(step: Step, kind: Kind) -> Entry:
    """A checkpointed layer's own forward: the stream, the norm's output, and the feed-forward part's tensors.

    Where ranks cut the sequence, the norm's output is gathered for the matrices.
    """
    setup, h = step.setup, step.residual_width
    t, e, r = setup.batch * kind.sequence, setup.compute_bytes, setup.residual_bytes
    i, c = inner_width(step, kind), 3 if kind.layer.mlp.gated else 2
    g = step.model.hidden_size if step.cuts_sequence else 0
    symbols = {"t": t, "h": h, "r": r, "e": e, "g": g, "c": c, "i": i}
    amount = whole(t * (h * (r + e) + (g + c * i) * e))
    return item(
        Category.ACTIVATIONS, "layer_forward", amount, "ceil(t*(h*(r + e) + (g + c*i)*e))", symbols,
        "activations_eager", phases=FORWARD,
    )  # fmt: skip


def _stream(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The embedding's output."""
    setup, h = step.setup, step.residual_width
    symbols = {"t": setup.tokens, "h": h, "r": setup.residual_bytes}
    amount = setup.tokens * h * setup.residual_bytes
    return [
        item(
            Category.ACTIVATIONS,
            "embedding_output",
            amount,
            "t*h*r",
            symbols,
            "activations_eager",
            phases=phases,
        )
    ]


def fsdp2_moments(step: Step) -> list[list[Entry]]:
    """The entries of the backward pass's moments; the fullest of them is the phase."""
    if not step.kinds:
        return []
    layers, once = step.num_layers, once_entries(step, BACKWARD)
    moments = [*_last_layer(step, once), *_end(step)]
    if layers > 1:
        numbers = {layers - 1, 1 if is_kept(step) else 2} - {layers}
        moments += [moment for number in sorted(numbers) for moment in _middle_layer(step, once, number)]
    if step.share.holds_head and step.model.head is not None:
        moments += _at_head(step, once)
    return moments


def _at_head(step: Step, once: list[Entry]) -> list[list[Entry]]:
    """The head's backward, and where it is a unit of its own the start of its reduce-scatter."""
    casts = [] if step.setup.checkpointed else cast_entries(step, BACKWARD)
    head, size, layers = outside(step).head, sizes(step), step.num_layers
    held = [*once, *held_layers(step, BACKWARD), *casts]
    last = 1 if keeps_last(step) else 0
    ahead = [] if last else _ahead(step, layers + 1)
    moments = [[*held, *gathered(step, head, last, BACKWARD), *ahead, *_whole(backward_of_head(step))]]
    if outside(step).split and size.head:
        reduced = [*_root_gradients(step), scatter_input(size.head, size.r)]
        moments.append([*held, *ahead, *stream_gradient(step, 1, "stream_gradient"), *reduced])
    return moments


def _whole(entries: list[Entry]) -> list[Entry]:
    """The head's gradient as one of a unit that is not scattered yet."""
    return [
        entry._replace(category=Category.COMMUNICATION, name="root_gradients")
        if entry.category is Category.GRADIENTS
        else entry
        for entry in entries
    ]


def _ahead(step: Step, number: int) -> list[Entry]:
    """The buffer of the layer below, gathered while layer `number` runs."""
    if is_kept(step):
        return []
    return buffers(step, 1 if number > 1 else 0, BACKWARD)


def _above(step: Step) -> list[Entry]:
    """The root while layers run: parameters and whole gradients of the head, or what has become of its own unit's."""
    root, size = outside(step), sizes(step)
    if root.split:
        return gradients_so_far(step, size.head)
    return [*gathered_root(step, root.head, BACKWARD), *_root_gradients(step)]


def _last_layer(step: Step, once: list[Entry]) -> list[list[Entry]]:
    number, every, size = step.num_layers, checkpoint_interval(step.setup), sizes(step)
    scattered = [scatter_input(size.head, size.r)] if outside(step).split and size.head else []
    gathers = [*gathered(step, 0, 1, BACKWARD), *_ahead(step, number)]
    common = [*once, *_above(step), *gathers, *scattered]
    if every == 1:
        return _in_layer(step, step.largest, number, common)
    group = number % every or every
    again = layer_entries(step, step.largest, group, BACKWARD, "recomputed_layer")
    work = [*layer_gradients(step, step.largest), *_unit_gradients(size.down, size.e)]
    return [[*common, *held_layers(step, BACKWARD), *again, *work]]


def _middle_layer(step: Step, once: list[Entry], number: int) -> list[list[Entry]]:
    """The backward pass of layer `number`, counted from 1, with the layer above being scattered."""
    size, root = sizes(step), outside(step)
    above = (step.num_layers - number) * size.layer
    front = [*gathered_root(step, root.head, BACKWARD), *_root_gradients(step)]
    common = [
        *once,
        *([] if root.split else front),
        *gradients_so_far(step, above + (size.head if root.split else 0)),
        *gathered(step, 0, 1, BACKWARD, kept=number),
        *_ahead(step, number),
        scatter_input(size.layer, size.r),
    ]
    return _in_layer(step, step.largest if number > 1 else step.first, number, common)


def _below(step: Step, number: int) -> list[Entry]:
    """What the layers up to `number` keep where they are not made again from their inputs."""
    if step.setup.training.activation_offload:
        return held_layers(step, BACKWARD)
    left, entries = number, []
    for kind in step.kinds:
        count = min(left, kind.count)
        left -= count
        if count:
            entries += layer_entries(step, kind, count, BACKWARD, "saved_activations")
    return entries


def _in_layer(step: Step, kind: Kind, number: int, common: list[Entry]) -> list[list[Entry]]:
    """Inside the feed-forward part, and at the layer's end, where all its gradients are there."""
    size, checkpointing = sizes(step), step.setup.training.checkpointing
    again, kept = step.setup.checkpointed or checkpointing in SELECTIVE, []
    if step.setup.checkpointed:
        kept = layer_entries(step, kind, 1, BACKWARD, "recomputed_layer")
    elif checkpointing == "selective_op":
        kept = again_entries(step, kind, BACKWARD)
    inside = [*kept, *layer_gradients(step, kind), *_unit_gradients(size.down, size.e)]
    between = [*_between(step, kind, again=again), *_unit_gradients(size.feed_forward, size.e)]
    end = [_norm_backward(step, kind), *_unit_gradients(size.layer, size.e)]
    weighted = [[*kept, *moment] for moment in combining(step, kind)]
    if step.setup.checkpointed:
        stored = [_stored(step, number)]
        return [[*common, *stored, *moment] for moment in (inside, between, end, *weighted)]
    before = _below(step, number - 1)
    later = [[*common, *before, *moment] for moment in (between, end)]
    if checkpointing == "selective_attention":
        scores = [*again_entries(step, kind, BACKWARD), *score_gradients(step, kind)]
        later.append([*common, *_below(step, number), *scores])
    return [*([*common, *_below(step, number), *moment] for moment in (inside, *weighted)), *later]


def _stored(step: Step, number: int) -> Entry:
    """Inputs of checkpointed layers; the running one's is the stream that is counted with its gradients."""
    setup, count, h = step.setup, max(0, number - 1), step.residual_width
    symbols = {"L": count, "t": setup.tokens, "h": h, "e": setup.residual_bytes}
    amount = count * setup.tokens * h * setup.residual_bytes
    return item(
        Category.ACTIVATIONS, "checkpointed_inputs", amount, "L*t*h*e", symbols, "checkpointing_full",
        phases=BACKWARD,
    )  # fmt: skip


def _between(step: Step, kind: Kind, *, again: bool) -> list[Entry]:
    """The backward pass of the norm before the feed-forward part, whose own tensors and input have gone."""
    form, t = kind.form, step.setup.batch * kind.sequence
    terms = {x: c for x, c in form.terms.items() if x not in FEED_FORWARD}
    terms["h"] = max(0, terms.get("h", 0) - step.setup.compute_bytes)
    left = summed(terms, form.widths)
    name = "recomputed_layer" if again else "saved_activations"
    kept = item(
        Category.ACTIVATIONS, name, whole(t * left.bytes), f"ceil(t*({left.text}))",
        {"t": t, **left.symbols}, "activations_eager", phases=BACKWARD,
    )  # fmt: skip
    return [kept, _norm_backward(step, kind, kept=False)]


def _norm_backward(step: Step, kind: Kind, *, kept: bool = True) -> Entry:
    """A norm's own backward: its temporaries and the stream's gradient, and what the norm kept."""
    setup, h = step.setup, step.residual_width
    t = setup.batch * kind.sequence
    composed = step.model.norm != "layer_norm" and "rms_norm" not in fused_kernels(setup)
    c = 4 * FP32_TENSORS_OF_NORM if composed else setup.residual_bytes
    own = summed(norm_terms(step.model, setup), {"h": h}).bytes if kept else 0
    symbols = {"t": t, "h": h, "r": setup.residual_bytes, "c": c, "n": own}
    amount = whole(t * (h * (setup.residual_bytes + c) + own))
    return item(
        Category.ACTIVATIONS, "layer_gradients", amount, "ceil(t*(h*(r + c) + n))", symbols,
        "backward_inside_layer", phases=BACKWARD,
    )  # fmt: skip


def _root_gradients(step: Step) -> list[Entry]:
    """The head's gradient, whole until the end of the backward pass."""
    if step.setup.adapter is not None or not step.share.holds_head or step.model.head is None:
        return []
    v, h, e = step.vocab, step.model.hidden_size, step.setup.compute_bytes
    symbols = {"V": v, "h": h, "e": e}
    return [gradients_of_unit("root_gradients", v * h * e, "V*h*e", symbols)]


def _end(step: Step) -> list[list[Entry]]:
    """The embedding's backward, and its unit's reduce-scatter, for which the unit's parameters have gone."""
    size, e, v, h = sizes(step), step.setup.compute_bytes, step.vocab, step.model.hidden_size
    root = outside(step)
    params, own = (root.embedding, size.embedding) if root.split else (root.head, size.embedding + size.head)
    rest = [
        *kept_cache(step, BACKWARD),
        *id_entries(step, BACKWARD),
        *gradients_so_far(step, step.num_layers * size.layer + (size.head if root.split else 0)),
    ]
    last = [*gathered_root(step, params, BACKWARD), scatter_input(size.layer, size.r)]
    stream = stream_gradient(step, 1, "stream_gradient")
    if not own:
        return [[*rest, *stream, *last]]
    if step.model.tie_word_embeddings and step.share.holds_embedding and step.share.holds_head:
        cut = whole_tied(step)
        k = 2 if cut else 3
        symbols = {"k": k, "V": v, "h": h, "P": cut, "e": e}
        come = [gradients_of_unit("tied_gradients", (k * v * h + cut) * e, "(k*V*h + P)*e", symbols)]
    else:
        made, piece = whole_embedding(step), step.trained_at["embedding"]
        come = _whole_root(own + made + piece, e) if made else [*_whole_root(own, e), *stream]
    return [[*rest, *come, *last], [*rest, *_whole_root(own, e), scatter_input(own, size.r)]]


def _whole_root(params: int, e: int) -> list[Entry]:
    return [gradients_of_unit("root_gradients", params * e, "R*e", {"R": params, "e": e})]


def _unit_gradients(params: int, e: int) -> list[Entry]:
    return [gradients_of_unit("unit_gradients", params * e, "U*e", {"U": params, "e": e})] if params else []
