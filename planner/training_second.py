"""Moments of a step under PyTorch's second FSDP (`fully_shard`): what is gathered, whole and scattered, and when.

Every layer is a unit; all else is the root, which stays gathered from its forward to the end of the backward pass.
A unit is gathered into one flat buffer that is then copied out into parameters. In the forward pass the buffer lives
until the next unit's has been copied out (`comm_ctx.all_gather_state`), so at a unit's start there are two buffers
beside its parameters. In the backward pass the unit below is gathered while one runs. A unit's gradients are whole
until its backward is over, then copied into the input of a reduce-scatter, which lives until the next unit's. The
root's come first and are whole until the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.layer_forms import norm_terms
from planner.memory.terms import item, summed, whole
from planner.model.spec import MlpKind
from planner.moments import fullest
from planner.training_backward import (
    backward_of_head,
    gradients_so_far,
    stream_gradient,
)
from planner.training_gather import Units, stays_gathered, units, whole_units
from planner.training_inside import inner_width, layer_gradients
from planner.training_loss import loss_entries
from planner.training_once import id_entries, once_entries
from planner.training_step import (
    BACKWARD,
    FORWARD,
    LOSS,
    SELECTIVE,
    Kind,
    Step,
    cast_entries,
    checkpoint_interval,
    held_layers,
    kept_cache,
    layer_entries,
    saved_entries,
)
from planner.training_tensor import whole_embedding, whole_tied

REFERENCE: Final = "fsdp_second"
LOSS_OUTSIDE: Final = frozenset({"torchtitan", "torchtune"})
"""Runtimes whose loss is worked out after the model's forward, which ends with the last buffer freed."""
REDUCES_IN_FP32: Final = frozenset({"torchtitan"})
"""torchtitan `training.mixed_precision_reduce`; others reduce in fp32 where the shards are fp32."""
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
        *_gathered(step, 0, LOSS),
        *_buffers(step, 1 if inside and not _kept(step) else 0, LOSS),
    ]
    return [*loss, *fullest(_forward_moments(step, _within(saved, FORWARD), _within(head, FORWARD)))]


def _kept(step: Step) -> bool:
    """Whether layers stay gathered from their forward to their backward pass; nothing is gathered ahead then."""
    return stays_gathered(step.setup, step.share.num_stages)


def _within(entries: Sequence[Entry], phases: frozenset[Phase]) -> list[Entry]:
    """The entries alive in a phase, as if in that one alone."""
    return [entry._replace(phases=phases) for entry in entries if phases <= entry.phases]


def _forward_moments(step: Step, saved: list[Entry], head: list[Entry]) -> list[list[Entry]]:
    """The first layer's start, the last one's start, what runs inside it, and the head's end."""
    once, layers = once_entries(step, FORWARD), step.num_layers
    moments = [[*once, *saved, *head, *_gathered(step, 0, FORWARD), *_buffers(step, 1, FORWARD)]]
    if not step.kinds:
        return moments
    size = units(step, step.held)
    start = [*once, *_stream(step, FORWARD), *whole_units(step, 1, FORWARD), *_buffers(step, 1, FORWARD)]
    last = [*once, *saved, *_gathered(step, 1, FORWARD), *_buffers(step, min(2, layers), FORWARD)]
    moments += [[*start, _root_buffer(step, size)], last]
    if step.setup.checkpointed:
        work = _inside_forward(step, step.largest)
        moments.append([*once, *saved, work, *_gathered(step, 1, FORWARD), *_buffers(step, 1, FORWARD)])
    return moments


def _gathered(step: Step, alive: int, phases: frozenset[Phase], kept: int | None = None) -> list[Entry]:
    """The root and `alive` layers; where layers stay gathered, `kept` of them (all if not given)."""
    if _kept(step):
        alive = step.num_layers if kept is None else kept
    return whole_units(step, alive, phases)


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


