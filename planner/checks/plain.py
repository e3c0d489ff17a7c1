"""Anything to plain JSON values, with what cannot be JSON reported by field."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.checks.codes import make
from planner.checks.words import shown
from planner.issues import Issue

DEEPEST: Final = 32
MOST_VALUES: Final = 100_000
LARGEST_BITS: Final = 1023
MOST_ISSUES: Final = 50
LONGEST_KEY: Final = 200
"""Characters of a key that a field's path keeps."""


def plain(document: object) -> tuple[Any, tuple[Issue, ...]]:
    """A copy made of dict, list, str, int, float, bool and None only.

    Mappings become dicts, tuples lists. What JSON cannot say (NaN, infinity, other types, keys that are no
    text, lone surrogates), numbers beyond a double, more than 32 levels and more than 100,000 values become
    issues; the copy has None in their place.
    """
    copier = _Copier()
    return copier.copy(document, "", 0), tuple(copier.issues)


class _Copier:
    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.values = 0

    def copy(self, value: object, path: str, depth: int) -> Any:
        self.values += 1
        if self.values > MOST_VALUES:
            self._once("too_large", path, given=f">{MOST_VALUES}", allowed=f"<={MOST_VALUES}")
            return None
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self._number(value, path)
        if isinstance(value, str):
            return self._text(value, path)
        if depth >= DEEPEST and isinstance(value, Mapping | list | tuple):
            self._once("too_deep", path, given=f">{DEEPEST}", allowed=f"<={DEEPEST}")
            return None
        if isinstance(value, Mapping):
            return dict(self._items(value, path, depth))
        if isinstance(value, list | tuple):
            return [self.copy(item, f"{path}.{i}".lstrip("."), depth + 1) for i, item in enumerate(value)]
        self._report("wrong_type", path, given=type(value).__name__, allowed="JSON")
        return None

    def _items(self, value: Mapping[Any, Any], path: str, depth: int) -> Iterator[tuple[str, Any]]:
        for key, item in value.items():
            if not isinstance(key, str):
                self._report("wrong_type", path, given=shown(key), allowed="string")
                continue
            field = f"{path}.{key[:LONGEST_KEY]}".lstrip(".")
            yield self._text(key, path) or "", self.copy(item, field, depth + 1)

    def _number(self, value: int | float, path: str) -> int | float | None:
        if isinstance(value, float) and not math.isfinite(value):
            self._report("not_finite", path, given=str(value), allowed="")
            return None
        if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
            self._report("out_of_range", path, given="> 1e308", allowed="")
            return None
        return value

    def _text(self, value: str, path: str) -> str | None:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self._report("bad_text", path, given=shown(value), allowed="Unicode")
            return None
        return value

    def _report(self, code: str, path: str, **params: str) -> None:
        if len(self.issues) < MOST_ISSUES:
            self.issues.append(make(code, path, **params))

    def _once(self, code: str, path: str, **params: str) -> None:
        if all(issue.code != code for issue in self.issues):
            self._report(code, path, **params)
