"""Undo and redo: the questions of a session in order, bounded. Nothing of Streamlit in here."""

import json
from dataclasses import dataclass, replace
from typing import Final

from ui.document import Document, canonical

MOST_STEPS: Final = 100
MOST_CHARACTERS: Final = 4_000_000
"""Of all steps together: a pasted config.json can make a single one large."""


@dataclass(frozen=True, slots=True)
class History:
    """Documents as canonical text, oldest first.

    Attributes:
        steps: The documents.
        position: Which of them is the question as it stands; -1 before the first.
    """

    steps: tuple[str, ...] = ()
    position: int = -1

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier question."""
        return self.position > 0

    @property
    def can_redo(self) -> bool:
        """Whether a question was undone and nothing else asked since."""
        return self.position + 1 < len(self.steps)

    @property
    def document(self) -> Document:
        """The question at the position; a new one each time."""
        found: Document = json.loads(self.steps[self.position])
        return found


def recorded(history: History, document: Document) -> History:
    """The history with a question asked; the same one again is no step, another forgets what was undone."""
    text = canonical(document)
    if history.steps and history.steps[history.position] == text:
        return history
    steps = [*history.steps[: history.position + 1], text][-MOST_STEPS:]
    while len(steps) > 1 and sum(map(len, steps)) > MOST_CHARACTERS:
        del steps[0]
    return History(tuple(steps), len(steps) - 1)


def undone(history: History) -> History:
    """One question back; the same history where there is none."""
    return replace(history, position=history.position - 1) if history.can_undo else history


def redone(history: History) -> History:
    """One question forward again; the same history where there is none."""
    return replace(history, position=history.position + 1) if history.can_redo else history