def _buffers(step: Step, count: int, phases: frozenset[Phase]) -> list[Entry]:
    """Flat buffers that layers were gathered into."""
    size, e = units(step, step.held), step.setup.compute_bytes
    if not count:
        return []
    symbols = {"k": count, "U": size.layer, "e": e}
    return [_communication("gather_buffers", count * size.layer * e, "k*U*e", symbols, phases)]


def _root_buffer(step: Step, size: Units) -> Entry:
    e = step.setup.compute_bytes
    return _communication("gather_buffers", size.root * e, "R*e", {"R": size.root, "e": e}, FORWARD)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Trained elements and bytes.

    Attributes:
        layer: Of an average layer.
        root: Outside the layers.
        down: Of the matrices that end a layer's feed-forward part.
        feed_forward: Of all its matrices.
        e: Bytes of a gradient as it is made.
        r: Bytes of a gradient as it is reduced.
    """

    layer: int
    root: int
    down: int
    feed_forward: int
    e: int
    r: int


def _sizes(step: Step) -> _Sizes:
    setup, layers = step.setup, max(1, step.num_layers)
    wide = setup.runtime in REDUCES_IN_FP32 or setup.train_bytes > setup.compute_bytes
    e = setup.compute_bytes
    inside = step.trained_at["layers"] + step.trained_at["experts"]
    if setup.adapter is not None:
        layer, root, down = -(-step.trained_at["adapter"] // layers), 0, 0
    else:
        layer, root = -(-inside // layers), step.trained_params - inside
        down = _down(step, step.largest) if step.kinds else 0
    gated = bool(step.kinds) and step.largest.layer.mlp.gated
    return _Sizes(layer, root, down, down * (3 if gated else 2), e, 4 if wide else e)


def _down(step: Step, kind: Kind) -> int:
    mlp = kind.layer.mlp
    if mlp.kind is MlpKind.MOE:
        return step.trained_at["experts"] // (max(1, step.num_layers) * (3 if mlp.gated else 2))
    return int(kind.form.widths["i"]) * step.model.hidden_size if mlp.kind is not MlpKind.NONE else 0


def second_moments(step: Step) -> list[list[Entry]]:
    """The entries of the backward pass's moments; the fullest of them is the phase."""
    if not step.kinds:
        return []
    layers, once = step.num_layers, once_entries(step, BACKWARD)
    moments = [*_last_layer(step, once), *_end(step)]
    if layers > 1:
        numbers = {layers - 1, 1 if _kept(step) else 2} - {layers}
        moments += [moment for number in sorted(numbers) for moment in _middle_layer(step, once, number)]
    if step.share.holds_head and step.model.head is not None:
        casts = [] if step.setup.checkpointed else cast_entries(step, BACKWARD)
        gathers = [*_gathered(step, 0, BACKWARD), *_ahead(step, layers + 1)]
        held = held_layers(step, BACKWARD)
        moments.append([*once, *held, *casts, *gathers, *backward_of_head(step)])
    return moments


def _ahead(step: Step, number: int) -> list[Entry]:
    """The buffer of the layer below, gathered while layer `number` runs."""
    if _kept(step):
        return []
    return _buffers(step, 1 if number > 1 else 0, BACKWARD)


def _last_layer(step: Step, once: list[Entry]) -> list[list[Entry]]:
    number, every = step.num_layers, checkpoint_interval(step.setup)
    gathers = [*_gathered(step, 1, BACKWARD), *_ahead(step, number)]
    common = [*once, *_root_gradients(step), *gathers]
    if every == 1:
        return _in_layer(step, step.largest, number, common)
    again = layer_entries(step, step.largest, every, BACKWARD, "recomputed_layer")
    work = [
        *layer_gradients(step, step.largest),
        *_unit_gradients(_sizes(step).down, step.setup.compute_bytes),
    ]
    return [[*common, *held_layers(step, BACKWARD), *again, *work]]


