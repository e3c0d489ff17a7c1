"""Ledger entries of the head and the loss: the end of the forward pass, and the fuller of the loss's two moments.

The forward pass is fullest at its end, when the logits are there. The loss is fullest where it has just been computed,
or in its own backward pass, which ends with the gradient of the logits.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory import logits as loss
from planner.memory.adapters import HEAD_NAMES, head_is_target
from planner.memory.layer_forms import norm_terms
from planner.memory.terms import item, number, summed, whole
from planner.model.spec import ModelSpec
from planner.moments import fullest
from planner.training.adapters import at_work
from planner.training.litgpt import chain as litgpt_chain
from planner.training.litgpt import end_of_forward as litgpt_end_of_forward
from planner.training.setup import Setup, fused_kernels
from planner.training.states import step_tensors
from planner.training.step import (
    FORWARD,
    FORWARD_AND_LOSS,
    LOSS,
    Step,
    cast_entries,
    casts_again,
    casts_weights,
    kept_cache,
)

SHIFTS_BEFORE: Final = (4, 50)
REBINDS_BEFORE: Final = (4, 46)
WIDENS_CHUNKS_BEFORE: Final = (4, 46)
"""Liger's versions of that time, to 0.3.1, ran the loss on an fp32 copy of each chunk (`logits_chunk.float()`)."""
PARALLEL_LOSS: Final = frozenset({"torchtitan", "generic"})
"""Runtimes whose loss works on logits that stay cut along the vocabulary (DTensor's `loss_parallel`)."""
WHOLE_LOGITS_NEVER: Final = frozenset({"fused_linear"})
HELD_BEFORE: Final = (2024, 8)
"""torchtune frees the logits before the backward pass from here on (`del logits`)."""
CAPS_LOGITS: Final = frozenset({"gemma2"})
SCALES_LOGITS: Final = CAPS_LOGITS | {"cohere", "cohere2", "granite"}
"""Model types whose class does something between head and loss, which makes one gradient of the logits more."""

FUSES_OWN_LOSS: Final = frozenset({"mpt"})
"""Model types whose authors' training code has a fused kernel as its standard loss (LLM Foundry)."""


def loss_entries(step: Step) -> list[Entry]:
    """Final norm, head input, logits, and the chain from logits to the loss."""
    if not step.share.holds_head or step.model.head is None:
        return []
    return [*saved_head_entries(step, FORWARD_AND_LOSS), *_end_of_forward(step), *_chain(step)]


def saved_head_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """What the final norm and the head keep: the norm's tensors, the head's input if trained, its cast.

    Pieces along the sequence of several rows do not lie in one piece: a chunked loss's head copies each.
    """
    setup, entries = step.setup, [final_norm_entry(step, phases)]
    if setup.training.loss in WHOLE_LOGITS_NEVER:
        return entries
    if trains_head(step):
        entries.append(_head_input(step, phases, setup.compute_bytes))
        if setup.training.loss == "chunked" and setup.runtime != "litgpt" and setup.batch > 1:
            entries.append(_head_input(step, phases, setup.compute_bytes))
    if casts_head(setup):
        entries.append(_head_cast(step, phases))
    elif casts_frozen_head(step):
        entries.append(_head_cast(step, phases, loss.CHUNKS if setup.training.loss == "chunked" else 1))
    return entries


def casts_head(setup: Setup) -> bool:
    """Whether autocast keeps a copy of the trained output matrix."""
    return casts_weights(setup) and setup.adapter is None


def casts_frozen_head(step: Step) -> bool:
    """Whether the head is frozen and wider than products: its cast is kept for the gradient of its input.

    Autocast caches casts of trained weights alone (`cached_cast` asks for `requires_grad`), so that each product with a
    frozen one has its own, as a base prepared for k-bit training has with its fp32 head.
    """
    setup = step.setup
    wide = setup.autocast and setup.param_bytes > setup.compute_bytes
    return wide and setup.adapter is not None and setup.runtime != "litgpt" and not trains_head(step)


