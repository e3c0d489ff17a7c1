"""The header of a GGUF file: metadata and tensors, read front to back and never past its end.

Layout: magic, version, two counts, then metadata as (key, type, value), then tensors as (name, dimensions, type,
offset). Every count and length comes from the file and is checked before anything is made from it: strings of a
vocabulary are stepped over, so that a header costs what it weighs. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from hardware_db.checkpoint.formats import GGML
from hardware_db.checkpoint.found import MOST_TENSORS, CheckpointError, Tensor
from planner.units import MIB, round_up

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
LARGEST_HEADER_BYTES: Final = 96 * MIB
"""Large vocabularies with their merges take about 20 MiB."""
FIRST_READ_BYTES: Final = 2 * MIB
MOST_VALUES: Final = 100_000
LONGEST_STRING_BYTES: Final = MIB
LONGEST_NAME_BYTES: Final = 1000
LONGEST_LIST: Final = 4096
MOST_STRINGS: Final = 4_000_000
STRING, ARRAY = 8, 9
_SCALARS: Final[dict[int, str]] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip

Fetch = Callable[[int, int], bytes]
"""(offset, size) -> that many bytes, fewer at the end."""
Value = bool | int | float | str | list[bool | int | float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a GGUF file says of itself.

    Attributes:
        values: Metadata: numbers, texts, short lists of numbers. Of other lists only the length is kept, under
            `<key>.length`.
        tensors: Every tensor.
        shapes: Dimensions of each, fastest first, as the file has them.
        needs_bytes: Size of a file that holds all of it.
    """

    values: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    shapes: Mapping[str, tuple[int, ...]]
    needs_bytes: int


class _Cursor:
    """Reads forward through a window that grows with the header."""

    def __init__(self, fetch: Fetch, name: str) -> None:
        self._fetch, self.name = fetch, name
        self._window, self._start, self._next = b"", 0, FIRST_READ_BYTES
        self.position = 0
        self.order = "<"

    def broken(self, detail: str) -> CheckpointError:
        return CheckpointError("broken", given=self.name, detail=f"{detail}, byte {self.position}")

    def take(self, size: int, what: str) -> bytes:
        if self.position + size > LARGEST_HEADER_BYTES:
            raise self.broken(f"header_too_long ({what})")
        at = self.position - self._start
        if at + size > len(self._window):
            self._fill(size)
            at = 0
        found = self._window[at : at + size]
        if len(found) < size:
            raise self.broken(f"ends_within_header ({what})")
        self.position += size
        return found

    def _fill(self, size: int) -> None:
        self._start = self.position
        self._window = self._fetch(self.position, max(size, self._next))
        self._next = min(2 * self._next, 16 * MIB)

    def skip(self, size: int, what: str) -> None:
        if self.position + size > LARGEST_HEADER_BYTES:
            raise self.broken(f"header_too_long ({what})")
        self.position += size
        if self.position > self._start + len(self._window):
            self._window, self._start = b"", self.position

    def number(self, code: str, what: str) -> int:
        size = struct.calcsize(code)
        found: int = struct.unpack(self.order + code, self.take(size, what))[0]
        return found

    def text(self, longest: int, what: str) -> str:
        size = self.number("Q", what)
        if size > longest:
            raise self.broken(f"text_too_long ({what})")
        return self.take(size, what).decode("utf-8", errors="replace")


def read_header(fetch: Fetch, name: str) -> Header:
    """Metadata and tensors of a GGUF file.

    Args:
        fetch: Reads parts of the file.
        name: Its name, for messages.

    Raises:
        CheckpointError: `gguf_version`, `unknown_type`, or `broken`: not such a file, cut short within its header, or
            with counts that cannot be.
    """
    cursor = _Cursor(fetch, name)
    if cursor.take(4, "magic") != MAGIC:
        raise cursor.broken("not_gguf")
    version = stated = cursor.number("I", "version")
    if version not in VERSIONS:
        cursor.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in VERSIONS:
            allowed = ", ".join(map(str, VERSIONS))
            raise CheckpointError("gguf_version", given=name, version=stated, allowed=allowed)
    num_tensors, num_values = cursor.number("Q", "tensors"), cursor.number("Q", "values")
    if num_tensors > MOST_TENSORS or num_values > MOST_VALUES:
        raise cursor.broken("counts")
    values: dict[str, Value] = {}
    for _ in range(num_values):
        key = cursor.text(LONGEST_NAME_BYTES, "key")
        _value(cursor, key, cursor.number("I", key), values)
    return _tensors(cursor, num_tensors, values)


def _value(cursor: _Cursor, key: str, kind: int, values: dict[str, Value]) -> None:
    if kind == STRING:
        size = cursor.number("Q", key)
        if size > LONGEST_STRING_BYTES:
            cursor.skip(size, key)
            return
        values[key] = cursor.take(size, key).decode("utf-8", errors="replace")
    elif kind == ARRAY:
        _list(cursor, key, values)
    elif kind in _SCALARS:
        values[key] = cursor.number(_SCALARS[kind], key)
    else:
        raise cursor.broken(f"value_type {kind} ({key})")


def _list(cursor: _Cursor, key: str, values: dict[str, Value]) -> None:
    kind, count = cursor.number("I", key), cursor.number("Q", key)
    values[f"{key}.length"] = count
    if kind == STRING:
        if count > MOST_STRINGS:
            raise cursor.broken(f"list_too_long ({key})")
        for _ in range(count):
            cursor.skip(cursor.number("Q", key), key)
        return
    if kind not in _SCALARS:
        raise cursor.broken(f"list_type {kind} ({key})")
    code = _SCALARS[kind]
    if count > LONGEST_LIST:
        cursor.skip(count * struct.calcsize(code), key)
        return
    size = count * struct.calcsize(f"<{code}")
    values[key] = list(struct.unpack(f"{cursor.order}{count}{code}", cursor.take(size, key)))


def _tensors(cursor: _Cursor, count: int, values: Mapping[str, Value]) -> Header:
    tensors, shapes, ends = [], {}, 0
    for _ in range(count):
        name = cursor.text(LONGEST_NAME_BYTES, "tensor")
        num = cursor.number("I", name)
        if num > 8:
            raise cursor.broken(f"dimensions ({name})")
        shape = tuple(cursor.number("Q", name) for _ in range(num))
        kind, offset = cursor.number("I", name), cursor.number("Q", name)
        tensor = _tensor(cursor, name, shape, kind)
        if name in shapes or offset + tensor.bytes > 2**60:
            raise cursor.broken(f"place ({name})")
        tensors.append(tensor)
        shapes[name], ends = shape, max(ends, offset + tensor.bytes)
    aligned = values.get("general.alignment")
    step = aligned if isinstance(aligned, int) and 0 < aligned <= MIB else 32
    start = round_up(cursor.position, step)
    return Header(
        values=values, tensors=tuple(tensors), shapes=shapes, needs_bytes=start + ends if ends else start
    )


def _tensor(cursor: _Cursor, name: str, shape: tuple[int, ...], kind: int) -> Tensor:
    elements = prod(shape)
    if elements > 2**50:
        raise cursor.broken(f"size ({name})")
    if kind not in GGML:
        raise CheckpointError("unknown_type", given=cursor.name, detail=str(kind), tensor=name)
    ident, block, size = GGML[kind]
    if elements % block:
        raise cursor.broken(f"size ({name})")
    return Tensor(name=name, format=ident, elements=elements, bytes=elements // block * size)
