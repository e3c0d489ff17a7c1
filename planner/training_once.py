"""What a step keeps once, not per layer: token ids and labels, rotary tables, the embedding's mask, the causal mask."""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.layer_forms import COMPOSES_GELU, has_residual_dropout
from planner.memory.terms import item
from planner.training_step import Step

SCALES_EMBEDDING: Final = frozenset({"gemma", "gemma2", "granite"})
"""Model types whose class multiplies the embedding's output outside the embedding."""


def once_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Tensors of a step that every layer shares; small beside the layers' own, but not nothing."""
    return [
        *id_entries(step, phases),
        *embedding_leaf(step, phases),
        *_embedding_mask(step, phases),
        *_rotary(step, phases),
        *_attention_mask(step, phases),
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

    PEFT asks a gradient of that output for the sake of checkpoints and of packed bases (`enable_input_require_grads`),
    which makes it a leaf: the graph holds it to the end. Scaled embeddings and added positions leave it unused else.
    """
    setup, model = step.setup, step.model
    asks = setup.adapter is not None and (setup.checkpointed or setup.quantized_base)
    remade = model.model_type in SCALES_EMBEDDING or model.position_embedding == "learned"
    if not (asks and remade and step.share.holds_embedding) or setup.runtime not in COMPOSES_GELU:
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
    if setup.runtime not in COMPOSES_GELU or step.model.position_embedding != "rope":
        return []
    shapes = (kind.layer.attention for kind in step.kinds)
    d = next((shape.qk_rope_head_dim or shape.head_dim for shape in shapes if shape.head_dim), 0)
    if not d:
        return []
    e = setup.residual_bytes
    return [
        item(
            Category.ACTIVATIONS,
            "rotary_tables",
            2 * setup.sequence * d * e,
            "2*s*d*e",
            {"s": setup.sequence, "d": d, "e": e},
            "rotary_tables",
            phases=phases,
        )
    ]


def _attention_mask(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Eager attention adds a mask; a checkpoint keeps it, with the positions, among a layer's arguments."""
    setup = step.setup
    if setup.megatron or setup.training.attention != "eager" or not setup.checkpointed:
        return []
    b, s, e = setup.batch, setup.sequence, setup.residual_bytes
    return [
        item(
            Category.ACTIVATIONS,
            "attention_mask",
            b * s * s * e + 8 * s,
            "b*s*s*e + 8*s",
            {"b": b, "s": s, "e": e},
            "checkpointing_full",
            phases=phases,
        )
    ]
