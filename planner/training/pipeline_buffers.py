"""What a stage of PyTorch's own pipelines (`torch.distributed.pipelining`) holds for its micro-batches.

Activations and gradients from other stages are received into buffers made once, before the first step: one for every
micro-batch, not one for every one in flight. A stage keeps what it put out until its backward pass. The last one keeps
every micro-batch's logits, which the step hands back whole, until the next step begins; before May 2025 every stage
kept its outputs as long.
"""

from planner.ledger import ALWAYS, Category, Entry, Phase
from planner.memory.terms import exact, item, whole
from planner.training.setup import Setup
from planner.training.step import BACKWARD, FORWARD_AND_LOSS, Step
from planner.training.titan import NAME, OUTPUTS_DROPPED_SINCE, OWN_OUTPUTS_SINCE, since

REFERENCE = "pipeline_buffers"
WORKING = FORWARD_AND_LOSS | BACKWARD
BETWEEN = ALWAYS - WORKING


def pipeline_entries(step: Step) -> list[Entry]:
    """Buffers to receive into, and outputs that are kept; nothing where one device has the whole model."""
    share, setup = step.share, step.setup
    if setup.runtime != NAME or share.num_stages == 1:
        return []
    chunks = setup.parallel.virtual_stages or 1
    from_below, to_above = chunks - share.holds_embedding, chunks - share.holds_head
    batches = setup.training.gradient_accumulation
    waiting = max(0, batches - share.in_flight)
    kept = share.in_flight if since(setup.runtime, setup.version, OWN_OUTPUTS_SINCE) else batches
    phases = WORKING if kept < batches else ALWAYS
    return [
        *_streams(step, "received_inputs", from_below * batches, BETWEEN),
        *_streams(step, "received_inputs", from_below * waiting, WORKING),
        *_streams(step, "received_gradients", to_above * batches, ALWAYS),
        *_streams(step, "stage_outputs", to_above * kept, phases, Category.ACTIVATIONS),
        *_logits(step),
    ]


def _streams(
    step: Step,
    name: str,
    count: float,
    phases: frozenset[Phase],
    category: Category = Category.COMMUNICATION,
) -> list[Entry]:
    """So many tensors of what passes between stages; inputs in flight are those that the first layers keep."""
    setup, h = step.setup, step.residual_width
    if not count:
        return []
    symbols = {"k": exact(count), "t": setup.tokens, "h": h, "e": setup.residual_bytes}
    amount = whole(count * setup.tokens * h * setup.residual_bytes)
    return [item(category, name, amount, "ceil(k*t*h*e)", symbols, REFERENCE, phases=phases)]


def _logits(step: Step) -> list[Entry]:
    """Of all micro-batches; the one in work is counted with the loss in the forward pass."""
    if not step.share.holds_head or step.model.head is None:
        return []
    batches = kept_logits(step.setup)
    return [
        *_whole_logits(step, batches - 1, FORWARD_AND_LOSS),
        *_whole_logits(step, batches, BACKWARD),
        *(_whole_logits(step, batches, BETWEEN) if batches > 1 else ()),
    ]


def kept_logits(setup: Setup) -> int:
    """Micro-batches whose logits the last stage holds at once."""
    dropped = since(setup.runtime, setup.version, OUTPUTS_DROPPED_SINCE)
    return 1 if dropped else setup.training.gradient_accumulation


def _whole_logits(step: Step, count: int, phases: frozenset[Phase]) -> list[Entry]:
    if not count:
        return []
    t, v, e = step.setup.target_tokens, step.logit_width, step.setup.compute_bytes
    symbols = {"k": count, "t": t, "V": v, "e": e}
    amount = count * t * v * e
    return [item(Category.LOGITS, "kept_logits", amount, "k*t*V*e", symbols, REFERENCE, phases=phases)]
