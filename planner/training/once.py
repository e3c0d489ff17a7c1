"""What a step keeps once, not per layer: token ids and labels, rotary tables, the embedding's mask, the causal mask."""

from typing import Final

from planner.lazy import once
from planner.ledger import ALWAYS, Category, Entry, Phase
from planner.memory.layer_attention import masks_pictures
from planner.memory.layer_forms import has_residual_dropout
from planner.memory.layer_view import RUNS_TRANSFORMERS
from planner.memory.terms import item
from planner.model.spec import Layer
from planner.training.pictures import has_pictures, picture_entries
from planner.training.setup import NORMS_FIRST
from planner.training.step import Step

SCALES_EMBEDDING: Final = frozenset({"granite"})
"""Model types whose class multiplies the embedding's output outside the embedding."""
SCALED_BEFORE: Final = frozenset({"gemma", "gemma2"})
"""Those whose class did so before version 5, from which on the embedding does it itself."""
TWO_ROTARIES: Final = frozenset({"gemma3", "gemma3_text"})
"""Model types whose layers with a window have rotary tables of their own."""


def once_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Tensors of a step that every layer shares; small beside the layers' own, but not nothing."""
    if step.model.latents is not None:
        from planner.diffusion.training import input_entries  # noqa: PLC0415 - only pipelines need it

        return input_entries(step, phases)
    kept = [entry.alive_in(phases) for entry in _kept_once(step)]
    return [*kept, *picture_entries(step, phases)]


@once
def _kept_once(step: Step) -> list[Entry]:
    """The same, whatever the phases."""
    return [
        *id_entries(step, ALWAYS),
        *embedding_leaf(step, ALWAYS),
        *_embedding_mask(step, ALWAYS),
        *_rotary(step, ALWAYS),
        *_attention_mask(step, ALWAYS),
    ]


def id_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Token ids and labels as 64-bit numbers; position ids where they are looked up."""
    setup, share = step.setup, step.share
    tables = int(share.holds_embedding) + int(share.holds_head)
    if not tables:
        return []
    positions = setup.sequence if share.holds_embedding and step.model.position_embedding == "learned" else 0
    formula, symbols = "8*k*t", {"k": tables, "t": setup.tokens}
    if positions:
        formula, symbols = "8*(k*t + s)", {**symbols, "s": positions}
    amount = 8 * (tables * setup.tokens + positions)
    return [item(Category.ACTIVATIONS, "token_ids", amount, formula, symbols, "batch", phases=phases)]


def embedding_leaf(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The embedding's output where the model goes on with another tensor made of it.

    PEFT asks a gradient of that output for the sake of checkpoints (`enable_input_require_grads`), which makes it a
    leaf: the graph holds it to the end. Scaled and normed embeddings and added positions leave it unused else.
    """
    setup, model = step.setup, step.model
    asks = setup.adapter is not None and setup.checkpointed
    old = bool(setup.version) and setup.version < (5,)
    scales = SCALES_EMBEDDING | NORMS_FIRST | (SCALED_BEFORE if old else frozenset())
    remade = model.model_type in scales or model.position_embedding == "learned" or has_pictures(step)
    if not (asks and remade and step.share.holds_embedding) or setup.runtime not in RUNS_TRANSFORMERS:
        return []
    t, h, r = setup.tokens, step.residual_width, setup.residual_bytes
    return [
        item(
            Category.ACTIVATIONS,
            "embedding_output",
            t * h * r,
            "t*h*r",
            {"t": t, "h": h, "r": r},
            "embedding_leaf",
            phases=phases,
        )
    ]


def old_leaf(step: Step) -> list[Entry]:
    """Of a loop that holds the model's outputs: the graph behind them still has the last step's leaf and its gradient.

    That is the embedding's output where PEFT asks a gradient of it for checkpoints. A fused head and loss runs before
    the new outputs replace the old.
    """
    setup = step.setup
    asks = setup.adapter is not None and setup.checkpointed and step.model.latents is None
    if not (asks and setup.keeps_outputs and step.share.holds_embedding and step.share.holds_head):
        return []
    t, h, r = setup.tokens, step.residual_width, setup.residual_bytes
    phases = {Phase.REST, Phase.FORWARD, Phase.OPTIMIZER_STEP}
    if setup.training.loss == "fused_linear":
        phases.add(Phase.LOSS)
    return [
        item(
            Category.ACTIVATIONS,
            "kept_embedding",
            2 * t * h * r,
            "2*t*h*r",
            {"t": t, "h": h, "r": r},
            "embedding_leaf",
            phases=phases,
        )
    ]


def _embedding_mask(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    setup, h = step.setup, step.residual_width
    if not step.share.holds_embedding or setup.megatron or not has_residual_dropout(step.model, setup):
        return []
    return [
        item(
            Category.ACTIVATIONS,
            "dropout_masks",
            setup.tokens * h,
            "t*h",
            {"t": setup.tokens, "h": h},
            "activations_eager",
            phases=phases,
        )
    ]


def _rotary(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Cosine and sine, made once and kept by every layer's product with them."""
    setup = step.setup
    if setup.runtime not in RUNS_TRANSFORMERS or step.model.position_embedding != "rope":
        return []
    shapes = (kind.layer.attention for kind in step.kinds)
    d = next((shape.qk_rope_head_dim or shape.head_dim for shape in shapes if shape.head_dim), 0)
    if not d:
        return []
    e, k = setup.residual_bytes, 2 * (_windows(step) if step.model.model_type in TWO_ROTARIES else 1)
    return [
        item(
            Category.ACTIVATIONS,
            "rotary_tables",
            k * setup.sequence * d * e,
            "k*s*d*e",
            {"k": k, "s": setup.sequence, "d": d, "e": e},
            "rotary_tables",
            phases=phases,
        )
    ]


def _attention_mask(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Eager attention adds a mask; a checkpoint keeps it, with the positions, among a layer's arguments.

    Layers with a window and those without have one each, a row for every sequence. sdpa gets one for windows that are
    shorter than the sequence alone, of truth values, whose one row serves the whole batch.
    """
    setup = step.setup
    if setup.megatron or not setup.checkpointed:
        return []
    s, kinds, e = setup.sequence, 0, 1
    if setup.training.attention == "eager":
        kinds, e = setup.batch * _windows(step), setup.residual_bytes
    elif setup.training.attention == "sdpa" and setup.runtime in RUNS_TRANSFORMERS:
        kinds = int(any(_is_cut(kind.layer, s) for kind in step.kinds))
        if masks_pictures(step.model, setup):
            kinds = setup.batch * _windows(step)
    if not kinds:
        return []
    return [
        item(
            Category.ACTIVATIONS,
            "attention_mask",
            kinds * s * s * e + 8 * s,
            "k*s*s*e + 8*s",
            {"k": kinds, "s": s, "e": e},
            "checkpointing_full",
            phases=phases,
        )
    ]


def _windows(step: Step) -> int:
    """How many kinds of attention there are: with a window, without one."""
    return len({bool(kind.layer.attention.window) for kind in step.kinds})


def _is_cut(layer: Layer, sequence: int) -> bool:
    window = layer.attention.window
    return bool(window) and window is not None and window < sequence
