"""What is laid side by side: the open scenario, and one or two others."""

from dataclasses import dataclass

from planner.issues import Issue
from planner.ledger import Category
from planner.plan_types import DevicePlan, Plan
from ui.answers import answer
from ui.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the scenarios.

    Attributes:
        letter: A, B or C.
        name: What it is called, as text.
        document: The question.
        plan: Its answer, None where it has errors.
        issues: The errors then.
    """

    letter: str
    name: str
    document: Document
    plan: Plan | None
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A side that has an answer.

    Attributes:
        letter: A, B or C.
        name: What it is called, as text.
        plan: The answer.
    """

    letter: str
    name: str
    plan: Plan

    @property
    def worst(self) -> DevicePlan:
        """The fullest card, which stands for the whole job here."""
        return self.plan.worst


def side(letter: str, name: str, document: Document) -> Side:
    """A side with its answer."""
    found = answer(document)
    return Side(letter=letter, name=name, document=document, plan=found.plan, issues=found.errors)


def answered(sides: tuple[Side, ...]) -> tuple[Answered, ...]:
    """The sides that have an answer."""
    return tuple(Answered(letter=s.letter, name=s.name, plan=s.plan) for s in sides if s.plan is not None)


def at_peak(side: Answered) -> dict[Category, int]:
    """Bytes by category on the fullest card, in its fullest phase."""
    return side.worst.ledger.by_category(side.worst.peak_phase)


def categories(sides: tuple[Answered, ...]) -> tuple[Category, ...]:
    """Categories that any of them has at its peak, in stacking order."""
    present = {category for side in sides for category in at_peak(side)}
    return tuple(category for category in Category if category in present)
