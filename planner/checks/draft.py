"""A draft model for speculative decoding: it exists, can be described, and speaks the model's language."""

from collections.abc import Iterator

from planner.checks.codes import make
from planner.checks.question import Question
from planner.checks.words import closest
from planner.issues import Issue
from planner.memory.serving_draft import draft_of
from planner.model import UnknownArchitecture

FIELD = "serving.draft_model"


def check_draft(question: Question) -> Iterator[Issue]:
    """A draft that is named is one of the catalog or has a config; its vocabulary is the model's."""
    choice = question.serving.draft_model
    if choice is None or question.trains:
        return
    if choice.config is None:
        if choice.id is None:
            yield make("model_not_given", f"{FIELD}.id", allowed="id, config")
        else:
            near = closest(choice.id, question.tables.models)
            yield make("model_id_unknown", f"{FIELD}.id", given=choice.id[:80], closest=near)
        return
    try:
        draft = draft_of(question.resolved)
    except UnknownArchitecture as refusal:
        yield make("draft_not_described", FIELD, given=str(refusal)[:120])
        return
    if draft is None:
        return
    if not draft.layers or draft.vocab_size < 1:
        yield make("draft_not_described", FIELD, given=draft.model_type)
    elif draft.vocab_size != question.model.vocab_size:
        yield make("draft_vocabulary", FIELD, given=draft.vocab_size, allowed=question.model.vocab_size)


CHECKS = (check_draft,)
