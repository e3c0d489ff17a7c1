"""Ledger entries of the backward pass: its fullest moment.

At the head all activations are there with the gradients of logits and head; at the last layer all activations and few
gradients; at the first layer one layer's activations and almost all gradients; at the embedding all gradients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Tensor
from planner.memory.litgpt import longest_first
from planner.memory.terms import item, whole
from planner.model.spec import MlpKind
from planner.moments import fullest
from planner.training_flat import growing_gradients, is_flat, root_gradient_entries
from planner.training_gather import gathered_entries, unit_gradient_entries
from planner.training_litgpt import head_gradients
from planner.training_loss import (
    WHOLE_LOGITS_NEVER,
    casts_head,
    final_norm_entry,
    saved_head_entries,
)
from planner.training_once import id_entries, once_entries
from planner.training_setup import Setup, fused_kernels
from planner.training_states import gradient_phases, keeps_whole_gradients
from planner.training_step import (
    BACKWARD,
    Kind,
    Step,
    cast_entries,
    checkpoint_interval,
    exact,
    held_layers,
    kept_cache,
    layer_entries,
    stored_inputs,
)
from planner.units import ceil_div

SELECTIVE: Final = frozenset({"selective_op", "selective_attention"})
FSDP1_RUNTIMES: Final = frozenset({"hf_trainer"})


def backward_moments(step: Step) -> list[list[Entry]]:
    """The entries of the four moments; the fullest of them is the phase."""
    if not step.kinds:
        return []
    all_saved, once = held_layers(step, BACKWARD), once_entries(step, BACKWARD)
    others = held_layers(step, BACKWARD, step.share.in_flight - 1)
    layer = _working_layer(step, step.largest)
    first = layer if step.first is step.largest else _working_layer(step, step.first)
    moments = [
        _at_last_layer(step, [*all_saved, *once], layer),
        _at_first_layer(step, [*others, *once], first),
        _at_embedding(step, others),
    ]
    if step.share.holds_head and step.model.head is not None:
        moments.append(_at_head(step, all_saved, once))
    return moments


def _at_head(step: Step, all_saved: list[Entry], once: list[Entry]) -> list[Entry]:
    """The head's own backward: everything saved is there, and the gradients of logits, head and its input."""
    setup = step.setup
    casts = [] if setup.checkpointed else cast_entries(step, BACKWARD)
    around = [*all_saved, *casts, *once, *gathered_entries(step, 1, BACKWARD)]
    product = [
        *saved_head_entries(step, BACKWARD),
        *_stream_gradient(step, 1, "stream_gradient", "head_backward", setup.compute_bytes),
        *_logit_gradients(step),
        *_head_gradient(step, setup.compute_bytes * (2 if setup.training.loss == "chunked" else 1)),
    ]
    if not casts_head(setup):
        return [*around, *product]
    cast_back = [
        final_norm_entry(step, BACKWARD),
        *_stream_gradient(step, 1, "stream_gradient", "head_backward"),
        *_head_gradient(step, setup.compute_bytes + setup.param_bytes),
    ]
    return [*around, *fullest((product, cast_back))]


def _logit_gradients(step: Step) -> list[Entry]:
    """In the format of products; a fused head and loss has made the gradient of the head's input instead."""
    t, v, e = step.setup.target_tokens, step.vocab, step.setup.compute_bytes
    if step.setup.training.loss in WHOLE_LOGITS_NEVER:
        return []
    if step.setup.runtime == "litgpt":
        return head_gradients(step)
    return [
        item(
            Category.LOGITS,
            "logit_gradients",
            t * v * e,
            "t*V*e",
            {"t": t, "V": v, "e": e},
            "head_backward",
            phases=BACKWARD,
        )
    ]


