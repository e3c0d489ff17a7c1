"""Messages of the published set with what they say, and ways in which texts arrive damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from planner.diagnose import Record, read_whole
from planner.units import GIB, MIB

DATA = Path(__file__).parents[2] / "data"
MESSAGES: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "truth" / "messages.jsonl").read_text(encoding="utf-8").splitlines()
]
TORCH = [message for message in MESSAGES if "request" in message["expected"] and "gpu" in message["expected"]]
NAMES = {
    "ma": "allocated",
    "max_ma": "peak_allocated",
    "ca": "reserved",
    "max_ca": "peak_reserved",
    "allocated_mib": "allocated",
    "peak_mib": "peak_allocated",
    "reserved_mib": "reserved",
}
UNITS = {"ma": GIB, "max_ma": GIB, "ca": GIB, "max_ca": GIB}


def only(text: str, form: str | None = None) -> Record:
    """The one record of a text."""
    records = [r for r in read_whole(text).records if form is None or r.form == form]
    assert len(records) == 1, [record.form for record in records]
    return records[0]


def wrong(record: Record, expected: dict[str, Any]) -> list[str]:
    """Each expected value that the record does not have: bytes to half the last printed digit."""
    return [
        f"{name}: {value!r}, read {_read(record, name)!r}"
        for name, value in expected.items()
        if not _same(record, name, value)
    ]


def _read(record: Record, name: str) -> Any:
    if name == "gpu":
        return record.device
    if name == "rank":
        return record.rank
    if name == "others":
        return [process.size.bytes if process.size else None for process in record.processes]
    size = record.size(_size_name(name))
    if size is not None:
        return size.bytes
    return record.fact(name)


def _size_name(name: str) -> str:
    return NAMES.get(name, name.removesuffix("_gib"))


def _same(record: Record, name: str, value: Any) -> bool:
    found = _read(record, name)
    if isinstance(value, list) or value is None or found is None or name in {"gpu", "rank"}:
        return bool(found == value)
    size = record.size(_size_name(name))
    if size is None:
        return bool(found == value)
    if name.endswith("_mib"):
        return bool(size.bytes // MIB == value)
    scale = GIB if name.endswith("_gib") else UNITS.get(name, 1)
    return bool(abs(size.bytes - value * scale) <= 1)


# --- damage


def prefixed(text: str, prefix: str) -> str:
    """Every line with a prefix, as loggers of many processes write."""
    return "\n".join(prefix + line for line in text.split("\n"))


def colored(text: str) -> str:
    """Colours round every third word."""
    words = text.split(" ")
    return " ".join(f"\x1b[0;36m{word}\x1b[0m" if i % 3 == 0 else word for i, word in enumerate(words))


def hard_wrapped(text: str, width: int) -> str:
    """Cut at a column, in the middle of words and numbers."""
    return "\n".join(text[i : i + width] for i in range(0, len(text), width))


def soft_wrapped(text: str, width: int) -> str:
    """Broken at blanks."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) + 1 > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def in_other_units(text: str) -> str:
    """Every figure in GiB as the same number of MiB."""
    return re.sub(
        r"(\d+)\.(\d\d) GiB", lambda m: f"{(int(m[1]) * 100 + int(m[2])) * 1024 / 100:.2f} MiB", text
    )
