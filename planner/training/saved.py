"""What the forward pass keeps for the backward pass: saved tensors, checkpoints' inputs, autocast's casts."""

from typing import Final

from planner.lazy import once
from planner.ledger import Category, Entry, Phase
from planner.memory.layer_norms import CENTRES, NORMS_NOT_BEFORE
from planner.memory.layer_view import LayerForm, expert_bytes
from planner.memory.terms import PerToken, exact, item, summed, whole
from planner.training.groups import total
from planner.training.setup import Setup, fused_kernels
from planner.training.step import FORWARD, FORWARD_AND_LOSS, LOSS, Kind, Step, once_a_layer
from planner.training.titan import NAME
from planner.units import ceil_div

CAST_PLACES: Final = frozenset({"layers", "experts", "adapter"})
SELECTIVE: Final = frozenset({"selective_op", "selective_attention"})


def saved_entries(step: Step) -> list[Entry]:
    """What the forward pass keeps for the backward pass, alive through forward and loss."""
    loss = frozenset() if casts_again(step.setup) else LOSS
    return [
        *held_layers(step, FORWARD_AND_LOSS),
        *cast_entries(step, FORWARD | loss),
    ]


def keeps_stream(step: Step) -> bool:
    """Whether a norm in single steps keeps the very tensor it reads.

    A layer norm keeps its input as it is, an RMS norm an fp32 one; under autocast a 16-bit stream is widened before.
    """
    setup = step.setup
    if step.model.model_type in CENTRES:
        return False
    if step.model.norm == "layer_norm":
        return not setup.autocast or setup.residual_bytes == 4
    return setup.residual_bytes == 4 and "rms_norm" not in fused_kernels(setup)


@once
def reads_stored(step: Step) -> bool:
    """Whether what a checkpoint stored is the very tensor that the first norm of what is computed again keeps."""
    setup = step.setup
    if not setup.checkpointed or setup.training.activation_offload or setup.megatron:
        return False
    return setup.runtime != "litgpt" and step.model.model_type not in NORMS_NOT_BEFORE and keeps_stream(step)


def held_layers(
    step: Step, phases: frozenset[Phase], times: float | None = None, *, but: int = 0
) -> list[Entry]:
    """What all layers of this stage keep, for `times` micro-batches (those in flight if not given).

    Args:
        step: The step.
        phases: When it is there.
        times: Micro-batches.
        but: Stored inputs that are left out.
    """
    times = step.share.in_flight if times is None else times
    if times <= 0:
        return []
    if step.setup.checkpointed:
        return [stored_inputs(step, phases, times, but=but)]
    if step.setup.training.activation_offload:
        return (
            layer_entries(step, step.largest, min(1, times), phases, "saved_activations")
            if step.kinds
            else []
        )
    return [
        entry
        for kind in step.kinds
        for entry in layer_entries(step, kind, kind.count * times, phases, "saved_activations")
    ]


def offloaded_bytes(step: Step) -> int:
    """What the layers keep in host memory instead (`activation_offload`)."""
    if not step.setup.training.activation_offload:
        return 0
    if step.setup.checkpointed:
        return stored_inputs(step, FORWARD, step.share.in_flight, offloaded=False).bytes
    times = step.share.in_flight
    kept = (
        layer_entries(step, kind, kind.count * times, FORWARD, "saved_activations") for kind in step.kinds
    )
    return sum(entry.bytes for entries in kept for entry in entries)


