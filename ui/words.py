"""Every word on the pages, from one file a language. Keys are dotted; placeholders are named.

`{unit}` is filled in everywhere with the unit that sizes are shown in.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from ui.units import current

FALLBACK: Final = "en"
_FOLDER = Path(__file__).with_name("locales")


class Safe(str):
    """HTML that was built here; `Words.html` puts it in as it is."""

    __slots__ = ()


class MissingWordsError(LookupError):
    """A key that the locale file does not have: a mistake of ours, never of the user."""


class Words:
    """The words of one language.

    Attributes:
        language: Its code, such as `en`.
    """

    def __init__(self, language: str, table: Mapping[str, str]) -> None:
        self.language = language
        self._table = dict(table)

    def __call__(self, key: str, /, **params: object) -> str:
        """The words of a key as plain text, placeholders filled in.

        Raises:
            MissingWordsError: The file has no such key.
        """
        return self._template(key).format(**{"unit": current(), **params})

    def html(self, key: str, /, **params: object) -> Safe:
        """The words of a key as HTML. Every parameter is escaped unless it is `Safe` itself."""
        safe = {name: escaped(value) for name, value in params.items()}
        return Safe(self._template(key).format(**{"unit": current(), **safe}))

    def count(self, key: str, number: int, /, **params: object) -> str:
        """Words that depend on a number: `key.one` or `key.other`; the number is the placeholder `n`."""
        form = "one" if number == 1 else "other"
        return self(f"{key}.{form}", n=f"{number:,}", **params)

    def listed(self, items: Iterable[str]) -> str:
        """Items after one another: `a, b, c`."""
        return self("join.list").join(items)

    def both(self, items: Sequence[str]) -> str:
        """Items that belong together: `a, b and c`."""
        *first, last = items
        return self("join.last").join([self.listed(first), last] if first else [last])

    def opening(self, text: str) -> str:
        """A text as it opens a sentence or stands alone: with a capital, where the language has them."""
        return text[:1].upper() + text[1:] if self("join.capitals") == "yes" else text

    def inside(self, text: str) -> str:
        """A text that opens a sentence as it stands inside one."""
        return text[:1].lower() + text[1:] if self("join.capitals") == "yes" else text

    def clauses(self, items: Iterable[str]) -> str:
        """Parts of a sentence that hold commas themselves: `a, b; c`."""
        return self("join.clause").join(items)

    def sentences(self, items: Iterable[str]) -> Safe:
        """Whole sentences after one another, as HTML; what is not `Safe` is escaped."""
        return Safe(self("join.sentence").join(map(escaped, items)))

    def text(self, items: Iterable[str]) -> str:
        """Whole sentences after one another, as plain text."""
        return self("join.sentence").join(items)

    def has(self, key: str) -> bool:
        """Whether the file has words for a key."""
        return key in self._table

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """All keys that start with a prefix, in file order."""
        return tuple(key for key in self._table if key.startswith(prefix))

    def _template(self, key: str) -> str:
        try:
            return self._table[key]
        except KeyError:
            raise MissingWordsError(f"no words for {key!r} in {self.language}") from None


def escaped(value: object) -> str:
    """A value as HTML text; `Safe` is left as it is."""
    return value if isinstance(value, Safe) else escape(str(value))


def languages() -> tuple[str, ...]:
    """Codes of the languages there is a file for."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def words_for(language: str) -> Words:
    """The words of a language; English where there is no file for it, and for a key that it lacks."""
    if language not in languages():
        return words_for(FALLBACK)
    return Words(language, own_words(FALLBACK) | own_words(language))


def own_words(language: str) -> dict[str, str]:
    """What the file of a language holds, by dotted key."""
    path = _FOLDER / f"{language}.toml"
    return flatten(tomllib.loads(path.read_text(encoding="utf-8")))


def flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Nested tables as dotted keys.

    Raises:
        TypeError: A value is neither text nor a table.
    """
    flat: dict[str, str] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{key}.")
        elif isinstance(value, str):
            flat[key] = value
        else:
            raise TypeError(f"{key}: {value!r} is not text")
    return flat
