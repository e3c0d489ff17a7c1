"""Reads a pickle that holds plain values only, in two walls.

The first wall reads the file's opcodes without acting on them and lets through those that build dicts, lists,
texts, numbers, booleans, None and pairs of small whole numbers. Nothing that names, calls or builds an object
is among them, nor anything that makes Python reserve more than the file's own size suggests: text and memo
numbers are held against what is left of the file, whole numbers end at 64 bits (longer ones can be chosen to
collide as keys), and the fewest bytes per object bound how much the whole can take. The second wall is an
unpickler that refuses every name, should one ever reach it.

What comes out can still share parts (a list that holds another a thousand times costs nothing here), so a
reader must not follow it without counting.

Source: `pickletools` of Python 3.11 for the opcodes; `pickle.dump` writes protocol 4 there and 5 from Python
3.14, the writer in C++ (`torch::cuda::_memory_snapshot_pickled`) protocol 2.
"""

import io
import pickle
import re
from functools import lru_cache
from typing import Final, NoReturn

from planner.units import GIB, MIB
from profiler.snapshot.errors import MemoryFileError

MAX_FILE_BYTES: Final = 64 * MIB
MAX_TEXT_BYTES: Final = MIB
MAX_OBJECT_BYTES: Final = 5 * GIB // 4
"""The most that the values of a file may take."""

_STOP: Final = ord(".")
_PROTOCOL: Final = 0x80
_TEXTS: Final = {0x8C: 1, ord("X"): 4, 0x8D: 8}
"""Opcodes of texts (`SHORT_BINUNICODE`, `BINUNICODE`, `BINUNICODE8`) with the bytes of their length."""

_COST_BYTES: Final = {
    b"}": 240, b"d": 240, b"]": 88, b"l": 88, b"\x86": 56, b"t": 56, b"\x8c": 72, b"X": 72, b"V": 72, b"J": 40,
    b"M": 40, b"I": 40, b"L": 40, b"\x8a": 40, b"G": 32, b"F": 32, b"h": 24, b"g": 24, b"K": 24, b"j": 16,
    b"N": 24, b")": 24, b"\x88": 24, b"\x89": 24, b"\x94": 16, b"q": 16, b"(": 8,
}  # fmt: skip
"""What an object of each opcode takes in CPython 3.11 on 64 bits, its places on the stack and in a list included.

Bytes are counted wherever they stand, in numbers and texts too, so that an honest file takes about half the sum.
"""

_PUT_BYTES: Final = 6
"""An object and its memo entry take at least this much of a file."""

_SIMPLE: Final = rb"""
    h. | j.{4}
    | (?: (?: K. | M.. ) (?: \x95.{8} )?+ ){2}+ \x86
    | \( (?: K. | M.. ){2}+ t | \( (?: I[0-9]{1,5}\n ){2}+ t
    | [}\](eusa)N\x88\x89\x94ld] | q.
    | K. | M.. | J.{4} | G.{8}
    | \x8a(?: \x00 | \x01. | \x02.. | \x03.{3} | \x04.{4} | \x05.{5} | \x06.{6} | \x07.{7} | \x08.{8} | \x09.{9} )
    | \x8c(?: \x00 | \x01. | \x02.. | \x03.{3} | \x04.{4} | \x05.{5} | \x06.{6} | \x07.{7} | \x08.{8} )
    | \x80[\x00-\x05] | \x95.{8}
    | I-?[0-9]{1,19}\n | L-?[0-9]{1,19}L?\n | F[-+.0-9a-z]{1,40}\n | V[^\n]{0,1048576}\n
    | p[0-9]{1,7}\n | g[0-9]{1,7}\n
"""


def load_plain(data: bytes) -> object:
    """The values of a pickle.

    Args:
        data: The file.

    Raises:
        MemoryFileError: `empty`, `too_large`, `compressed`, `not_pickle`, `truncated`, `not_plain`,
            `too_long_number` or `too_complex`.
    """
    _check_size(data)
    _check_opcodes(data)
    try:
        return _NoNames(io.BytesIO(data)).load()
    except MemoryFileError:
        raise
    except Exception as error:  # whatever the unpickler makes of bytes that only look right
        raise MemoryFileError("not_pickle", begins_with=data[:8].hex(" ")) from error


def _check_size(data: bytes) -> None:
    if not data:
        raise MemoryFileError("empty")
    if len(data) > MAX_FILE_BYTES:
        raise MemoryFileError("too_large", bytes=len(data), allowed_bytes=MAX_FILE_BYTES)
    if data.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        raise MemoryFileError("compressed")
    bound = sum(data.count(opcode) * cost for opcode, cost in _COST_BYTES.items())
    if bound > MAX_OBJECT_BYTES:
        raise MemoryFileError("too_complex", bytes=bound, allowed_bytes=MAX_OBJECT_BYTES)