def trains_head(step: Step) -> bool:
    """Whether the output matrix, or an adapter on it, gets a gradient, so that its input is kept."""
    adapter, head = step.setup.adapter, step.model.head
    if adapter is None or head is None:
        return head is not None
    return bool(frozenset(adapter.modules_to_save) & (HEAD_NAMES | {head.name})) or head_is_target(
        step.model, adapter
    )


def final_norm_entry(step: Step, phases: frozenset[Phase]) -> Entry:
    """What the last norm keeps, its output left out."""
    width = "r" if step.cuts_sequence else "h"
    terms, tokens = norm_terms(step.model, step.setup, width), step.setup.target_tokens
    widths = {"h": step.model.hidden_size, "r": step.residual_width}
    kept = summed(terms, widths)
    return item(
        Category.ACTIVATIONS,
        "final_norm",
        tokens * kept.bytes,
        f"t*({kept.text})",
        {"t": tokens, **kept.symbols},
        "activations_eager",
        phases=phases,
    )


def _head_input(step: Step, phases: frozenset[Phase], e: int) -> Entry:
    t, h = step.setup.target_tokens, step.model.hidden_size
    return item(
        Category.ACTIVATIONS,
        "head_input",
        t * h * e,
        "t*h*e",
        {"t": t, "h": h, "e": e},
        "activations_eager",
        phases=phases,
    )


