"""Logs of any length: read in blocks, nothing lost at their edges, what is kept does not grow."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

from planner.diagnose import diagnose, read, read_whole
from planner.diagnose.scan import BLOCK, MOST_RECORDS, SHORT_TEXT, decoded
from planner.units import MIB
from tests.planner.diagnose.cases import MESSAGES, wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE = next(m for m in MESSAGES if m["tag"] == "1d")
TEXT: str = MESSAGE["text"]
FAILURES = 300
NOISE = "2026-05-01 10:00:00 INFO step 17 loss 1.203 lr 1e-4 memory of the run fine\n"


def log(before: int, after: int = 0) -> str:
    return NOISE * before + TEXT + "\n" + NOISE * after


@pytest.mark.parametrize("before", [0, 1, 3000, 13_000, 14_000])
def test_a_message_is_found_wherever_it_stands(before: int) -> None:
    reading = read_whole(log(before, 20))
    (record,) = reading.records
    assert wrong(record, MESSAGE["expected"]) == []
    assert record.line == before + 1
    assert reading.num_lines == before + 22


def test_a_message_across_blocks_is_read_once() -> None:
    for shift in range(0, 1200, 37):
        lines = (BLOCK + shift - 600) // len(NOISE)
        (record,) = read_whole(log(lines, 3000)).records
        assert (record.count, record.line) == (1, lines + 1)
        assert wrong(record, MESSAGE["expected"]) == []


@pytest.mark.parametrize("step", [1000, 65_536, 3 * MIB])
def test_the_size_of_the_blocks_does_not_matter(step: int) -> None:
    text = log(20_000, 5) + log(20_000, 5)
    found = read(text[i : i + step] for i in range(0, len(text), step))
    assert [(r.line, r.count) for r in found.records] == [(40_007, 2)]
    assert found == read_whole(text)


def many(kind: str, blocks: int) -> Iterator[str]:
    for number in range(blocks):
        if kind == "noise":
            yield NOISE * (MIB // len(NOISE))
        elif kind == "failures":
            yield "".join(
                MESSAGE["text"].replace("7.83", f"{number}.{i % 90 + 10}") + "\n" for i in range(FAILURES)
            )
        else:
            yield "".join(
                f"[Rank 0] (after {number * 1500 + i} iterations) memory (MB) | allocated: {i}.25 | "
                f"max allocated: 7420.50 | reserved: 8192.00 | max reserved: 8192.00\n"
                for i in range(1500)
            )


@pytest.mark.parametrize("kind", ["noise", "failures", "figures"])
def test_what_is_kept_is_far_less_than_the_text(kind: str) -> None:
    tracemalloc.start()
    reading = read(many(kind, 80))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reading.num_chars > 13 * MIB
    assert peak < 9 * MIB


def test_a_failure_among_many_figures_is_not_passed_over() -> None:
    text = "".join(many("figures", 3)) + MESSAGE["text"] + "\n" + "".join(many("figures", 3))
    found = read_whole(text)
    assert found.left_out > 0
    assert len(found.records) <= MOST_RECORDS
    assert [wrong(record, MESSAGE["expected"]) for record in found.failures] == [[]]


def test_the_newest_of_many_failures_is_judged() -> None:
    record = diagnose("".join(many("failures", 6))).record
    assert record is not None
    assert record.line == 6 * FAILURES


def test_bytes_that_are_no_text() -> None:
    text = log(3, 3).encode()
    assert len(read(decoded([b"\xff\xfe\xfa" + bytes(range(256)) + b"\n" + text])).failures) <= 1
    assert len(read(decoded([text.replace(b"INFO", b"\xe9\xff")])).failures) == 1
    assert len(read(decoded([log(3, 3).encode("utf-16")])).failures) == 1


def test_one_line_without_an_end() -> None:
    assert read_whole("x" * (SHORT_TEXT + BLOCK)).records == ()
    assert read_whole("out of memory " * 20_000).num_chars == 280_000
