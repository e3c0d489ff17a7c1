"""The stories to start from: scenario files of `examples/`, read once."""

import json
from functools import cache
from pathlib import Path
from typing import Final

from ui.document import Document, canonical

FOLDER: Final = Path(__file__).parent.parent / "examples"
STORIES: Final = (
    "llama-8b-six-unequal-cards",
    "llama-7b-full-four-3090",
    "llama-70b-qlora-one-a100",
    "llama-70b-awq-two-l40s",
    "llama-13b-two-a100-four-3090",
)
"""File names without ending, in the order of the menu; the first one is the default question."""


@cache
def _text(story: str) -> str:
    return canonical(json.loads((FOLDER / f"{story}.json").read_text(encoding="utf-8")))


def story_document(story: str) -> Document:
    """The scenario document of a story; a new one each time."""
    document: Document = json.loads(_text(story))
    return document


def refused_document(story: str) -> Document | None:
    """The layout that a story was published with and that cannot be planned; None where there is no such thing."""
    path = FOLDER / "refused" / f"{story}.json"
    if not path.is_file():
        return None
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    return document


def default_document() -> Document:
    """The question a first visit opens with."""
    return story_document(STORIES[0])


def story_of(document: Document) -> str | None:
    """The story that a document is, None when it is nobody's but the user's."""
    text = canonical(document)
    return next((story for story in STORIES if _text(story) == text), None)