@once_a_layer
def layer_entries(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    """What `layers` layers of a kind keep: tensors as long as the sequence, and attention scores if any."""
    kept = kind.form.kept_between if name == "saved_activations" else kind.form.kept
    return _layer_entries(step, kind, layers, phases, name, kept)


def again_entries(step: Step, kind: Kind, phases: frozenset[Phase]) -> list[Entry]:
    """What the backward pass of one layer makes again beside what selective checkpointing kept of it."""
    again = (("", summed(kind.form.again, kind.form.widths)),)
    return _layer_entries(step, kind, 1, phases, "recomputed_layer", again)


def _layer_entries(
    step: Step,
    kind: Kind,
    layers: float,
    phases: frozenset[Phase],
    name: str,
    kept: tuple[tuple[str, PerToken], ...],
) -> list[Entry]:
    setup, form, tokens = step.setup, kind.form, step.setup.batch * kind.sequence
    scores = layers * setup.keeps_frac if name == "saved_activations" else layers
    reference = "activations_megatron" if setup.megatron else "activations_eager"
    reference = "denoiser_blocks" if kind.layer.program else reference
    if name == "saved_activations" and setup.runtime == NAME and form.between is not None:
        reference = "torchtitan_selective"
    bodies = [
        item(
            Category.ACTIVATIONS,
            part_name or name,
            whole(layers * tokens * part.bytes),
            f"ceil(L*t*({part.text}))",
            {"L": exact(layers), "t": tokens, **part.symbols},
            reference,
            phases=phases,
        )
        for part_name, part in kept
    ]
    return [
        *bodies,
        *_cross_keys(step, form, layers, phases, name),
        *_scores(step, kind, scores, phases, name),
        *_cross_scores(step, kind, scores, phases, name),
    ]


def _cross_keys(
    step: Step, form: LayerForm, layers: float, phases: frozenset[Phase], name: str
) -> list[Entry]:
    """Keys and values of cross-attention are as long as the encoder's sequence."""
    if not form.source:
        return []
    source = summed(form.source, form.widths)
    amount = layers * step.setup.tokens * source.bytes
    symbols = {"L": exact(layers), "t": step.setup.tokens, **source.symbols}
    formula = f"ceil(L*t*({source.text}))"
    return [
        item(
            Category.ACTIVATIONS,
            name,
            whole(amount),
            formula,
            symbols,
            "activations_megatron",
            phases=phases,
        )
    ]


def _scores(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    form, batch, s = kind.form, step.setup.batch, kind.sequence
    recomputed = step.setup.training.checkpointing in SELECTIVE and name == "saved_activations"
    if not form.score_bytes or recomputed:
        return []
    kept = [("attention_scores", form.score_bytes)]
    if form.masks_scores:
        kept.append(("dropout_masks", 1))
    return [
        item(
            Category.ACTIVATIONS,
            kept_name,
            whole(layers * c * batch * form.heads * s * s),
            "ceil(L*c*b*n*s*s)",
            {"L": exact(layers), "c": c, "b": batch, "n": form.heads, "s": s},
            "attention_scores",
            phases=phases,
        )
        for kept_name, c in kept
    ]


def _cross_scores(step: Step, kind: Kind, layers: float, phases: frozenset[Phase], name: str) -> list[Entry]:
    """Scores of cross-attention: every target token against every source token."""
    form, b, s, z = kind.form, step.setup.batch, kind.sequence, step.setup.sequence
    recomputed = step.setup.training.checkpointing in SELECTIVE and name == "saved_activations"
    if not form.source_score_bytes or recomputed:
        return []
    c = form.source_score_bytes
    symbols = {"L": exact(layers), "c": c, "b": b, "n": form.heads, "s": s, "z": z}
    return [
        item(
            Category.ACTIVATIONS,
            "attention_scores",
            whole(layers * c * b * form.heads * s * z),
            "ceil(L*c*b*n*s*z)",
            symbols,
            "attention_scores",
            phases=phases,
        )
    ]


def stored_inputs(
    step: Step, phases: frozenset[Phase], times: float, *, offloaded: bool | None = None, but: int = 0
) -> Entry:
    """Full checkpointing: the input of every layer, or of every k-th; the one on its way where they go to the host.

    Args:
        step: The step.
        phases: When they are there.
        times: Micro-batches they are kept for.
        offloaded: Whether they go to the host; the scenario's `activation_offload` if not given.
        but: How many of them are left out.
    """
    setup = step.setup
    every = checkpoint_interval(setup)
    offloaded = setup.training.activation_offload if offloaded is None else offloaded
    count = 1 if offloaded else max(0, ceil_div(step.num_layers, every) * times - but)
    e = setup.residual_bytes
    tokens = setup.tokens
    if step.model.encoder_layers and step.kinds:
        tokens = sum(setup.batch * kind.sequence * kind.count for kind in step.kinds) // step.num_layers
    return item(
        Category.ACTIVATIONS,
        "checkpointed_inputs",
        whole(count * tokens * step.residual_width * e),
        "ceil(L*t*h*e)",
        {"L": exact(count), "t": tokens, "h": step.residual_width, "e": e},
        "activation_offload" if offloaded else "checkpointing_full",
        phases=phases,
    )


def checkpoint_interval(setup: Setup) -> int:
    """Layers that are computed again together."""
    return (setup.training.checkpoint_every or 1) if setup.training.checkpointing == "every_k" else 1


def cast_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Autocast keeps a 16-bit copy of every trained weight it used until its block ends."""
    setup = step.setup
    if not casts_weights(setup):
        return []
    left = {"experts"} if expert_bytes(setup) > setup.compute_bytes else set()
    params = total(t for t in step.trained if t.is_matrix and t.place in CAST_PLACES - left)
    e = setup.compute_bytes
    return [
        item(
            Category.WEIGHTS,
            "autocast_weights",
            params * e,
            "P*e",
            {"P": params, "e": e},
            "autocast_cache",
            phases=phases,
        )
    ]


def casts_again(setup: Setup) -> bool:
    """Whether layers cast their weights anew in the backward pass, so that the first casts go with autocast."""
    return setup.checkpointed or (setup.training.checkpointing == "selective_op" and not setup.megatron)


def casts_weights(setup: Setup) -> bool:
    """Whether autocast casts trained weights; frozen ones are cast anew at each use and not kept."""
    return setup.autocast and setup.train_bytes > setup.compute_bytes
