"""Closed forms of what a step holds beyond a plan's entries, each read off a traced step, by phase.

A plan lists entries at one moment of each phase. Where a phase is fullest at another moment, or a small tensor is
left out, the form stands here with where it comes from; every one is exact to the byte on the models of the tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.ledger import Category, Phase
from planner.plan_types import Plan
from profiler.compare import comparable
from profiler.report import PhaseFigures

INDEX_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Symbols of the forms.

    Attributes:
        t: Tokens.
        b: Sequences.
        s: Tokens of a sequence.
        h: Hidden size.
        v: Vocabulary.
        q: Width of all query heads.
        n: Query heads.
        d: Width of a head.
        layers: Layers.
        e: Bytes of an element.
        tied: The head shares the embedding.
        rope: Rotary positions.
        checkpointed: Layers are computed again.
        adapted: Names of the matrices with adapters, None without.
    """

    t: int
    b: int
    s: int
    h: int
    v: int
    q: int
    n: int
    d: int
    layers: int
    e: int
    tied: bool
    rope: bool
    checkpointed: bool
    adapted: tuple[str, ...] | None


def sizes_of(plan: Plan) -> Sizes:
    """The symbols of a plan."""
    training, model, adapter = plan.resolved.training, plan.model, plan.resolved.adapter
    shape = model.layers[0].attention
    return Sizes(
        t=training.micro_batch * training.sequence_length,
        b=training.micro_batch,
        s=training.sequence_length,
        h=model.hidden_size,
        v=model.vocab_size,
        q=shape.q_width,
        n=shape.num_heads,
        d=shape.head_dim,
        layers=model.num_layers,
        e=4 if training.precision.parameters == "fp32" else 2,
        tied=model.tie_word_embeddings,
        rope=model.position_embedding == "rope",
        checkpointed=training.checkpointing == "full",
        adapted=tuple(adapter.targets or ()) if adapter is not None else None,
    )


def small_tensors(x: Sizes) -> dict[str, int]:
    """What a whole model keeps once, and what the forms of a layer count too much. Eager attention."""
    found = {"labels": INDEX_BYTES * x.t}
    if x.rope:  # LlamaModel.forward: position_embeddings, one row for the whole batch
        found["rotary_tables"] = 2 * x.s * x.d * x.e
    if x.adapted is None:  # EmbeddingBackward keeps its indices
        found["token_ids"] = INDEX_BYTES * x.t
    if x.checkpointed:  # what checkpoint() saves of a layer's arguments
        found["saved_mask"] = x.b * x.s * x.s * x.e
        found["saved_positions"] = INDEX_BYTES * x.s
    if not x.rope and x.e == 2:  # modeling_gpt2.eager_attention_forward does not raise the softmax to fp32
        found["softmax_in_fp32"] = 0 if x.checkpointed else -4 * x.layers * x.b * x.n * x.s**2
    return found | (_adapter_terms(x) if x.adapted is not None else {})


def _adapter_terms(x: Sizes) -> dict[str, int]:
    """A frozen linear keeps nothing, and the first layer's input needs no gradient."""
    terms = {
        "final_norm_frozen": -(x.t * x.h * x.e),
        "first_norm_without_gradient": -(4 * x.h + 4) * x.t,
    }
    if "o_proj" not in (x.adapted or ()):
        terms["attention_output"] = -x.layers * x.t * x.q * x.e
    if "k_proj" not in (x.adapted or ()):
        terms["first_query"] = -x.t * x.q * x.e
    return terms


def explained(plan: Plan) -> dict[Phase, int]:
    """Bytes of each phase at its fullest moment: the plan's entries, put together at the right moment."""
    x, ledger = sizes_of(plan), plan.worst.ledger
    small = sum(small_tensors(x).values())
    logits, head = x.t * x.v * x.e, x.v * x.h * x.e

    def planned(phase: Phase) -> int:
        return sum(entry.bytes for entry in comparable(ledger, phase, on_cpu=True))

    held = sum(
        entry.bytes
        for entry in comparable(ledger, Phase.LOSS, on_cpu=True)
        if entry.category is Category.ACTIVATIONS
    )
    resting = planned(Phase.REST) - ledger.total("kept_cache")
    start = (
        resting + held + small + logits + x.t * x.h * x.e + (0 if x.adapted is not None or x.tied else head)
    )
    gradients = max((entry.bytes for entry in ledger.entries if entry.name == "gradients"), default=0)
    return {
        Phase.REST: planned(Phase.REST),
        # its end: the head's output beside everything kept, and the outputs of the step before
        Phase.FORWARD: resting + held + small + logits + ledger.total("kept_cache"),
        Phase.LOSS: planned(Phase.LOSS) + small,
        # its start, a checkpointed layer, or a tied embedding: the head's gradient, the embedding's, and their sum
        Phase.BACKWARD: max(
            start, planned(Phase.BACKWARD), _tied(x, planned(Phase.REST) + gradients + 2 * head)
        ),
        Phase.OPTIMIZER_STEP: planned(Phase.OPTIMIZER_STEP),
    }


def _tied(x: Sizes, total: int) -> int:
    return total if x.tied else 0


def differences(plan: Plan, measured: Mapping[Any, PhaseFigures]) -> dict[Phase, tuple[float, float]]:
    """By phase: share by which the plan differs from the measurement, and share that stays unexplained."""
    whole = explained(plan)
    found = {}
    for phase, expected in whole.items():
        actual = measured[phase.value].peak_allocated_bytes
        planned = sum(entry.bytes for entry in comparable(plan.worst.ledger, phase, on_cpu=True))
        found[phase] = ((actual - planned) / actual, (actual - expected) / actual)
    return found
