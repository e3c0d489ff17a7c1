"""The head's own backward pass, and the gradient of a matrix that the embedding shares with it."""

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Place
from planner.memory.terms import item
from planner.moments import fullest
from planner.training.backward_gradients import head_gradient, stream_gradient
from planner.training.gradients import gradient_phases
from planner.training.head import WHOLE_LOGITS_NEVER, casts_head, final_norm_entry, saved_head_entries
from planner.training.inside_layer import stepped_entries
from planner.training.litgpt import head_gradients
from planner.training.loss import SCALES_LOGITS, capped_logits
from planner.training.step import BACKWARD, Step


def backward_of_head(step: Step) -> list[Entry]:
    """What the head's backward adds: its product's gradients, or the casts of them, whichever is more."""
    setup = step.setup
    product = [
        *saved_head_entries(step, BACKWARD),
        *stream_gradient(step, 1, "stream_gradient", "head_backward", setup.compute_bytes),
        *_logit_gradients(step),
        *head_gradient(step, setup.compute_bytes * (2 if setup.training.loss == "chunked" else 1)),
    ]
    if setup.optimizer.in_backward and setup.adapter is None and not casts_head(setup):
        stepped = [
            final_norm_entry(step, BACKWARD),
            *stream_gradient(step, 1, "stream_gradient", "head_backward"),
            *stepped_outside_layers(step, "head"),
        ]
        return fullest((product, stepped))
    if not casts_head(setup):
        return product
    cast_back = [
        final_norm_entry(step, BACKWARD),
        *stream_gradient(step, 1, "stream_gradient", "head_backward"),
        *head_gradient(step, setup.compute_bytes + setup.param_bytes),
    ]
    return fullest((product, cast_back))


def _logit_gradients(step: Step) -> list[Entry]:
    """In the format of products; a fused head and loss has made the gradient of the head's input instead."""
    t, v, e = step.setup.target_tokens, step.logit_width, step.setup.compute_bytes
    if step.setup.training.loss in WHOLE_LOGITS_NEVER:
        return []
    if step.setup.runtime == "litgpt":
        return head_gradients(step)
    scaled = step.model.model_type in SCALES_LOGITS
    gradients = item(
        Category.LOGITS,
        "logit_gradients",
        (1 + scaled) * t * v * e,
        "k*t*V*e",
        {"k": 1 + scaled, "t": t, "V": v, "e": e},
        "head_backward",
        phases=BACKWARD,
    )
    return [gradients, *capped_logits(step, BACKWARD)]


def waiting_head_gradient(step: Step) -> list[Entry]:
    """A tied matrix's gradient from the head waits until the embedding's comes (autograd's `InputBuffer`)."""
    tied = step.model.tie_word_embeddings and step.share.holds_head and step.share.holds_embedding
    counted = Phase.BACKWARD in gradient_phases(step.setup)
    if not tied or step.setup.shard_gradients > 1 or (counted and step.setup.megatron) or not step.vocab:
        return []
    return head_gradient(step, step.setup.train_bytes)


def stepped_outside_layers(step: Step, place: Place) -> list[Entry]:
    """A parameter outside the layers whose gradient has come, and is stepped at once."""
    tied = step.model.tie_word_embeddings and step.share.holds_head and step.share.holds_embedding
    if tied and place == "head":
        return head_gradient(step, step.setup.train_bytes)
    return stepped_entries(step.setup, [t for t in step.trained if t.place == place])


def tied_gradients(step: Step) -> list[Entry]:
    """The tied matrix's gradient from the head waits, the embedding's comes, and their sum is a third tensor.

    The sum is counted with all gradients, except where those are divided or were there before.
    """
    setup, share = step.setup, step.share
    tied = step.model.tie_word_embeddings and share.holds_embedding and share.holds_head
    if not tied or setup.adapter is not None or setup.megatron or not step.vocab:
        return []
    times = 3 if setup.shard_gradients > 1 or setup.training.gradient_accumulation > 1 else 2
    v, h, e = step.vocab, step.model.hidden_size, setup.train_bytes
    made = setup.training.loss in WHOLE_LOGITS_NEVER
    times -= made
    return [
        *(head_gradient(step, e) if made else ()),
        item(
            Category.GRADIENTS,
            "tied_gradients",
            times * v * h * e,
            "k*V*h*e",
            {"k": times, "V": v, "h": h, "e": e},
            "tied_gradients",
            phases=BACKWARD,
        ),
    ]