def _held_input(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The final norm's output, held by the model's own variable until it returns; the head may keep the same tensor.

    Where ranks cut the sequence, the head keeps what it gathered.
    """
    setup = step.setup
    kept = setup.compute_bytes if trains_head(step) else 0
    norm = final_norm_bytes(step)
    if step.cuts_sequence:
        t, h = setup.target_tokens, step.residual_width
        symbols, reference = {"t": t, "h": h, "e": norm}, "activations_eager"
        return [
            item(Category.ACTIVATIONS, "head_input", t * h * norm, "t*h*e", symbols, reference, phases=phases)
        ]
    return [] if kept == norm else [_head_input(step, phases, norm)]


def final_norm_bytes(step: Step) -> int:
    """Bytes of an element that the final norm puts out; autocast runs layer norms in fp32."""
    setup = step.setup
    return 4 if step.model.norm == "layer_norm" and setup.autocast else setup.residual_bytes


def _head_cast(step: Step, phases: frozenset[Phase], copies: int = 1) -> Entry:
    h, e = step.model.hidden_size, step.setup.compute_bytes
    return item(
        Category.WEIGHTS,
        "autocast_head",
        copies * step.vocab * h * e,
        "k*V*h*e",
        {"k": copies, "V": step.vocab, "h": h, "e": e},
        "autocast_cache",
        phases=phases,
    )


def _end_of_forward(step: Step) -> list[Entry]:
    """The head's output; kernels that fuse head and loss never make it."""
    setup = step.setup
    if setup.training.loss in WHOLE_LOGITS_NEVER:
        held = _head_input(step, FORWARD, final_norm_bytes(step))
        return fullest(([held], [held, *_inside_norm(step)], _inside_forward(step)))
    if setup.runtime == "litgpt":
        return [*litgpt_end_of_forward(step), *_held_input(step, FORWARD)]
    logits = _per_entry(step, "logits", setup.compute_bytes, "loss_standard", FORWARD)
    return [logits, *_pieces(step), *capped_logits(step, FORWARD), *_held_input(step, FORWARD)]


def _pieces(step: Step) -> list[Entry]:
    """This rank's logits, and the output of the all-gather that puts all of them together along the vocabulary."""
    if not step.gathers_logits:
        return []
    t, v, e = step.setup.target_tokens, step.logit_width + step.vocab, step.setup.compute_bytes
    symbols = {"t": t, "V": v, "e": e}
    return [
        item(Category.LOGITS, "logits", t * v * e, "t*V*e", symbols, "loss_standard", phases=FORWARD),
    ]


def _inside_norm(step: Step) -> list[Entry]:
    """The last norm in single steps, where no logits come after it: fp32 product, its cast, and the input."""
    setup = step.setup
    if step.model.norm == "layer_norm" or "rms_norm" in fused_kernels(setup) or setup.megatron:
        return []
    frozen, r = setup.adapter is not None, setup.residual_bytes
    c = 4 * frozen if r == 4 else 4 + r + r * frozen
    t, h = setup.target_tokens, step.residual_width
    symbols, reference = {"t": t, "h": h, "c": c}, "activations_eager"
    return [
        item(
            Category.ACTIVATIONS,
            "forward_temporary",
            t * h * c,
            "t*h*c",
            symbols,
            reference,
            phases=FORWARD,
        )
    ]


def _inside_forward(step: Step) -> list[Entry]:
    """The last layer's adapter at work, where no logits come after it."""
    found = at_work(step, step.largest) if step.kinds and not step.setup.checkpointed else []
    if not found:
        return []
    amount, formula, symbols = max(found, key=lambda one: one[0])
    return [
        item(
            Category.ACTIVATIONS,
            "forward_temporary",
            amount,
            formula,
            symbols,
            "activations_eager",
            phases=FORWARD,
        )
    ]


def capped_logits(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """A tanh on the logits keeps its output for its gradient (Gemma 2, `final_logit_softcapping`)."""
    if step.model.model_type not in CAPS_LOGITS:
        return []
    return [_per_entry(step, "logits", step.setup.compute_bytes, "loss_standard", phases)]


def _chain(step: Step) -> list[Entry]:
    setup, e = step.setup, step.setup.compute_bytes
    match setup.training.loss or "standard":
        case "fused_linear":
            return _fused_linear(step)
        case "chunked" | "standard" if setup.runtime == "litgpt":
            return litgpt_chain(step)
        case "chunked":
            c = loss.chunked_loss_bytes(e, compiled=setup.compiled)
            return [_per_entry(step, "loss_chunks", c, "loss_chunked"), *kept_cache(step, LOSS)]
        case "standard" if setup.compiled and setup.runtime == "torchtitan":
            c = loss.compiled_loss_bytes(e)
            return [_per_entry(step, "logits", c, "loss_compiled")]
        case kind if setup.megatron:
            copies = 2 if kind == "fused" else 1
            return [
                _per_entry(step, "logits", e, "loss_megatron"),
                _per_entry(step, "logits_fp32", 4 * copies, "loss_megatron"),
            ]
        case "fused":
            return _fused(step)
        case _ if fuses_own_loss(setup.runtime, setup.parallel.sharding, step.model):
            return [_per_entry(step, "logits", loss.fused_loss_bytes(e), "loss_mpt")]
        case _:
            return [*capped_logits(step, LOSS), *fullest((_computed(step), _differentiated(step)))]


def fuses_own_loss(runtime: str, sharding: str, model: ModelSpec) -> bool:
    """Whether the standard loss is that of the model's own training code: a plain FSDP loop around such a model."""
    return runtime == "generic" and model.model_type in FUSES_OWN_LOSS and sharding == "fsdp"


def _computed(step: Step) -> list[Entry]:
    """The loss is there, the model has not returned yet, and a loop's old outputs have not been replaced."""
    setup, e = step.setup, step.setup.compute_bytes
    old = e if setup.keeps_outputs else 0
    chain = loss.forward_chain_bytes(e, shifts=shifts(setup), holds_logits=holds_logits(setup)) + old
    copies = (0 if e == 4 else 4) + _parallel_loss_bytes(setup)
    chain += _parallel_loss_bytes(setup)
    entries = [
        _per_entry(step, "logits", chain - copies - loss.LOG_SOFTMAX_BYTES, "loss_standard"),
        _per_entry(step, "logits_fp32", copies, "loss_standard"),
        _log_softmax(step),
        *_held_input(step, LOSS),
    ]
    casts = cast_entries(step, LOSS) if casts_again(setup) else []
    return [*entries, *casts, *kept_cache(step, LOSS)]


def _differentiated(step: Step) -> list[Entry]:
    """The loss's own backward pass."""
    setup = step.setup
    old = setup.compute_bytes if setup.keeps_outputs else 0
    if setup.runtime == "torchtune" and setup.version and setup.version < HELD_BEFORE:
        old = 4
    return [
        _per_entry(step, "logits", old, "loss_standard"),
        _log_softmax(step),
        _per_entry(step, "loss_gradients", _loss_gradient_bytes(setup), "loss_standard"),
    ]


def _loss_gradient_bytes(setup: Setup) -> int:
    """Divided logits of DTensor's `loss_parallel` have one fp32 tensor more: (gradient + exp(log-softmax)) * scale."""
    return loss.GRADIENT_BYTES + _parallel_loss_bytes(setup)


def _parallel_loss_bytes(setup: Setup) -> int:
    parallel = setup.runtime in PARALLEL_LOSS and setup.division.tensor > 1
    return 4 if parallel else 0


def _log_softmax(step: Step) -> Entry:
    return _per_entry(step, "log_softmax", loss.LOG_SOFTMAX_BYTES, "loss_standard")


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
        *_held_input(step, LOSS),
    ]


def _per_entry(step: Step, name: str, c: float, reference: str, phases: frozenset[Phase] = LOSS) -> Entry:
    t, v = step.setup.target_tokens, step.logit_width
    formula, symbols = (
        (f"{number(c)}*t*V", {"t": t, "V": v}) if c == int(c) else ("ceil(c*t*V)", {"c": c, "t": t, "V": v})
    )
    return item(Category.LOGITS, name, whole(t * v * c), formula, symbols, reference, phases=phases)


def _fused_linear(step: Step) -> list[Entry]:
    """Liger's fused head and loss: one chunk of logits, over which its gradient is written, those of input and head.

    The gradients have the formats of what they are of; the chunk is in that of products. Before, a chunk's logits were
    widened to fp32 and its gradient was narrowed again.
    """
    setup, h, v, e = step.setup, step.model.hidden_size, step.vocab, step.setup.compute_bytes
    t, reference, given = setup.target_tokens, "loss_fused_linear", final_norm_bytes(step)
    widens = setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < WIDENS_CHUNKS_BEFORE
    chunk = min(t, loss.fused_linear_chunk_tokens(t, h, v))
    casts = e if given != e else 0
    entries = [
        _head_input(step, LOSS, given),
        item(
            Category.LOGITS,
            "loss_chunks",
            chunk * (v * (2 * e + 4 if widens else e) + h * casts),
            "c*(V*(2*e + 4) + h*d)" if widens else "c*(V*e + h*d)",
            {"c": chunk, "V": v, "e": e, "h": h, "d": casts},
            reference,
            phases=LOSS,
        ),
        item(
            Category.LOGITS,
            "loss_input_gradient",
            t * h * given,
            "t*h*e",
            {"t": t, "h": h, "e": given},
            reference,
            phases=LOSS,
        ),
        *kept_cache(step, LOSS),
        *(cast_entries(step, LOSS) if casts_again(setup) else []),
    ]
    if casts_frozen_head(step):
        entries.append(_head_cast(step, LOSS))
    elif casts_head(setup):
        entries.append(_head_cast(step, LOSS, 2))
    if setup.adapter is not None:
        return entries
    head = item(
        Category.LOGITS,
        "loss_head_gradient",
        v * h * setup.train_bytes,
        "V*h*e",
        {"V": v, "h": h, "e": setup.train_bytes},
        reference,
        phases=LOSS,
    )
    if not setup.optimizer.in_backward or step.model.tie_word_embeddings:
        return [*entries, head]
    k, e = step_tensors(setup), setup.train_bytes
    stepped = item(
        Category.LOGITS,
        "loss_head_gradient",
        k * v * h * e,
        "k*V*h*e",
        {"k": k, "V": v, "h": h, "e": e},
        reference,
        phases=LOSS,
    )
    without = [entry for entry in entries if entry.name != "loss_chunks"]
    return fullest(([*entries, head], [*without, head, stepped]))


def shifts(setup: Setup) -> bool:
    """transformers before 4.50 copies the shifted logits; without a version the newest habit is meant."""
    return setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < SHIFTS_BEFORE


def holds_logits(setup: Setup) -> bool:
    """Before 4.46 the model rebinds the 16-bit logits to their fp32 copy."""
    return not (setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < REBINDS_BEFORE)