def _middle_layer(step: Step, once: list[Entry], number: int) -> list[list[Entry]]:
    """The backward pass of layer `number`, counted from 1, with the layer above being scattered."""
    size = _sizes(step)
    common = [
        *once,
        *_root_gradients(step),
        *gradients_so_far(step, (step.num_layers - number) * size.layer),
        *_gathered(step, 1, BACKWARD, kept=number),
        *_ahead(step, number),
        _scatter_input(size.layer, size),
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
    size, training = _sizes(step), step.setup.training
    again = step.setup.checkpointed or training.checkpointing in SELECTIVE
    kept = layer_entries(step, kind, 1, BACKWARD, "recomputed_layer") if again else []
    inside = [*kept, *layer_gradients(step, kind), *_unit_gradients(size.down, size.e)]
    between = [*_between(step, kind, again=again), *_unit_gradients(size.feed_forward, size.e)]
    end = [_norm_backward(step, kind), *_unit_gradients(size.layer, size.e)]
    if step.setup.checkpointed:
        stored = [_stored(step, number)]
        return [[*common, *stored, *moment] for moment in (inside, between, end)]
    before = _below(step, number - 1)
    later = [[*common, *before, *moment] for moment in (between, end)]
    return [[*common, *_below(step, number), *inside], *later]


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
    c = 4 * FP32_TENSORS_OF_NORM if step.model.norm != "layer_norm" else setup.residual_bytes
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
    return [_gradients("root_gradients", v * h * e, "V*h*e", symbols)]


def _end(step: Step) -> list[list[Entry]]:
    """The embedding's backward, and the root's reduce-scatter, for which the root's parameters have gone."""
    size, e, v, h = _sizes(step), step.setup.compute_bytes, step.vocab, step.model.hidden_size
    rest = [
        *kept_cache(step, BACKWARD),
        *id_entries(step, BACKWARD),
        *gradients_so_far(step, step.num_layers * size.layer),
    ]
    last = [*whole_units(step, 0, BACKWARD), _scatter_input(size.layer, size)]
    if not size.root:
        return [[*rest, *stream_gradient(step, 1, "stream_gradient"), *last]]
    root = _gradients("root_gradients", size.root * e, "R*e", {"R": size.root, "e": e})
    if step.model.tie_word_embeddings and step.share.holds_embedding and step.share.holds_head:
        cut = whole_tied(step)
        k = 2 if cut else 3
        symbols = {"k": k, "V": v, "h": h, "P": cut, "e": e}
        come = [_gradients("tied_gradients", (k * v * h + cut) * e, "(k*V*h + P)*e", symbols)]
    elif whole_embedding(step):
        made = size.root + whole_embedding(step) + step.trained_at["embedding"]
        come = [_gradients("root_gradients", made * e, "R*e", {"R": made, "e": e})]
    else:
        come = [root, *stream_gradient(step, 1, "stream_gradient")]
    return [[*rest, *come, *last], [*rest, root, _scatter_input(size.root, size)]]


def _scatter_input(params: int, size: _Sizes) -> Entry:
    """The copy of a unit's gradients that is reduced."""
    symbols = {"U": params, "r": size.r}
    return item(
        Category.COMMUNICATION,
        "scatter_input",
        params * size.r,
        "U*r",
        symbols,
        "fsdp_reduce",
        phases=BACKWARD,
    )


def _unit_gradients(params: int, e: int) -> list[Entry]:
    if not params:
        return []
    return [_communication("unit_gradients", params * e, "U*e", {"U": params, "e": e}, BACKWARD)]


def _gradients(name: str, amount: int, formula: str, symbols: dict[str, int]) -> Entry:
    return item(Category.COMMUNICATION, name, amount, formula, symbols, REFERENCE, phases=BACKWARD)


def _communication(
    name: str, amount: int, formula: str, symbols: dict[str, int], phases: frozenset[Phase]
) -> Entry:
    return item(Category.COMMUNICATION, name, amount, formula, symbols, REFERENCE, phases=phases)
