"""Damaged texts: nothing raises, and every size that is read is a figure of the text in its own unit."""

from __future__ import annotations

import json
import random

import pytest

from planner.diagnose import diagnose
from planner.diagnose.document import as_json
from planner.diagnose.passage import Passage
from planner.units import GIB, KIB, MIB
from tests.planner.diagnose.cases import MESSAGES
from tests.planner.diagnose.test_diagnosis import MOCK
from tests.planner.diagnose.test_messages import LINES, SMI, SUMMARY

SEEDS: list[str] = [
    *(message["text"] for message in MESSAGES),
    *(text for text, _, _ in LINES.values()),
    *(SMI, SUMMARY, MOCK),
    (
        'time=x layers.requested=-1 layers.model=33 layers.offload=20 memory.available="[7.5 GiB 7.5 GiB]" '
        'memory.required.full="22.0 GiB" memory.weights.total="15.0 GiB"'
    ),
    '{"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}',
]
PIECES = [
    *("GiB", "MiB", "KiB", "bytes", "GB", "out of memory", "Tried to allocate ", "Process 1 has ", "[rank3]: "),
    *("\x1b[0m", "\n", "\r\n", "|", "\x00", "\u2028", "\ud83d\ude00", "9" * 25, "-1", ".", "1e9", "NaN", "(", "\\n"),
    *("GPU 99999 ", "device 4", "[N/A]", "0 bytes", "17179869184.00 GiB", "\u0661\u0662", "\u00b2"),
    "compute buffer size = ",
]  # fmt: skip
SCALES = {"": 1, "B": 1, "bytes": 1, "K": KIB, "M": MIB, "G": GIB, "T": KIB * GIB}
BARE = frozenset({"MB", "MiB", "GB", "GiB", "B"})
"""Units that a column head or a word of the line gives, and not the figure itself."""


def mutated(chance: random.Random) -> str:
    text: str = chance.choice(SEEDS)
    for _ in range(chance.randrange(1, 7)):
        at, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
        match chance.randrange(7):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 2:
                text = (
                    text[:at]
                    + chr(chance.choice((chance.randrange(128), chance.randrange(0xD800))))
                    + text[at + 1 :]
                )
            case 3:
                text = text[:at] + text[at : at + 40] * chance.randrange(1, 5) + text[at:]
            case 4:
                text = text + chance.choice("\n ") + chance.choice(SEEDS)
            case 5:
                text = "".join(str(chance.randrange(10)) if c.isdigit() else c for c in text)
            case _:
                text = text.replace(chance.choice(("GiB", "MiB", " ", ".", "0")), chance.choice(PIECES))
        text = text[:6000]
    return text


def own_scale(printed: str) -> tuple[float, float]:
    """A printed figure worked out again: bytes, and one of its last digit."""
    number = printed.rstrip("BKMGTibytes")
    unit = printed[len(number) :]
    fraction = len(number.partition(".")[2])
    scale = SCALES[unit if unit in SCALES else unit[0]]
    return float(number) * scale, scale / 10**fraction


def check(text: str) -> int:
    found = diagnose(text)
    json.dumps(as_json(found))
    dense = "".join(Passage(text).text.split())
    sizes = [(record.form, size) for record in found.reading.records for _, size in record.sizes]
    sizes += [
        (record.form, process.size)
        for record in found.reading.records
        for process in record.processes
        if process.size is not None
    ]
    for form, size in sizes:
        if "+" in size.printed or form == "tensorflow":
            continue
        number = size.printed.rstrip("BKMGTibytes")
        assert size.printed in dense or (number in dense and size.printed[len(number) :] in BARE), (
            form,
            size,
        )
        value, digit = own_scale(size.printed)
        assert abs(size.bytes - value) <= max(1.0, value * 1e-12), (form, size)
        assert size.tolerance_bytes <= digit + 1
    if found.layers is not None:
        assert all(held.bytes >= 0 for held in found.layers.held)
    return len(sizes)


def test_a_few_thousand_damaged_texts() -> None:
    chance = random.Random(20261129)  # noqa: S311
    assert sum(check(mutated(chance)) for _ in range(1500)) > 1000


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_a_hundred_thousand_damaged_texts(part: int) -> None:
    chance = random.Random(part)  # noqa: S311
    assert sum(check(mutated(chance)) for _ in range(10_000)) > 5000


def test_a_wrong_unit_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.diagnose import sizes  # noqa: PLC0415

    monkeypatch.setitem(sizes.UNITS, "GiB", MIB)
    with pytest.raises(AssertionError):
        check(MOCK)


STRANGE = [
    *("", " ", "\n" * 1000, "\x00" * 50, "[" * 5000, "(" * 5000, "|" * 5000, "0" * 5000, "\x1b[" * 2000),
    *("GPU" * 3000, "Process 1 has 1.00 GiB memory in use. " * 500, "Tried to allocate " * 500),
    '"a":"auto",' * 900,
]


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts(text: str) -> None:
    assert diagnose(text).reading.num_chars == len(text)
