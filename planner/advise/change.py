"""A change to a question: what is different, as values of the document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from planner.document import Document, put_all

OTHER_JOBS: Final = frozenset({"lora", "qlora", "half_sequence", "half_context", "half_concurrency"})
OTHER_HARDWARE: Final = frozenset({"double_cards", "double_cards_split"})

Param = int | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to a question, or several that are made together.

    Attributes:
        name: Words are `change.<name>.what` and `change.<name>.note`; of several the words are those of the parts.
        values: Paths of the document and their new values.
        document: The question with them.
        params: Placeholders of the words.
        grows: Whether it spends memory rather than saving it.
        budget: Whether it saves nothing, but lets the engine take more of the card.
        parts: The changes that are made together.
    """

    name: str
    values: Mapping[str, Any]
    document: Document
    params: Mapping[str, Param] = field(default_factory=dict)
    grows: bool = False
    budget: bool = False
    parts: tuple["Change", ...] = ()

    @property
    def other_job(self) -> bool:
        """Whether it answers another question than the one asked: another method, a shorter context."""
        return self.name in OTHER_JOBS or any(part.other_job for part in self.parts)

    @property
    def other_hardware(self) -> bool:
        """Whether it takes other cards than the question's."""
        return self.name in OTHER_HARDWARE or any(part.other_hardware for part in self.parts)


def change(
    document: Document,
    name: str,
    values: Mapping[str, Any],
    *,
    grows: bool = False,
    budget: bool = False,
    **params: Param,
) -> Change:
    """A change of a document.

    Args:
        document: The question.
        name: Its id.
        values: Paths and their new values; None takes a field out.
        grows: Whether it spends memory.
        budget: Whether it lets the engine take more of the card.
        **params: Placeholders of its words.
    """
    return Change(
        name=name,
        values=values,
        document=put_all(document, values),
        params=params,
        grows=grows,
        budget=budget,
    )


def together(document: Document, *changes: Change) -> Change | None:
    """Several changes at once; None where two of them set one field or one block of it."""
    values: dict[str, Any] = {}
    for one in changes:
        if any(_touch(a, b) for a in one.values for b in values):
            return None
        values |= one.values
    return Change(
        name="+".join(one.name for one in changes),
        values=values,
        document=put_all(document, values),
        budget=any(one.budget for one in changes),
        parts=changes,
    )


def _touch(a: str, b: str) -> bool:
    return a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.")
