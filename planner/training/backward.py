"""Ledger entries of the backward pass: its fullest moment.

At the head all activations are there with the gradients of logits and head; at the last layer all activations and few
gradients; at the first layer one layer's activations and almost all gradients; at the embedding all gradients.
"""

from dataclasses import dataclass, replace
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Place
from planner.memory.layer_view import groups_experts
from planner.memory.litgpt import longest_first
from planner.memory.terms import item
from planner.model.spec import MlpKind, Part, Split
from planner.moments import fullest
from planner.training.arrived import arrived, trained_in
from planner.training.dtensor import embedding_gradient, tied_gradient
from planner.training.fsdp1_flat import growing_gradients, is_flat, root_gradient_entries
from planner.training.gather import gathered_entries, unit_gradient_entries
from planner.training.inside_layer import (
    NORM_TENSORS,
    at_experts,
    at_scores,
    expert_gradients,
    layer_gradients,
    mlp_gradients,
    score_gradients,
    scores_held,
    softmax_again,
    stepped_entries,
    stepped_gradient,
)
from planner.training.litgpt import head_gradients
from planner.training.loss import (
    SCALES_LOGITS,
    WHOLE_LOGITS_NEVER,
    capped_logits,
    casts_head,
    final_norm_entry,
    saved_head_entries,
)
from planner.training.once import id_entries, once_entries
from planner.training.setup import Setup, fused_kernels
from planner.training.states import gradient_phases, keeps_whole_gradients
from planner.training.step import (
    BACKWARD,
    SELECTIVE,
    Kind,
    Step,
    again_entries,
    cast_entries,
    casts_again,
    checkpoint_interval,
    held_layers,
    kept_cache,
    layer_entries,
    reads_stored,
    stored_inputs,
)
from planner.units import ceil_div

FSDP1_RUNTIMES: Final = frozenset({"hf_trainer"})


def backward_moments(step: Step) -> list[list[Entry]]:
    """The entries of the four moments; the fullest of them is the phase."""
    if not step.kinds:
        return []
    all_saved, once = held_layers(step, BACKWARD), once_entries(step, BACKWARD)
    stored = int(reads_stored(step))
    around = held_layers(step, BACKWARD, but=stored) if stored else all_saved
    others = held_layers(step, BACKWARD, step.share.in_flight - 1)
    layer = _working_layer(step, step.largest)
    first = layer if step.first is step.largest else _working_layer(step, step.first)
    moments = [
        _at_last_layer(step, [*around, *once], layer),
        *_at_last_whole_group(step, once, stored),
        *_at_final_norm(step, [*all_saved, *once]),
        *_at_experts(step, around, others, once),
        _at_first_layer(step, [*others, *once], first),
        _at_embedding(step, others),
    ]
    if step.share.holds_head and step.model.head is not None:
        moments.append(_at_head(step, all_saved, once))
    return moments


def _at_head(step: Step, all_saved: list[Entry], once: list[Entry]) -> list[Entry]:
    """The head's own backward: everything saved is there, and the gradients of logits, head and its input."""
    setup = step.setup
    casts = [] if casts_again(setup) else cast_entries(step, BACKWARD)
    return [*all_saved, *casts, *once, *gathered_entries(step, 1, BACKWARD), *backward_of_head(step)]


def backward_of_head(step: Step) -> list[Entry]:
    """What the head's backward adds: its product's gradients, or the casts of them, whichever is more."""
    setup = step.setup
    product = [
        *saved_head_entries(step, BACKWARD),
        *stream_gradient(step, 1, "stream_gradient", "head_backward", setup.compute_bytes),
        *_logit_gradients(step),
        *_head_gradient(step, setup.compute_bytes * (2 if setup.training.loss == "chunked" else 1)),
    ]
    if setup.optimizer.in_backward and setup.adapter is None and not casts_head(setup):
        stepped = [
            final_norm_entry(step, BACKWARD),
            *stream_gradient(step, 1, "stream_gradient", "head_backward"),
            *_stepped(step, "head"),
        ]
        return fullest((product, stepped))
    if not casts_head(setup):
        return product
    cast_back = [
        final_norm_entry(step, BACKWARD),
        *stream_gradient(step, 1, "stream_gradient", "head_backward"),
        *_head_gradient(step, setup.compute_bytes + setup.param_bytes),
    ]
    return fullest((product, cast_back))


