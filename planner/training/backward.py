"""Ledger entries of the backward pass: its fullest moment.

At the head all activations are there with the gradients of logits and head; at the last layer all activations and few
gradients; at the first layer one layer's activations and almost all gradients; at the embedding all gradients.
"""

from typing import Final, NamedTuple

from planner.ledger import Entry, Phase
from planner.memory.communication import ZERO_BUCKET
from planner.moments import fullest
from planner.training.arrived import arrived, trained_in
from planner.training.backward_experts import at_stacked_experts
from planner.training.backward_gradients import (
    fresh_gradient,
    gradients_above,
    gradients_so_far,
    stream_gradient,
)
from planner.training.backward_head import (
    backward_of_head,
    stepped_outside_layers,
    tied_gradients,
    waiting_head_gradient,
)
from planner.training.dtensor import embedding_gradient, tied_gradient
from planner.training.fsdp1_flat import root_gradient_entries
from planner.training.gather import gathered_entries, unit_gradient_entries
from planner.training.gradients import gradient_phases
from planner.training.head import WHOLE_LOGITS_NEVER, final_norm_entry
from planner.training.inside_layer import (
    NORM_TENSORS,
    layer_gradients,
    mlp_gradients,
    score_gradients,
    scores_held,
    softmax_again,
    stepped_gradient,
)
from planner.training.kept_outputs import kept_cache
from planner.training.once import id_entries, once_entries
from planner.training.picture_passes import picture_moments
from planner.training.pictures import learned_later
from planner.training.saved import (
    SELECTIVE,
    again_entries,
    cast_entries,
    casts_again,
    checkpoint_interval,
    held_layers,
    layer_entries,
    reads_stored,
    stored_inputs,
)
from planner.training.setup import Setup, fused_kernels
from planner.training.step import BACKWARD, Kind, Step
from planner.training.zero import (
    BUCKETED,
    arriving,
    at_last_reduction,
    is_zero,
    parts_gradients,
    reduced_so_far,
)
from planner.units import ceil_div

FSDP1_RUNTIMES: Final = frozenset({"hf_trainer"})


def backward_moments(step: Step) -> list[list[Entry]]:
    """The entries of every moment that may be the fullest; the fullest of them is the phase."""
    if step.model.unet is not None:
        from planner.diffusion.unet_memory import backward_moments as of_unet  # noqa: PLC0415 - only U-Nets need it

        once = once_entries(step, BACKWARD)
        return [[*once, *moment] for moment in of_unet(step)]
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
        *(_at_reduction(step, once, layer, stored, full) for full in _filled_buckets(step)),
        *_at_last_reduction(step, others),
        *_at_final_norm(step, [*all_saved, *once]),
        *at_stacked_experts(step, around, others, once),
        _at_first_layer(step, [*others, *once], first),
        _at_embedding(step, others),
        *picture_moments(step, others),
    ]
    if step.share.holds_head and step.model.head is not None:
        moments.append(_at_head(step, all_saved, once))
    return moments


def _at_head(step: Step, all_saved: list[Entry], once: list[Entry]) -> list[Entry]:
    """The head's own backward: everything saved is there, and the gradients of logits, head and its input."""
    setup = step.setup
    casts = [] if casts_again(setup) else cast_entries(step, BACKWARD)
    return [*all_saved, *casts, *once, *gathered_entries(step, 1, BACKWARD), *backward_of_head(step)]


class _Working(NamedTuple):
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
        *gradients_above(step, arrived(step, step.largest)),
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
        *fresh_gradient(step, step.largest),
        *gathered_entries(step, 2, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
        *again,
        *fullest((inside, softmax_again(step, step.largest, counted=1))),
    ]]  # fmt: skip


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
        *gradients_above(step),
        *gathered_entries(step, 1, BACKWARD),
        final_norm_entry(step, BACKWARD),
        *stream_gradient(step, k, "stream_gradient", "head_backward"),
    ]]  # fmt: skip


