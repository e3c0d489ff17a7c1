"""What DTensor's tensor parallelism keeps beside each rank's pieces."""

from planner.ledger import Category, Entry, Phase
from planner.memory.terms import item
from planner.training.gather import is_gathered
from planner.training.gradients import gradient_phases
from planner.training.step import BACKWARD, Step


def whole_embedding(step: Step) -> int:
    """Elements of the embedding's gradient beyond this rank's piece, 0 where it is not made whole.

    An embedding cut along the vocabulary makes its gradient for all of it and takes its piece as a view, which keeps
    the whole (`aten.embedding_dense_backward` under DTensor). A tied matrix's is added to the head's: a new tensor.
    """
    if not _is_made_whole(step) or step.model.tie_word_embeddings:
        return 0
    return max(0, step.model.vocab_size * step.model.hidden_size - step.trained_at["embedding"])


def _is_made_whole(step: Step) -> bool:
    setup = step.setup
    divided = setup.division.tensor > 1 and step.share.holds_embedding
    return divided and not setup.megatron and setup.adapter is None


def whole_tied(step: Step) -> int:
    """Elements of the embedding's whole gradient where it is then added to the head's, 0 elsewhere."""
    model = step.model
    tied = model.tie_word_embeddings and step.share.holds_head and _is_made_whole(step)
    return model.vocab_size * model.hidden_size if tied else 0


def tied_gradient(step: Step) -> list[Entry]:
    """That gradient, at the end of the backward pass."""
    params, e = whole_tied(step), step.setup.gradient_bytes
    if not params:
        return []
    return [_entry(params, e, BACKWARD)]


def embedding_gradient(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """The rest of that gradient, for as long as the piece is there."""
    params, e = whole_embedding(step), step.setup.gradient_bytes
    if not params or step.setup.optimizer.in_backward:
        return []
    return [_entry(params, e, phases)]


def _entry(params: int, e: int, phases: frozenset[Phase]) -> Entry:
    symbols = {"P": params, "e": e}
    name, reference = "embedding_gradient", "dtensor_embedding"
    return item(Category.GRADIENTS, name, params * e, "P*e", symbols, reference, phases=phases)


def embedding_gradient_between(step: Step) -> list[Entry]:
    """The same outside the backward pass; units' gradients are scattered, which ends it."""
    return [] if is_gathered(step.setup) else embedding_gradient(step, gradient_phases(step.setup))