def _logit_gradients(step: Step) -> list[Entry]:
    """In the format of products; a fused head and loss has made the gradient of the head's input instead."""
    t, v, e = step.setup.target_tokens, step.logit_width, step.setup.compute_bytes
    if step.setup.training.loss in WHOLE_LOGITS_NEVER:
        return []
    if step.setup.runtime == "litgpt":
        return head_gradients(step)
    scaled = step.model.model_type in SCALES_LOGITS
    gradients = item(
        Category.LOGITS,
        "logit_gradients",
        (1 + scaled) * t * v * e,
        "k*t*V*e",
        {"k": 1 + scaled, "t": t, "V": v, "e": e},
        "head_backward",
        phases=BACKWARD,
    )
    return [gradients, *capped_logits(step, BACKWARD)]


def _head_gradient(step: Step, e: int) -> list[Entry]:
    """The output matrix's gradient, whole; autocast makes it in 16 bit and then casts it."""
    setup = step.setup
    if setup.adapter is not None or setup.megatron:
        return []
    v, h, made = step.vocab, step.model.hidden_size, setup.training.loss in WHOLE_LOGITS_NEVER
    return [
        item(
            Category.LOGITS if made else Category.GRADIENTS,
            "loss_head_gradient" if made else "gradients",
            v * h * e,
            "V*h*e",
            {"V": v, "h": h, "e": e},
            "head_backward",
            phases=BACKWARD,
        )
    ]


@dataclass(frozen=True, slots=True)
class _Working:
    """The layer whose backward runs: what it keeps (made again if checkpointed), and its gradients."""

    kept: list[Entry]
    gradients: list[Entry]


def _working_layer(step: Step, kind: Kind) -> _Working:
    again = (
        step.setup.checkpointed or step.setup.training.checkpointing in SELECTIVE or step.setup.keeps_frac < 1
    )
    name = "recomputed_layer" if again else "saved_activations"
    return _Working(layer_entries(step, kind, 1, BACKWARD, name), layer_gradients(step, kind))


