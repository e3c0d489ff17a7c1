"""What changes would do to the open question: the planner's advice, from plans that are remembered."""

from planner.advise import Change, Outcome, advise, first_that_fits
from planner.advise.advice import MOST_SHOWN, ORDER
from planner.advise.change import OTHER_JOBS, Param
from planner.plan_types import Plan
from ui.answers import answer, tables
from ui.document import Document
from ui.numbers import ranges, whole
from ui.words import Words

__all__ = ["ORDER", "OTHER_JOBS", "Change", "Outcome", "first_that_fits", "note", "outcomes", "what"]


def outcomes(document: Document, plan: Plan, most: int = MOST_SHOWN) -> tuple[Outcome, ...]:
    """Changes that matter, with their plans, in the order of the advice.

    Args:
        document: The question.
        plan: Its answer.
        most: How many to give.
    """
    return advise(document, plan, lambda changed: answer(changed).plan, tables(), most)


def what(change: Change, words: Words) -> str:
    """The change in a few words; all of several."""
    if change.parts:
        return words("changes.and").join(what(part, words) for part in change.parts)
    return words(f"change.{change.name}.what", **_texts(change))


def note(change: Change, words: Words) -> str:
    """What it means, in a few words."""
    if change.parts:
        return words("changes.several", n=whole(len(change.parts)))
    return words(f"change.{change.name}.note", **_texts(change))


def _texts(change: Change) -> dict[str, str]:
    return {name: _text(name, value) for name, value in change.params.items()}


def _text(name: str, value: Param) -> str:
    if not isinstance(value, tuple):
        return whole(value)
    return ranges(value) if name == "gpu" else "\u00b7".join(map(str, value))