class _NoNames(pickle.Unpickler):
    """The second wall."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise MemoryFileError("not_plain", name=f"{module_name}.{global_name}"[:200])

    def persistent_load(self, pid: object, /) -> NoReturn:
        raise MemoryFileError("not_plain", name=f"persistent id {pid!r}"[:200])


def _check_opcodes(data: bytes) -> None:
    """Read every opcode up to the end mark without acting on one."""
    match = _pattern(min(len(data) // _PUT_BYTES >> 16, 255)).match
    position, end = 0, len(data)
    while position < end:
        found = match(data, position)
        position = position if found is None else found.end()
        if position >= end:
            break
        opcode = data[position]
        if opcode == _STOP:
            return
        if opcode in _TEXTS:
            position = _after_text(data, position + 1, _TEXTS[opcode])
        else:
            _refuse(data, position)
    raise MemoryFileError("truncated", bytes=end)


@lru_cache(maxsize=256)
def _pattern(highest: int) -> re.Pattern[bytes]:
    """Everything but texts, as far as it goes. Possessive, so that nothing is kept for a second try.

    Args:
        highest: Third byte of the largest memo number that a file of this size can come to.
    """
    put = b"r..[\\x00-\\x%02x]\\x00" % highest
    return re.compile(b"(?:" + _SIMPLE + b"|" + put + b")++", re.DOTALL | re.VERBOSE)


def _after_text(data: bytes, position: int, width: int) -> int:
    """Where the opcode after a text begins."""
    start = position + width
    size = int.from_bytes(data[position:start], "little")
    if start + size > len(data):
        raise MemoryFileError("truncated", bytes=len(data))
    if size > MAX_TEXT_BYTES:
        raise MemoryFileError("too_complex", bytes=size, allowed_bytes=MAX_TEXT_BYTES)
    return start + size


_DIGITS: Final = re.compile(rb"[IL]-?[0-9]{20}")
_ARGUMENT_BYTES: Final = 10
"""The most that an opcode without text takes."""


def _refuse(data: bytes, position: int) -> NoReturn:
    """Say why the opcode at a position is not let through."""
    opcode = data[position]
    if position == 0 and opcode == _PROTOCOL and len(data) > 1:
        raise MemoryFileError("not_plain", name=f"protocol {data[1]}", offset=position)
    if opcode in _KNOWN and len(data) - position < _ARGUMENT_BYTES:
        raise MemoryFileError("truncated", bytes=len(data))
    if _is_long_number(data, position):
        raise MemoryFileError("too_long_number", offset=position, allowed="64 bits")
    if position == 0 and opcode not in _NAMES:
        raise MemoryFileError("not_pickle", begins_with=data[:8].hex(" "))
    raise MemoryFileError("not_plain", name=_NAMES.get(opcode, hex(opcode)), offset=position)


def _is_long_number(data: bytes, position: int) -> bool:
    """Whether a whole number of more than 64 bits begins here."""
    opcode = data[position]
    if opcode in b"IL":
        return _DIGITS.match(data, position) is not None
    width = {0x8A: 1, 0x8B: 4}.get(opcode)
    return width is not None and int.from_bytes(data[position + 1 : position + 1 + width], "little") > 9


_NAMES: Final = {
    ord("c"): "GLOBAL", 0x93: "STACK_GLOBAL", ord("R"): "REDUCE", ord("b"): "BUILD", ord("i"): "INST",
    ord("o"): "OBJ", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
    ord("P"): "PERSID", ord("Q"): "BINPERSID", 0x8B: "LONG4", ord("S"): "STRING", ord("T"): "BINSTRING",
    ord("U"): "SHORT_BINSTRING", ord("B"): "BINBYTES", ord("C"): "SHORT_BINBYTES", 0x8E: "BINBYTES8",
    0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER", 0x85: "TUPLE1", 0x86: "TUPLE2",
    0x87: "TUPLE3", ord("t"): "TUPLE", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET",
    0x8A: "LONG1", ord("r"): "LONG_BINPUT", ord("p"): "PUT", ord("2"): "DUP", ord("0"): "POP", ord("1"): "POP_MARK",
}  # fmt: skip
"""Opcodes that a person may want to see by name."""

_KNOWN: Final = frozenset(b"hjqrKMJGILFVpg") | {0x8A, 0x80, 0x95}
"""Opcodes that are let through when they are whole."""
