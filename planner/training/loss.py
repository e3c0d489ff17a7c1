"""Ledger entries of the loss: the end of the forward pass, and the fuller of the loss's two moments.

The forward pass is fullest at its end, when the logits are there. The loss is fullest where it has just been computed,
or in its own backward pass, which ends with the gradient of the logits.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory import logits as loss
from planner.memory.terms import item, number, whole
from planner.model.spec import ModelSpec
from planner.moments import fullest
from planner.training.adapters import at_work
from planner.training.fused_linear_loss import fused_linear_entries
from planner.training.head import (
    WHOLE_LOGITS_NEVER,
    final_norm_bytes,
    head_input,
    held_head_input,
    saved_head_entries,
)
from planner.training.kept_outputs import kept_cache
from planner.training.litgpt import chain as litgpt_chain
from planner.training.litgpt import end_of_forward as litgpt_end_of_forward
from planner.training.saved import cast_entries, casts_again
from planner.training.setup import Setup, fused_kernels
from planner.training.step import FORWARD, FORWARD_AND_LOSS, LOSS, Step
from planner.training.titan import NAME

SHIFTS_BEFORE: Final = (4, 50)
REBINDS_BEFORE: Final = (4, 46)
PARALLEL_LOSS: Final = frozenset({"torchtitan", "generic"})
"""Runtimes whose loss works on logits that stay cut along the vocabulary (DTensor's `loss_parallel`)."""
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


def _end_of_forward(step: Step) -> list[Entry]:
    """The head's output; kernels that fuse head and loss never make it."""
    setup = step.setup
    if setup.training.loss in WHOLE_LOGITS_NEVER:
        held = head_input(step, FORWARD, final_norm_bytes(step))
        return fullest(([held], [held, *_inside_norm(step)], _inside_forward(step)))
    if setup.runtime == "litgpt":
        return [*litgpt_end_of_forward(step), *held_head_input(step, FORWARD)]
    logits = _per_entry(step, "logits", setup.compute_bytes, "loss_standard", FORWARD)
    return [logits, *_pieces(step), *capped_logits(step, FORWARD), *held_head_input(step, FORWARD)]


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
            return fused_linear_entries(step)
        case "chunked" | "standard" if setup.runtime == "litgpt":
            return litgpt_chain(step)
        case "chunked":
            c = loss.chunked_loss_bytes(e, compiled=setup.compiled)
            return [_per_entry(step, "loss_chunks", c, "loss_chunked"), *kept_cache(step, LOSS)]
        case "standard" if setup.compiles_loss and setup.runtime == NAME:
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
        *held_head_input(step, LOSS),
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
        *held_head_input(step, LOSS),
    ]


def _per_entry(step: Step, name: str, c: float, reference: str, phases: frozenset[Phase] = LOSS) -> Entry:
    t, v = step.setup.target_tokens, step.logit_width
    formula, symbols = (
        (f"{number(c)}*t*V", {"t": t, "V": v}) if c == int(c) else ("ceil(c*t*V)", {"c": c, "t": t, "V": v})
    )
    return item(Category.LOGITS, name, whole(t * v * c), formula, symbols, reference, phases=phases)


def shifts(setup: Setup) -> bool:
    """transformers before 4.50 copies the shifted logits; without a version the newest habit is meant."""
    return setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < SHIFTS_BEFORE


def holds_logits(setup: Setup) -> bool:
    """Before 4.46 the model rebinds the 16-bit logits to their fp32 copy."""
    return not (setup.runtime == "hf_trainer" and bool(setup.version) and setup.version < REBINDS_BEFORE)
