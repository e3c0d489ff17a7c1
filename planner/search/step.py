"""How many sequences an optimizer step of the question learns from, over all its cards."""

from typing import Final

from planner.placement import data_degree
from planner.resolve import apply, of_stages
from planner.scenario import Scenario

TELLING: Final = frozenset({"micro_batch", "gradient_accumulation"})


def step_sequences(question: Scenario) -> int | None:
    """Micro-batch x accumulation x data-parallel degree; None where the question tells neither of the first two.

    Args:
        question: A job that trains. Its data-parallel degree is the one given, else what is left of its cards.
    """
    if "training" not in question.model_fields_set or not TELLING & question.training.model_fields_set:
        return None
    laid_out = apply(question, of_stages(question))
    training = question.training
    return training.micro_batch * training.gradient_accumulation * data_degree(laid_out)
