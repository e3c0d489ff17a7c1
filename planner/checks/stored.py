"""Sizes read from a checkpoint, against the plan: whether they count in it, and whether they are of this model."""

from collections.abc import Iterator
from typing import Final

from planner.checks.codes import make
from planner.checks.job import LLAMA_FAMILY
from planner.checks.question import Question
from planner.checks.words import listed
from planner.issues import Issue
from planner.memory.serving_stored import held_gguf, held_safetensors, stored_params, stored_type
from planner.memory.weight_formats import served_format

READ_SAFETENSORS: Final = ("vllm", "sglang", "tgi", "transformers")
SAME_FRAC: Final = 0.005
"""Files may hold buffers, and configs leave small vectors out."""


def check_stored(question: Question) -> Iterator[Issue]:
    """Sizes that the plan leaves aside, and sizes of another model."""
    stored = question.asked.model.stored
    if stored is None:
        return
    if not question.trains and not _counts(question):
        given, allowed = _instead(question, stored.container)
        yield make("stored_not_loaded", "model.stored", given=given, allowed=allowed)
    params, built = stored_params(stored), question.model.params_total
    if params is not None and abs(params - built) > SAME_FRAC * built:
        yield make("stored_differs", "model.stored", given=params, allowed=built)


def _instead(question: Question, container: str) -> tuple[str | None, str | None]:
    """What the plan has, and with what the sizes would count: an engine that reads such files, or their format."""
    runtime = question.resolved.runtime.name
    if container == "gguf":
        if runtime not in LLAMA_FAMILY:
            return runtime, listed(LLAMA_FAMILY)
        return question.serving.weights, stored_type(question.asked)
    if runtime in LLAMA_FAMILY:
        return runtime, listed(READ_SAFETENSORS)
    return question.serving.weights, served_format(question.model)


def _counts(question: Question) -> bool:
    if question.resolved.runtime.name in LLAMA_FAMILY:
        return held_gguf(question.resolved) is not None
    return held_safetensors(question.resolved, question.model) is not None


CHECKS = (check_stored,)
