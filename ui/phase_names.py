"""Phases by what they are called: a pipeline that makes pictures encodes text, denoises and decodes."""

from collections.abc import Iterable
from typing import Final, Literal

from planner.ledger import Phase
from ui.words import Words

Form = Literal["name", "short", "while"]
MAKES_PICTURES: Final = frozenset({Phase.PREFILL, Phase.FORWARD})


def phase_name(phases: Iterable[Phase], phase: Phase, form: Form, words: Words) -> str:
    """A phase of a job in words.

    Args:
        phases: All of the job; they tell whether pictures are made.
        phase: One of them.
        form: `name`, `short` for a narrow place, `while` to begin a sentence with.
        words: The language.
    """
    own = f"phase.picture_{phase.value}.{form}"
    if MAKES_PICTURES.issubset(phases) and words.has(own):
        return words(own)
    return words(f"phase.{phase.value}.{form}")
