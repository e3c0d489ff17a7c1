"""Typed reading of a Hugging Face config: every value is checked for type and range before a formula sees it."""

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

from planner.model.spec import UnknownArchitecture

LAYERS = (1, 2_048)
WIDTH = (1, 1_000_000)
VOCAB = (1, 100_000_000)
HEADS = (1, 65_536)
EXPERTS = (1, 65_536)
POSITIONS = (1, 10_000_000_000)
PARAMS = (0, 10**15)

_SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """A value as short text for a message, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


class Fields:
    """A config being read. Each method names the key at fault in the `UnknownArchitecture` it raises.

    A key that holds None counts as absent, as in Hugging Face configs. A method given several keys takes the first
    that is present; the first is named when none is. `default` is the default of the Hugging Face class.
    """

    __slots__ = ("config", "model_type", "prefix")

    def __init__(self, config: Mapping[str, object], model_type: str, prefix: str = "") -> None:
        self.config = config
        self.model_type = model_type
        self.prefix = prefix

    def refuse(self, key: str, value: object, allowed: str, reason: str = "bad_value") -> NoReturn:
        """Raise for a value that is there but cannot be used."""
        raise UnknownArchitecture(self.model_type, reason, self.prefix + key, value=shown(value), allowed=allowed)

    def missing(self, key: str) -> NoReturn:
        """Raise for a key that has to be there."""
        raise UnknownArchitecture(self.model_type, "missing_key", self.prefix + key)

    def has(self, *keys: str) -> bool:
        """Whether any of the keys holds a value."""
        return any(self.config.get(key) is not None for key in keys)

    def raw(self, *keys: str) -> tuple[str, object]:
        """The first key present and its value; the first key and None if none is."""
        for key in keys:
            value = self.config.get(key)
            if value is not None:
                return key, value
        return keys[0], None

    def size(self, *keys: str, span: tuple[int, int] = WIDTH, default: int | None = None) -> int:
        """A whole number within `span`, both ends included."""
        key, value = self.raw(*keys)
        if value is None:
            return self.missing(key) if default is None else default
        if type(value) is not int or not span[0] <= value <= span[1]:
            self.refuse(key, value, f"{span[0]}..{span[1]}")
        return value

    def optional_size(self, *keys: str, span: tuple[int, int] = WIDTH) -> int | None:
        """A whole number within `span`, or None where absent."""
        return self.size(*keys, span=span) if self.has(*keys) else None

    def flag(self, *keys: str, default: bool) -> bool:
        """True or false."""
        key, value = self.raw(*keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(key, value, "true, false")
        return value

    def number(self, *keys: str, span: tuple[float, float], default: float | None = None) -> float:
        """A finite number within `span`."""
        key, value = self.raw(*keys)
        if value is None:
            return self.missing(key) if default is None else default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.refuse(key, value, f"{span[0]}..{span[1]}")
        if not span[0] <= value <= span[1]:
            self.refuse(key, value, f"{span[0]}..{span[1]}")
        return value

    def text(self, *keys: str, default: str | None = None, allowed: Sequence[str] = ()) -> str:
        """A string, one of `allowed` where that is given."""
        key, value = self.raw(*keys)
        if value is None:
            return self.missing(key) if default is None else default
        if not isinstance(value, str) or (allowed and value not in allowed):
            self.refuse(key, value, ", ".join(allowed) or "text")
        return value

    def texts(self, key: str, count: int, allowed: Sequence[str]) -> tuple[str, ...] | None:
        """A list of `count` strings, each one of `allowed`; None where absent."""
        value = self._list(key, count)
        if value is None:
            return None
        for item in value:
            if not isinstance(item, str) or item not in allowed:
                self.refuse(key, item, ", ".join(allowed))
        return tuple(value)

    def sizes(self, key: str, count: int | None, span: tuple[int, int] = WIDTH) -> tuple[int, ...] | None:
        """A list of `count` whole numbers within `span` (any count for None); None where absent."""
        value = self._list(key, count)
        if value is None:
            return None
        for item in value:
            if type(item) is not int or not span[0] <= item <= span[1]:
                self.refuse(key, item, f"{span[0]}..{span[1]}")
        return tuple(value)

    def _list(self, key: str, count: int | None) -> list[object] | None:
        value = self.config.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            self.refuse(key, value, "a list")
        if (count is not None and len(value) != count) or len(value) > LAYERS[1]:
            self.refuse(key, f"{len(value)} items", f"{count if count is not None else LAYERS[1]} items")
        return list(value)

    def nested(self, *keys: str) -> "Fields":
        """A config inside the config."""
        key, value = self.raw(*keys)
        if value is None:
            self.missing(key)
        if not isinstance(value, Mapping):
            self.refuse(key, value, "an object")
        return Fields(value, self.model_type, f"{self.prefix}{key}.")

    def divides(self, part_key: str, part: int, whole_key: str, whole: int) -> int:
        """`whole / part`, refused where it is not a whole number."""
        if whole % part:
            self.refuse(part_key, part, f"a divisor of {whole_key}={whole}")
        return whole // part

    def at_most(self, key: str, value: int, other_key: str, other: int) -> int:
        """`value`, refused where it is above another field."""
        if value > other:
            self.refuse(key, value, f"at most {other_key}={other}")
        return value