def _at_last_layer(step: Step, held: list[Entry], layer: _Working) -> list[Entry]:
    """Everything saved is there; the last layer is computed again where it was checkpointed."""
    setup, kind = step.setup, setup_checkpointing(step.setup)
    around = [
        *held,
        *_gradients_above(step, arrived(step, step.largest)),
        *gathered_entries(step, 2, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]
    again: list[Entry]
    if setup.checkpointed:
        interval = checkpoint_interval(setup)
        last = step.num_layers % interval or interval
        again = layer_entries(step, step.largest, last, BACKWARD, "recomputed_layer")
        inside = layer_gradients(step, step.largest, counted=1)
        others = softmax_again(step, step.largest, counted=1), scores_held(step, step.largest, counted=1)
        return [*around, *again, *fullest((inside, stepped_gradient(step, step.largest), *others))]
    if kind == "selective_op" or setup.keeps_frac < 1:
        again = again_entries(step, step.largest, BACKWARD)
    elif kind == "selective_attention":
        around += cast_entries(step, BACKWARD)
        core = [*again_entries(step, step.largest, BACKWARD), *score_gradients(step, step.largest)]
        return [*around, *fullest((mlp_gradients(step, step.largest), core))]
    else:
        again = cast_entries(step, BACKWARD)
    return [*around, *again, *fullest((layer.gradients, stepped_gradient(step, step.largest)))]


def _at_last_whole_group(step: Step, once: list[Entry], stored: int) -> list[list[Entry]]:
    """The last group of as many layers as are computed again together, where fewer are left over above it."""
    interval = checkpoint_interval(step.setup)
    left = step.num_layers % interval
    if not step.setup.checkpointed or not left or step.num_layers < interval:
        return []
    held = held_layers(step, BACKWARD, but=1 + stored)
    above = step.trained_at["head"] + left * trained_in(step, step.largest) + arrived(step, step.largest)
    again = layer_entries(step, step.largest, interval, BACKWARD, "recomputed_layer")
    inside = layer_gradients(step, step.largest, counted=1)
    return [[
        *held,
        *once,
        *gradients_so_far(step, above),
        *_fresh(step, step.largest),
        *gathered_entries(step, 2, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
        *again,
        *fullest((inside, softmax_again(step, step.largest, counted=1))),
    ]]  # fmt: skip


def _at_experts(step: Step, around: list[Entry], others: list[Entry], once: list[Entry]) -> list[list[Entry]]:
    """The gradient of a layer's stacked experts as it comes, in the last layer that has any and in the first.

    Gradients of layers below are not there, unless they are from the micro-batch before.
    """
    setup, layers = step.setup, (*step.share.encoder_layers, *step.share.layers)
    routed = [n for n, layer in enumerate(layers) if layer.mlp.kind is MlpKind.MOE]
    kind = next((kind for kind in step.kinds if kind.layer.mlp.kind is MlpKind.MOE), None)
    if kind is None or not routed or setup.adapter is not None or not groups_experts(setup):
        return []
    if setup.megatron or setup.training.activation_offload:
        return []
    experts = sum(x.params for x in kind.layer.linears if x.part is Part.EXPERTS)
    below = sum(layer.params for layer in layers[: routed[0]])
    above = step.trained_params - step.trained_at["embedding"] - below - kind.layer.params
    kept = layer_entries(step, at_experts(step, kind), 1, BACKWARD, "recomputed_layer")
    fresh, inside = _fresh_experts(step, kind), expert_gradients(step, kind)
    counted = expert_gradients(step, kind, counted=1)
    stored = stored_inputs(step, BACKWARD, 1, but=step.num_layers - routed[0])
    interval = checkpoint_interval(setup)
    together = interval - 1
    if setup.checkpointed and step.num_layers % interval:
        around = held_layers(step, BACKWARD, but=1 + int(reads_stored(step)))
    if not setup.checkpointed:
        parts = [kind.without_one() if one is kind else one for one in step.kinds]
        around = [
            entry
            for one in parts
            for entry in layer_entries(
                step, one, one.count * step.share.in_flight, BACKWARD, "saved_activations"
            )
        ]
    group = layer_entries(step, kind, together, BACKWARD, "recomputed_layer") if together else []
    last = [*around, *once, *group, *kept, *_gradients_above(step, experts)]
    held = [stored] if setup.checkpointed and checkpoint_interval(setup) == 1 and routed[0] else []
    cache = kept_cache(step, BACKWARD, but_first=True)
    first = [*others, *once, *cache, *kept, *held, *gradients_so_far(step, max(0, above + experts))]
    around_units = [*gathered_entries(step, 1, BACKWARD), *unit_gradient_entries(step, BACKWARD)]
    return [[*last, *fresh, *counted, *around_units], [*first, *fresh, *inside, *around_units]]


def _fresh_experts(step: Step, kind: Kind) -> list[Entry]:
    """The stacked up projections' gradient, where all are there from the micro-batch before, or as it is stepped."""
    setup = step.setup
    if setup.optimizer.in_backward:
        return stepped_entries(setup, [t for t in step.trained if t.place == "experts"])
    if setup.training.gradient_accumulation < 2 or Phase.BACKWARD not in gradient_phases(setup):
        return []
    ups = sum(x.params for x in kind.layer.linears if x.part is Part.EXPERTS and x.split is not Split.ROW)
    params, e = ceil_div(ups, step.setup.division.expert), setup.train_bytes
    symbols = {"P": params, "e": e}
    return [
        item(Category.GRADIENTS, "gradients", params * e, "P*e", symbols, "gradients", phases=BACKWARD)
    ]  # fmt: skip


def _at_final_norm(step: Step, held: list[Entry]) -> list[list[Entry]]:
    """The last norm's backward in single steps, where everything saved is there and a fused loss left no logits."""
    setup = step.setup
    fused = setup.training.loss in WHOLE_LOGITS_NEVER
    if not fused or step.model.norm == "layer_norm" or "rms_norm" in fused_kernels(setup):
        return []
    fewer = setup.adapter is not None and setup.residual_bytes == 4
    k = (NORM_TENSORS - int(fewer)) * (4 // setup.residual_bytes)
    casts = [] if casts_again(setup) else cast_entries(step, BACKWARD)
    return [[
        *held,
        *casts,
        *_gradients_above(step),
        *gathered_entries(step, 1, BACKWARD),
        final_norm_entry(step, BACKWARD),
        *stream_gradient(step, k, "stream_gradient", "head_backward"),
    ]]  # fmt: skip


def _gradients_above(step: Step, more: int = 0) -> list[Entry]:
    """Gradients that are there when the backward pass comes to the last layer, and `more` elements of its own."""
    setup, above = step.setup, step.trained_at["head"] + more
    fresh = _fresh(step, step.largest) if more and step.largest.layer.mlp.kind is not MlpKind.MOE else []
    tied = step.model.tie_word_embeddings and step.share.holds_head
    if not tied:
        return [*gradients_so_far(step, above), *fresh]
    if setup.training.loss in WHOLE_LOGITS_NEVER and setup.adapter is None and setup.shard_gradients == 1:
        return [*gradients_so_far(step, above), *fresh, *_head_gradient(step, setup.train_bytes)]
    matrix = min(step.vocab * step.model.hidden_size, step.trained_at["embedding"])
    return [*gradients_so_far(step, above + matrix), *fresh]


def _fresh(step: Step, kind: Kind) -> list[Entry]:
    """A gradient that has just come, where all are there from the micro-batch before: it is added, then gone."""
    setup = step.setup
    added = setup.training.gradient_accumulation > 1 and Phase.BACKWARD in gradient_phases(setup)
    if not added or setup.megatron or setup.adapter is not None or setup.optimizer.in_backward:
        return []
    params, e = (0 if at_scores(step, kind) else arrived(step, kind)), setup.train_bytes
    symbols = {"P": params, "e": e}
    return [
        item(Category.GRADIENTS, "gradients", params * e, "P*e", symbols, "gradients", phases=BACKWARD)
    ]  # fmt: skip


def setup_checkpointing(setup: Setup) -> str:
    """The kind of checkpointing, of Megatron's layers none that they do not already leave out."""
    kind = setup.training.checkpointing or "none"
    return kind if not setup.megatron else "none"


def _at_first_layer(step: Step, held: list[Entry], layer: _Working) -> list[Entry]:
    """One layer's tensors, or those of the first ones that are computed again together, and the gradients above."""
    setup = step.setup
    above = step.trained_params - step.trained_at["embedding"]
    together = (
        step.starting(checkpoint_interval(setup)) if setup.checkpointed else (replace(step.first, count=1),)
    )
    above -= sum(kind.count * trained_in(step, kind) for kind in together) - arrived(step, together[-1])
    retained = _retained_by_fsdp(step)
    around = [
        *held,
        *kept_cache(step, BACKWARD, but_first=True),
        *retained,
        *gradients_so_far(step, max(0, above)),
        *_fresh(step, together[-1]),
        *_waiting_head_gradient(step),
        *gathered_entries(step, 1, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]
    if setup_checkpointing(setup) == "selective_attention":
        saved = layer_entries(step, step.first, 1, BACKWARD, "saved_activations")
        core = [*again_entries(step, step.first, BACKWARD), *score_gradients(step, step.first)]
        return [*around, *saved, *fullest((mlp_gradients(step, step.first), core))]
    if retained and setup.recomputes_output:
        return [*around, *layer.kept, *layer_gradients(step, step.first, counted=1)]
    if len(together) == 1 and together[0].count == 1:
        moments = layer.gradients, stepped_gradient(step, step.first), softmax_again(step, step.first)
        return [*around, *layer.kept, *fullest(moments)]
    kept = [
        entry
        for kind in together
        for entry in layer_entries(step, kind, kind.count, BACKWARD, "recomputed_layer")
    ]
    others = softmax_again(step, step.first), scores_held(step, step.first)
    return [*around, *kept, *fullest((layer.gradients, *others))]


def _waiting_head_gradient(step: Step) -> list[Entry]:
    """A tied matrix's gradient from the head waits until the embedding's comes (autograd's `InputBuffer`)."""
    tied = step.model.tie_word_embeddings and step.share.holds_head and step.share.holds_embedding
    counted = Phase.BACKWARD in gradient_phases(step.setup)
    if not tied or step.setup.shard_gradients > 1 or (counted and step.setup.megatron) or not step.vocab:
        return []
    return _head_gradient(step, step.setup.train_bytes)


def _stepped(step: Step, place: Place) -> list[Entry]:
    """A parameter outside the layers whose gradient has come, and is stepped at once."""
    tied = step.model.tie_word_embeddings and step.share.holds_head and step.share.holds_embedding
    if tied and place == "head":
        return _head_gradient(step, step.setup.train_bytes)
    return stepped_entries(step.setup, [t for t in step.trained if t.place == place])


def _at_embedding(step: Step, others: list[Entry]) -> list[Entry]:
    """All gradients, with the gradient of the stream, or with those that a tied head and embedding add up."""
    tied = _tied_gradients(step)
    return [
        *others,
        *(tied or stream_gradient(step, 1, "stream_gradient")),
        *root_gradient_entries(step),
        *kept_cache(step, BACKWARD),
        *id_entries(step, BACKWARD),
        *gradients_so_far(step, step.trained_params),
        *_stepped(step, "embedding"),
        *(() if Phase.BACKWARD in gradient_phases(step.setup) else embedding_gradient(step, BACKWARD)),
        *tied_gradient(step),
        *gathered_entries(step, 0, BACKWARD),
    ]


def _tied_gradients(step: Step) -> list[Entry]:
    """The tied matrix's gradient from the head waits, the embedding's comes, and their sum is a third tensor.

    The sum is counted with all gradients, except where those are divided or were there before.
    """
    setup, share = step.setup, step.share
    tied = step.model.tie_word_embeddings and share.holds_embedding and share.holds_head
    if not tied or setup.adapter is not None or setup.megatron or not step.vocab:
        return []
    times = 3 if setup.shard_gradients > 1 or setup.training.gradient_accumulation > 1 else 2
    v, h, e = step.vocab, step.model.hidden_size, setup.train_bytes
    made = setup.training.loss in WHOLE_LOGITS_NEVER
    times -= made
    return [
        *(_head_gradient(step, e) if made else ()),
        item(
            Category.GRADIENTS,
            "tied_gradients",
            times * v * h * e,
            "k*V*h*e",
            {"k": times, "V": v, "h": h, "e": e},
            "tied_gradients",
            phases=BACKWARD,
        ),
    ]


def stream_gradient(
    step: Step, times: int, name: str, reference: str = "activations_eager", e: int | None = None
) -> list[Entry]:
    """Gradients of the residual stream, `times` of them; whole at its ends where ranks cut the sequence."""
    setup, h = step.setup, step.model.hidden_size if step.cuts_sequence else step.residual_width
    e = setup.residual_bytes if e is None else e
    return [
        item(
            Category.ACTIVATIONS,
            name,
            times * setup.tokens * h * e,
            "L*t*h*e",
            {"L": times, "t": setup.tokens, "h": h, "e": e},
            reference,
            phases=BACKWARD,
        )
    ]


def _retained_by_fsdp(step: Step) -> list[Entry]:
    """Under PyTorch's first FSDP a unit with frozen parameters holds its inputs, with their gradients, to the end.

    `_register_post_backward_reshard_only_hook` hooks the inputs of such a unit (`register_multi_grad_hook`) and drops
    the handle only when the whole backward pass is over; the inputs are the ones checkpointing detached, so both they
    and the gradients gathered on them stay. The first layer's own output gradient is the last one's.
    """
    setup = step.setup
    frozen = setup.adapter is not None and setup.parallel.sharding == "fsdp" and setup.shard_weights > 1
    if not frozen or not setup.checkpointed or setup.runtime not in FSDP1_RUNTIMES or step.num_layers < 2:
        return []
    inputs = stored_inputs(step, BACKWARD, 1)
    return [inputs, *stream_gradient(step, step.num_layers - 2, "retained_gradients", "fsdp_retained")]


def gradients_so_far(step: Step, params: int) -> list[Entry]:
    """Gradients that have come so far."""
    setup = step.setup
    if is_flat(setup) and longest_first(setup):
        return growing_gradients(step, params)
    counted = Phase.BACKWARD in gradient_phases(setup) or keeps_whole_gradients(setup)
    if counted or setup.parallel.offload.gradients != "none":
        return []
    if setup.optimizer.in_backward:
        return []
    n, e = setup.shard_gradients, setup.gradient_bytes
    formula, symbols = (
        ("P*e", {"P": params, "e": e}) if n == 1 else ("ceil(P/N)*e", {"P": params, "N": n, "e": e})
    )
    return [
        item(
            Category.GRADIENTS,
            "gradients",
            ceil_div(params, n) * e,
            formula,
            symbols,
            "gradients",
            phases=BACKWARD,
        )
    ]
