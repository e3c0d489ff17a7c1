"""Typed reading of a config: every value is checked for type and range before a formula sees it."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from planner.model.errors import UnknownArchitecture

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

    A key that holds None counts as absent, as in Hugging Face configs. A method given several keys takes
    the first that is present; the first is named when none is. `default` is the default of the Hugging
    Face class.
    """

    __slots__ = ("config", "model_type", "prefix")

    def __init__(self, config: Mapping[str, object], model_type: str, prefix: str = "") -> None:
        self.config = config
        self.model_type = model_type
        self.prefix = prefix

    def refuse(self, key: str, value: object, allowed: str, reason: str = "bad_value") -> NoReturn:
        """Raise for a value that is there but cannot be used."""
        raise UnknownArchitecture(
            self.model_type, reason, self.prefix + key, value=shown(value), allowed=allowed
        )

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

    def unsupported(self, key: str, value: object) -> NoReturn:
        """Raise for a feature that has no closed form here."""
        self.refuse(key, value, "", reason="unsupported_feature")

    def optional_size(self, *keys: str, span: tuple[int, int] = WIDTH) -> int | None:
        """A whole number within `span`, or None where absent."""
        return self.size(*keys, span=span) if self.has(*keys) else None

    def flag(self, *keys: str, default: bool | None = None) -> bool:
        """True or false."""
        key, value = self.raw(*keys)
        if value is None:
            return self.missing(key) if default is None else default
        if not isinstance(value, bool):
            self.refuse(key, value, "true, false")
        return value

    def number(self, *keys: str, span: tuple[float, float], default: float | None = None) -> float:
        """A finite number within `span`."""
        key, value = self.raw(*keys)
        if value is None:
            return self.missing(key) if default is None else default
        if isinstance(value, bool) or not isinstance(value, int | float) or not span[0] <= value <= span[1]:
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

    def texts(
        self, key: str, count: int | None, allowed: Sequence[str], *, padded: bool = False
    ) -> tuple[str, ...] | None:
        """A list of `count` strings (any count for None), each one of `allowed`; None where absent.

        `padded` lists may go on after `count`, for layers that are not built (multi-token prediction).
        """
        value = self._list(key, count, padded=padded)
        if value is None:
            return None
        texts = [item for item in value if isinstance(item, str) and item in allowed]
        if len(texts) != len(value):
            wrong = next(item for item in value if not isinstance(item, str) or item not in allowed)
            self.refuse(key, wrong, ", ".join(allowed))
        return tuple(texts)

    def sizes(
        self, key: str, count: int | None, span: tuple[int, int] = WIDTH, *, padded: bool = False
    ) -> tuple[int, ...] | None:
        """A list of `count` whole numbers within `span` (any count for None); None where absent."""
        value = self._list(key, count, padded=padded)
        if value is None:
            return None
        sizes = [item for item in value if type(item) is int and span[0] <= item <= span[1]]
        if len(sizes) != len(value):
            wrong = next(item for item in value if type(item) is not int or not span[0] <= item <= span[1])
            self.refuse(key, wrong, f"{span[0]}..{span[1]}")
        return tuple(sizes)

    def items(self, key: str, count: int) -> list["Fields"] | None:
        """A list of `count` objects; None where absent."""
        value = self._list(key, count)
        if value is None:
            return None
        for index, item in enumerate(value):
            if not isinstance(item, Mapping):
                self.refuse(f"{key}.{index}", item, "an object")
        return [
            Fields(item, self.model_type, f"{self.prefix}{key}.{index}.")
            for index, item in enumerate(value)
            if isinstance(item, Mapping)
        ]

    def _list(self, key: str, count: int | None, *, padded: bool = False) -> list[object] | None:
        value = self.config.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            self.refuse(key, value, "a list")
        short = count is not None and len(value) < count
        long = len(value) > (LAYERS[1] if count is None or padded else count)
        if short or long:
            self.refuse(
                key, f"{len(value)} items", f"at most {LAYERS[1]}" if count is None else f"{count} items"
            )
        return list(value[:count])

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
