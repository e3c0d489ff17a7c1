"""Ledger entries of the loss: the fuller of its two moments, the end of its forward and its own backward pass."""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory import logits as loss
from planner.memory.layer_forms import norm_terms
from planner.memory.terms import Terms, add, item, number, per_token, text, used, whole
from planner.training_setup import Setup
from planner.training_step import Step, cast_entries, casts_weights

LOSS: Final = frozenset({Phase.LOSS})
SHIFTS_BEFORE: Final = (4, 50)
REBINDS_BEFORE: Final = (4, 46)


def loss_entries(step: Step) -> list[Entry]:
    """Final norm, head input, and the chain from logits to the loss."""
    if not step.share.holds_head or step.model.head is None:
        return []
    entries = [_final_norm(step), *_chain(step)]
    if casts_weights(step.setup):
        entries.append(_head_cast(step))
    return entries


def final_norm_terms(step: Step) -> Terms:
    """The last norm, and its output: the head's input, kept or still held by the model's own variable."""
    setup = step.setup
    return add(norm_terms(step.model, setup), {"h": setup.compute_bytes})


def _final_norm(step: Step) -> Entry:
    terms, tokens = final_norm_terms(step), step.setup.target_tokens
    widths = {"h": step.model.hidden_size, "r": step.residual_width}
    return item(
        Category.ACTIVATIONS,
        "final_norm",
        tokens * per_token(terms, widths),
        f"t*({text(terms)})",
        {"t": tokens, **used(terms, widths)},
        "activations_eager",
        phases=LOSS,
    )


def _head_cast(step: Step) -> Entry:
    h, e = step.model.hidden_size, step.setup.compute_bytes
    return item(
        Category.WEIGHTS,
        "autocast_head",
        step.vocab * h * e,
        "V*h*e",
        {"V": step.vocab, "h": h, "e": e},
        "autocast_cache",
        phases=LOSS,
    )


def _chain(step: Step) -> list[Entry]:
    setup, e = step.setup, step.setup.compute_bytes
    match setup.training.loss or "standard":
        case "fused_linear":
            return _fused_linear(step)
        case "chunked":
            c = loss.chunked_loss_bytes(e, compiled=setup.compiled)
            return [_per_entry(step, "loss_chunks", c, "loss_chunked")]
        case kind if setup.megatron:
            copies = 2 if kind == "fused" else 1
            return [
                _per_entry(step, "logits", e, "loss_megatron"),
                _per_entry(step, "logits_fp32", 4 * copies, "loss_megatron"),
            ]
        case "fused":
            return _fused(step)
        case _:
            return _standard(step)


def _standard(step: Step) -> list[Entry]:
    setup, e, tv = step.setup, step.setup.compute_bytes, step.setup.target_tokens * step.vocab
    old = e if setup.keeps_outputs else 0
    forward = loss.forward_chain_bytes(e, shifts=shifts(setup), holds_logits=holds_logits(setup)) + old
    backward = loss.backward_chain_bytes(e, keeps_outputs=setup.keeps_outputs)
    cached = sum(entry.bytes for entry in cast_entries(step, LOSS)) if setup.checkpointed else 0
    log_softmax = _per_entry(step, "log_softmax", loss.LOG_SOFTMAX_BYTES, "loss_standard")
    if forward * tv + cached >= backward * tv:
        copies = 0 if e == 4 else 4
        return [
            _per_entry(step, "logits", forward - copies - loss.LOG_SOFTMAX_BYTES, "loss_standard"),
            _per_entry(step, "logits_fp32", copies, "loss_standard"),
            log_softmax,
        ]
    return [
        _per_entry(step, "logits", old, "loss_standard"),
        log_softmax,
        _per_entry(step, "loss_gradients", loss.GRADIENT_BYTES, "loss_standard"),
    ]


def _fused(step: Step) -> list[Entry]:
    """A fused kernel on whole logits; the Hugging Face model makes their fp32 copies before it gets to them."""
    setup, e = step.setup, step.setup.compute_bytes
    if setup.runtime == "unsloth" or e == 4:
        return [_per_entry(step, "logits", loss.fused_loss_bytes(e), "loss_fused")]
    chain = loss.forward_chain_bytes(e, shifts=shifts(setup), holds_logits=holds_logits(setup))
    kept = e if holds_logits(setup) else 0
    return [
        _per_entry(step, "logits", kept, "loss_fused"),
        _per_entry(step, "logits_fp32", chain - kept - loss.LOG_SOFTMAX_BYTES, "loss_fused"),
    ]


def _per_entry(step: Step, name: str, c: float, reference: str) -> Entry:
    t, v = step.setup.target_tokens, step.vocab
    formula, symbols = (
        (f"{number(c)}*t*V", {"t": t, "V": v}) if c == int(c) else ("ceil(c*t*V)", {"c": c, "t": t, "V": v})
    )
    return item(Category.LOGITS, name, whole(t * v * c), formula, symbols, reference, phases=LOSS)


def _fused_linear(step: Step) -> list[Entry]:
    """Liger's fused head and loss: one chunk of logits with its fp32 copy, the gradients of input and head."""
    setup, h, v, e = step.setup, step.model.hidden_size, step.vocab, step.setup.compute_bytes
    t, reference = setup.target_tokens, "loss_fused_linear"
    chunk = min(t, loss.fused_linear_chunk_tokens(t, h, v))
    entries = [
        item(
            Category.LOGITS,
            "loss_chunks",
            chunk * v * (2 * e + 4),
            "c*V*(2*e + 4)",
            {"c": chunk, "V": v, "e": e},
            reference,
            phases=LOSS,
        ),
        item(
            Category.LOGITS,
            "loss_input_gradient",
            t * h * e,
            "t*h*e",
            {"t": t, "h": h, "e": e},
            reference,
            phases=LOSS,
        ),
    ]
    if setup.adapter is not None:
        return entries
    head = item(
        Category.GRADIENTS,
        "loss_head_gradient",
        v * h * e,
        "V*h*e",
        {"V": v, "h": h, "e": e},
        reference,
        phases=LOSS,
    )
    return [*entries, head]


def shifts(setup: Setup) -> bool:
    """transformers before 4.50 copies the shifted logits; without a version the newest habit is meant."""
    return setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < SHIFTS_BEFORE


def holds_logits(setup: Setup) -> bool:
    """Before 4.46 the model rebinds the 16-bit logits to their fp32 copy."""
    return not (setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < REBINDS_BEFORE)