def setup_checkpointing(setup: Setup) -> str:
    """The kind of checkpointing, of Megatron's layers none that they do not already leave out."""
    kind = setup.training.checkpointing or "none"
    return kind if not setup.megatron else "none"


def _at_first_layer(step: Step, held: list[Entry], layer: _Working) -> list[Entry]:
    """One layer's tensors, or those of the first ones that are computed again together, and the gradients above."""
    setup = step.setup
    above = step.trained_params - step.trained_at["embedding"] - learned_later(step)
    together = step.starting(checkpoint_interval(setup)) if setup.checkpointed else (step.first.times(1),)
    above -= sum(kind.count * trained_in(step, kind) for kind in together) - arrived(step, together[-1])
    retained = _retained_by_fsdp(step)
    around = [
        *held,
        *kept_cache(step, BACKWARD, but_first=True),
        *retained,
        *gradients_so_far(step, max(0, above)),
        *fresh_gradient(step, together[-1]),
        *waiting_head_gradient(step),
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


def _filled_buckets(step: Step) -> list[int]:
    """ZeRO-2: elements that have come when the first and the second bucket are full inside the layers."""
    setup, head = step.setup, step.trained_at["head"]
    if not parts_gradients(setup) or not step.num_layers:
        return []
    inside = trained_in(step, step.largest) * (step.num_layers - 1)
    return [come for come in (ZERO_BUCKET, 2 * ZERO_BUCKET) if head < ZERO_BUCKET and come < head + inside]


def _at_reduction(step: Step, once: list[Entry], layer: _Working, stored: int, come: int) -> list[Entry]:
    """ZeRO-2: the layer whose gradients fill a bucket, where most is still saved."""
    above = ceil_div(come - step.trained_at["head"], trained_in(step, step.largest))
    held = _held_below(step, above, stored)
    full = reduced_so_far(step.setup, come, step.trained_params)
    return [*_at_last_layer(step, [*held, *once], layer), *full]


def _held_below(step: Step, above: int, stored: int) -> list[Entry]:
    """What is saved when the backward pass has left so many layers behind it."""
    if step.setup.checkpointed or step.setup.training.activation_offload:
        return held_layers(step, BACKWARD, but=above // checkpoint_interval(step.setup) + stored)
    entries = [*held_layers(step, BACKWARD, step.share.in_flight - 1)]
    for kind in reversed(step.kinds):
        gone = min(above, kind.count)
        above -= gone
        if kind.count > gone:
            entries += layer_entries(step, kind, kind.count - gone, BACKWARD, "saved_activations")
    return entries


def _at_last_reduction(step: Step, others: list[Entry]) -> list[list[Entry]]:
    """ZeRO-1 and 2: the backward pass is over, and what is in the bucket is exchanged."""
    setup = step.setup
    if not is_zero(setup) or setup.parallel.sharding not in BUCKETED:
        return []
    whole = [] if parts_gradients(setup) else gradients_so_far(step, step.trained_params)
    return [[*others, *whole, *at_last_reduction(setup, step.trained_params)]]


def _at_embedding(step: Step, others: list[Entry]) -> list[Entry]:
    """All gradients, with the gradient of the stream, or with those that a tied head and embedding add up."""
    tied = tied_gradients(step)
    if parts_gradients(step.setup):
        come = arriving(step.setup, step.trained_at["embedding"], step.trained_params)
    else:
        come = gradients_so_far(step, step.trained_params)
    return [
        *others,
        *(tied or stream_gradient(step, 1, "stream_gradient")),
        *root_gradient_entries(step),
        *kept_cache(step, BACKWARD),
        *id_entries(step, BACKWARD),
        *come,
        *stepped_outside_layers(step, "embedding"),
        *(() if Phase.BACKWARD in gradient_phases(step.setup) else embedding_gradient(step, BACKWARD)),
        *tied_gradient(step),
        *gathered_entries(step, 0, BACKWARD),
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
