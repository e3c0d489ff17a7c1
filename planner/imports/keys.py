"""The keys of one section of a file, taken one after another; what is left at the end is remarked on.

Every method that reads a key also puts it into the draft, unless the value is "auto", which leaves it to the
launcher: then the question keeps what it has.
"""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from math import isnan
from typing import Any, Final, TypeVar

from planner.checks.words import closest
from planner.imports.draft import Draft
from planner.yaml_text import number

AUTO: Final = "auto"
MOST_GUESSES: Final = 40
"""Unknown keys of a section for which a near one is looked for."""
YES: Final = frozenset({"true", "yes", "on", "1"})
NO: Final = frozenset({"false", "no", "off", "0", "none", "null", ""})
T = TypeVar("T")


class Keys:
    """One mapping of a file.

    Attributes:
        values: The mapping.
        draft: Where remarks and fields go.
        prefix: What stands before a key in remarks, with its dot.
    """

    def __init__(self, values: Mapping[str, Any], draft: Draft, prefix: str = "") -> None:
        self.values = values
        self.draft = draft
        self.prefix = prefix
        self._known: set[str] = set()
        self._left = dict(values)

    def has(self, *names: str) -> bool:
        """Whether one of the keys is there and not null."""
        return any(self.values.get(name) is not None for name in names)

    def raw(self, *names: str) -> Any:
        """The value of the first key that is there, as it stands; "auto" is remarked on and reads as None."""
        self._known.update(names)
        found = None
        for name in names:
            value = self._pop(name)
            if value is None:
                continue
            if value == AUTO and found is None:
                self.remark(name, AUTO, "auto", kept=None)
                return None
            found = value if found is None else found
        return found

    def plain(self, name: str) -> Any:
        """The value of a key in a program that has its own meaning of "auto"."""
        self._known.add(name)
        return self._pop(name)

    def is_auto(self, name: str) -> bool:
        """Whether the file leaves a key to the launcher."""
        return self.values.get(name) == AUTO

    def whole(self, path: str, *names: str, default: int | None = None, least: int = 1) -> int | None:
        """A whole number into a field."""
        return self._put(path, names, lambda value: _whole(value, least), f"integer >= {least}", default)

    def real(self, path: str, *names: str, default: float | None = None) -> float | None:
        """A number into a field."""
        return self._put(path, names, _real, "number", default)

    def flag(self, path: str, *names: str, default: bool | None = None) -> bool | None:
        """A switch into a field; with an empty path it is only read."""
        return self._put(path, names, _flag, "true, false", default)

    def pick(self, path: str, table: Mapping[str, T], *names: str, default: T | None = None) -> T | None:
        """One of several words into a field, by what it means there."""
        folded = {key.casefold(): meaning for key, meaning in table.items()}
        allowed = ", ".join(table)

        def meaning_of(value: Any) -> T | None:
            return folded.get(str(value).casefold())

        return self._put(path, names, meaning_of, allowed, default)

    def section(self, name: str) -> "Keys | None":
        """A mapping inside this one."""
        self._known.add(name)
        value = self._pop(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.remark(name, value, "bad_value", allowed="object")
            return None
        return Keys(value, self.draft, f"{self.prefix}{name}.")

    def remark(self, name: str, value: object, reason: str, **params: Any) -> None:
        """Say something about a key of this section."""
        self.draft.remark(f"{self.prefix}{name}", value, reason, **params)

    def inert(self, table: Mapping[str, str]) -> None:
        """Keys that the program ignores, with the ones that do what these seem to do."""
        for name in table.keys() & self._left.keys():
            self.remark(name, self._pop(name), "inert", real=table[name])

    def not_modelled(self, *names: str) -> None:
        """Keys that matter for memory and that a scenario cannot say; switched off they say nothing."""
        for name in names:
            value = self._pop(name)
            if value is not None and _flag(value) is not False:
                self.remark(name, value, "not_modelled")

    def finish(self, harmless: Iterable[str] = ()) -> None:
        """Remark on all that is left: keys without effect on memory by pattern, the rest as unknown."""
        patterns = tuple(harmless)
        plain = [*self._known, *(p for p in patterns if "*" not in p)]
        guessed = 0
        for name, value in self._left.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                self.remark(name, value, "no_memory")
            else:
                guessed += 1
                near = closest(name, plain) if guessed <= MOST_GUESSES else None
                self.remark(name, value, "unknown", closest=near)
        self._left = {}

    def _pop(self, name: str) -> Any:
        """The value of a key that the importer knows, None where it is not there."""
        if name in self._left:
            self.draft.known += 1
        return self._left.pop(name, None)

    def _put(
        self,
        path: str,
        names: tuple[str, ...],
        convert: Callable[[Any], T | None],
        allowed: str,
        default: T | None,
    ) -> T | None:
        left = next((name for name in names if self.is_auto(name)), None)
        if left is not None:
            self._known.update(names)
            self.remark(left, self._pop(left) or AUTO, "auto", kept=_kept(self.draft.get(path)))
            return None
        value = self.raw(*names)
        if value is None:
            if default is not None and path:
                self.draft.put(path, default)
                self.remark(names[0], default, "default")
            return default
        meaning = convert(value)
        if meaning is None:
            self.remark(next(n for n in names if self.has(n)), value, "bad_value", allowed=allowed)
            return default
        if path:
            self.draft.put(path, meaning)
            self.draft.told.add(path)
        return meaning


def _kept(value: Any) -> str | int | float | None:
    return value if isinstance(value, str | int | float) else None


def _whole(value: Any, least: int) -> int | None:
    found = _real(value)
    return int(found) if found is not None and found == int(found) and found >= least else None


def _real(value: Any) -> float | None:
    found = number(value.strip()) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, int | float) or abs(found) > 1e15 or isnan(found):
        return None
    return found


def _flag(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    text = str(value).strip().casefold()
    return True if text in YES else False if text in NO else None
