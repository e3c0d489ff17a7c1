"""References in the user's language: what we say of a place in a source is worded, what others wrote is not.

The planner holds both in English; another language words `citation.where.<key>`, and `citation.title.<key>` for
the titles that are ours.
"""

from functools import cache
from html import escape

from planner.references import REFERENCES, Reference
from ui.words import Safe, Words


def title_of(reference: Reference, words: Words) -> Safe:
    """Its title, names between backticks as code; in the user's language where we named it."""
    return coded(_worded("title", reference, reference.title, words))


def where_of(reference: Reference, words: Words) -> Safe:
    """The place in it, names between backticks as code."""
    return coded(_worded("where", reference, reference.where, words))


def reference_line(reference: Reference, words: Words) -> Safe:
    """Kind, title with its link, and where in it."""
    facts = {
        "kind": words(f"working.kind.{reference.kind}"),
        "title": title_of(reference, words),
        "where": where_of(reference, words),
    }
    if not reference.url:
        return words.html("working.reference", **facts)
    return words.html("working.reference_link", url=reference.url, **facts)


def coded(text: str) -> Safe:
    """Text with the names between its backticks as code."""
    pieces = [escape(piece) for piece in text.split("`")]
    return Safe("".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces)))


@cache
def first_keys() -> dict[Reference, str]:
    """The key of every reference; of several equal ones the first."""
    keys: dict[Reference, str] = {}
    for key, reference in REFERENCES.items():
        keys.setdefault(reference, key)
    return keys


def _worded(part: str, reference: Reference, english: str, words: Words) -> str:
    key = f"citation.{part}.{first_keys().get(reference, '')}"
    return words(key) if words.has(key) else english