def _head_gradient(step: Step, e: int) -> list[Entry]:
    """The output matrix's gradient, whole; autocast makes it in 16 bit and then casts it."""
    setup = step.setup
    if setup.adapter is not None or setup.megatron:
        return []
    v, h = step.vocab, step.model.hidden_size
    return [
        item(
            Category.GRADIENTS,
            "gradients",
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
    again = step.setup.checkpointed or step.setup.training.checkpointing in SELECTIVE
    name = "recomputed_layer" if again else "saved_activations"
    return _Working(layer_entries(step, kind, 1, BACKWARD, name), layer_gradients(step, kind))


def _at_last_layer(step: Step, held: list[Entry], layer: _Working) -> list[Entry]:
    """Everything saved is there; the last layer is computed again where it was checkpointed."""
    setup, interval = step.setup, checkpoint_interval(step.setup)
    if interval > 1:
        held = [*held, *layer_entries(step, step.largest, interval, BACKWARD, "recomputed_layer")]
    elif setup.checkpointed or setup.training.checkpointing in SELECTIVE:
        held = [*held, *layer.kept]
    else:
        held = [*held, *cast_entries(step, BACKWARD)]
    above = step.trained_at["head"]
    if step.model.tie_word_embeddings and step.share.holds_head:
        above += step.trained_at["embedding"]
    return [
        *held,
        *layer.gradients,
        *_gradients(step, above),
        *gathered_entries(step, 2, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]


def _at_first_layer(step: Step, held: list[Entry], layer: _Working) -> list[Entry]:
    """One layer's tensors, and the gradients of all that lies above it."""
    above = step.trained_params - step.trained_at["embedding"]
    less = step.first.layer.params if step.setup.adapter is None else 0
    return [
        *held,
        *layer.kept,
        *kept_cache(step, BACKWARD, but_first=True),
        *_retained_by_fsdp(step),
        *layer.gradients,
        *_gradients(step, max(0, above - less)),
        *gathered_entries(step, 1, BACKWARD),
        *unit_gradient_entries(step, BACKWARD),
    ]


def _at_embedding(step: Step, others: list[Entry]) -> list[Entry]:
    """All gradients, with the gradient of the stream, or with those that a tied head and embedding add up."""
    tied = _tied_gradients(step)
    return [
        *others,
        *(tied or _stream_gradient(step, 1, "stream_gradient")),
        *root_gradient_entries(step),
        *kept_cache(step, BACKWARD),
        *id_entries(step, BACKWARD),
        *_gradients(step, step.trained_params),
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
    return [
        item(
            Category.GRADIENTS,
            "tied_gradients",
            times * v * h * e,
            "k*V*h*e",
            {"k": times, "V": v, "h": h, "e": e},
            "tied_gradients",
            phases=BACKWARD,
        )
    ]


def _stream_gradient(
    step: Step, times: int, name: str, reference: str = "activations_eager", e: int | None = None
) -> list[Entry]:
    setup, h = step.setup, step.residual_width
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
    return [inputs, *_stream_gradient(step, step.num_layers - 2, "retained_gradients", "fsdp_retained")]


def inner_width(step: Step, kind: Kind) -> float:
    """Feed-forward elements per token that are in work at once; experts run one after the other before version 5."""
    form, mlp = kind.form, kind.layer.mlp
    if mlp.kind is not MlpKind.MOE:
        return form.widths["i"]
    grouped = step.setup.megatron or not step.setup.version or step.setup.version >= (5,)
    routed = form.widths["xi"] / (1 if grouped else mlp.num_experts)
    return max(routed, form.widths["si"])


def inner_tensors(setup: Setup, *, gated: bool) -> int:
    """Gradients inside a feed-forward part that are alive beyond what their arrival frees.

    A gated part has the product's, the activation's and the up projection's at once; the product itself goes when its
    gradient comes, if it was kept at all (it is not, for a frozen projection without an adapter).
    """
    kept = setup.adapter is None
    if "swiglu" in fused_kernels(setup):
        return 0 if kept else 1
    return (3 if gated else 2) - (1 if kept else 0)


def layer_gradients(step: Step, kind: Kind) -> list[Entry]:
    """Inside a layer: the stream's gradient, its output computed again, and the feed-forward part's own gradients."""
    setup = step.setup
    t, h, res, e = setup.batch * kind.sequence, step.residual_width, setup.residual_bytes, setup.compute_bytes
    streams = 2 if setup.checkpointed else 1
    c, i = inner_tensors(setup, gated=kind.layer.mlp.gated), exact(inner_width(step, kind))
    width, form = int(kind.form.widths["h"]), kind.form
    wide, formula = c * t * i * e, "ceil(t*(k*h*r + c*i*e))"
    symbols: dict[str, int | float] = {"t": t, "k": streams, "h": h, "r": res, "c": c, "i": i, "e": e}
    kept = sum(coefficient for x, coefficient in form.terms.items() if x in {"i", "xi", "si"})
    others = []
    if form.score_gradients:
        scores = form.score_gradients * setup.batch * form.heads * kind.sequence**2 - t * i * kept
        wide, others = max(wide, scores), ["g*b*n*s*s - t*i*f"]
        symbols |= {"g": form.score_gradients, "b": setup.batch, "n": form.heads, "s": kind.sequence, "f": kept}
    if setup.quantized_base:
        wide, others = max(wide, (c - 2) * t * i * e + i * width * e), [*others, "(c - 2)*t*i*e + i*w*e"]
        symbols["w"] = width
    if others:
        formula = f"ceil(t*k*h*r + max(c*t*i*e, {', '.join(others)}))"
    return [_layer_gradients(t * streams * h * res + wide, formula, symbols)]


def _layer_gradients(amount: float, formula: str, symbols: dict[str, int | float]) -> Entry:
    return item(
        Category.ACTIVATIONS,
        "layer_gradients",
        whole(amount),
        formula,
        symbols,
        "backward_inside_layer",
        phases=BACKWARD,
    )


def _gradients(step: Step, params: int) -> list[Entry]:
    """Gradients that have come so far."""
    setup = step.setup
    if is_flat(setup) and longest_first(setup):
        return growing_gradients(step, params)
    counted = Phase.BACKWARD in gradient_phases(setup) or keeps_whole_gradients(setup)
    if counted or setup.parallel.offload.gradients != "none":
        return []
    if setup.optimizer.in_backward:
        params = min(params, _largest_tensor(step.trained))
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


def _largest_tensor(tensors: Sequence[Tensor]) -> int:
    return max((t.rows * t.columns for t in tensors), default=0)
