"""Every message and memory line of a text of any length, read once from front to back.

A short text is read whole. Of a long one only the surroundings of words that a message has are looked at: the first
and the newest stretches with a failure, and the same of those with figures and with NCCL's lines; the rest is counted.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from planner.diagnose.forms import devices, engines, ggml, host, jobs, limits, nccl, summary, torch_oom, xla
from planner.diagnose.passage import Passage
from planner.diagnose.record import Record
from planner.units import KIB, MIB

READERS: Final = (
    torch_oom.find,
    nccl.failures,
    xla.find,
    engines.find,
    ggml.find,
    jobs.find,
    devices.find,
    summary.find,
    limits.find,
    host.find,
)

SHORT_TEXT: Final = 128 * KIB
BLOCK: Final = MIB
REACH: Final = 4 * KIB
"""Characters before and after a word that are read with it."""
LONGEST_STRETCH: Final = 8 * KIB
MOST_FAILURES: Final = 16
MOST_FIGURES: Final = 8
MOST_LINKS: Final = 8
"""Stretches that are read at either end of the text, of each kind."""
LINKS_MARK: Final = "NCCL "
MOST_RECORDS: Final = 2000

_FAILURE_WORDS: Final = frozenset(
    {
        *("f memory", "Tried to allocate", "RESOURCE_EXHAUSTED", "OOM when", "q len (", "Free memory on"),
        *(
            "No available memory",
            "gh memory",
            "Malloc failed",
            "fer of size",
            "Killed",
            "_kill",
            "'t allocate",
        ),
        *(
            "Unable to allocate",
            "xit code",
            "xitcode",
            "ALLOC_FAILED",
            "ErrorMemory",
            "NVML",
            "NVIDIA driver",
        ),
        *("显存", "operation timeout", "tem memory ("),
        *(
            "GPU RAM",
            "d shared memory",
            "f shared memory",
            ": shared memory",
            "us error",
            "No devices were",
            "OUT_OF_MEMORY",
            "SIGKILL",
            "GPU is lost",
        ),
    }
)
_FIGURE_WORDS: Final = (
    "Max_MA", "CPU Virtual", "MemAllocated", "| allocated:", "Allocated: ", "KV cache", "KV Cache", "MiB /",
    "MiB, ", "ghts take", "Model loading took", "_utilization (", "vail mem", "fer size", "yers.offload",
    "y summary", "GPU blocks", "y footprint", "CUDA graph", "Graph capturing", "Maximum concurrency", "_param=",
    "_kv_cache", "Not Supported",
)  # fmt: skip
_WORDS: Final = re.compile("|".join(map(re.escape, (*sorted(_FAILURE_WORDS), *_FIGURE_WORDS))))
"""Parts of words that begin with letters rare in logs: the pattern has no group, so that a search skips to those."""

_STEP: Final = re.compile(r"'epoch': ?[\d.]|\bstep[ =:]{1,3}\d|\biteration[ =:]{1,4}\d|\d(?:it/s|s/it)\b")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text holds.

    Attributes:
        records: Messages and memory lines, in order of the text; what is said again is counted.
        context: The lines above the newest failure, for where in the program it was.
        num_chars: Length of the text.
        num_lines: Its lines.
        left_out: Stretches in the middle of a long text that were passed over.
        steps: Logged steps among those lines.
    """

    records: tuple[Record, ...]
    context: tuple[str, ...]
    num_chars: int
    num_lines: int
    left_out: int
    steps: int

    @property
    def failures(self) -> tuple[Record, ...]:
        """Records of something that failed."""
        return tuple(record for record in self.records if record.failure)


@dataclass(frozen=True, slots=True)
class _Stretch:
    text: str
    first_line: int
    failure: bool


def read_whole(text: str) -> Reading:
    """Read a text. Never raises."""
    return read(text[start : start + BLOCK] for start in range(0, max(1, len(text)), BLOCK))


def read(blocks: Iterable[str]) -> Reading:
    """Read a text that comes in blocks of any size. Never raises; what is kept does not grow with the text."""
    collector = _Collector()
    for stretch in collector.stretches(_resized(blocks)):
        collector.take(stretch)
    return collector.reading()


def decoded(blocks: Iterable[bytes]) -> Iterator[str]:
    """Bytes as text; what is no UTF-8 becomes the replacement character, at most a few at the edge of a block."""
    for number, block in enumerate(blocks):
        if number == 0 and block[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            yield block.decode("utf-16", errors="replace")
        elif b"\x00" in block[:200] and block[1::2].count(0) > len(block) // 4:
            yield block.replace(b"\x00", b"").decode("utf-8", errors="replace")
        else:
            yield block.decode("utf-8", errors="replace")


def _resized(blocks: Iterable[str]) -> Iterator[str]:
    """The same text in blocks of about `BLOCK`."""
    held: list[str] = []
    size = 0
    for block in blocks:
        for start in range(0, len(block), BLOCK):
            piece = block[start : start + BLOCK]
            held.append(piece)
            size += len(piece)
            if size >= BLOCK:
                yield "".join(held)
                held, size = [], 0
    yield "".join(held)


class _Ends:
    """The first and the last few of many."""

    def __init__(self, most: int) -> None:
        self.first: list[_Stretch] = []
        self.last: deque[_Stretch] = deque(maxlen=most)
        self.most = most
        self.seen = 0

    def add(self, stretch: _Stretch) -> None:
        self.seen += 1
        if len(self.first) < self.most:
            self.first.append(stretch)
        else:
            self.last.append(stretch)

    def all(self) -> list[_Stretch]:
        return [*self.first, *self.last]

    @property
    def left_out(self) -> int:
        return self.seen - len(self.first) - len(self.last)


class _Collector:
    def __init__(self) -> None:
        self._failures, self._figures = _Ends(MOST_FAILURES), _Ends(MOST_FIGURES)
        self._links = _Ends(MOST_LINKS)
        self._chars = self._lines = 0

    def stretches(self, blocks: Iterable[str]) -> Iterator[_Stretch]:
        """The stretches to read, each once, in order; a text of one short block is one stretch."""
        held, held_line, done = "", 1, 0
        first = True
        pieces = iter(blocks)
        block: str | None = next(pieces, "")
        while block is not None:
            following = next(pieces, None)
            self._chars += len(block)
            if first and following in (None, "") and len(block) <= SHORT_TEXT:
                self._lines = block.count("\n") + 1
                self._take_links(block, 1)
                yield _Stretch(block, 1, failure=True)
                return
            first = False
            self._take_links(block, held_line + held.count("\n"))
            held += block
            limit = len(held) if following is None else max(done, len(held) - 2 * REACH - LONGEST_STRETCH)
            for start, end, failure in _clusters(held, done, limit):
                yield _Stretch(held[start:end], held_line + held.count("\n", 0, start), failure)
                done = end
            keep = max(0, min(limit, len(held)) - REACH)
            keep = max(0, min(keep, max(done, limit) - REACH))
            held_line += held.count("\n", 0, keep)
            done = max(0, max(done, limit) - keep)
            held = held[keep:]
            block = following
        self._lines = held_line + held.count("\n")

    def take(self, stretch: _Stretch) -> None:
        """Keep a stretch, if it is among the first or the last of its kind."""
        (self._failures if stretch.failure else self._figures).add(stretch)

    def _take_links(self, block: str, first_line: int) -> None:
        """Stretches with NCCL's lines, which a log may have by the thousand."""
        at, line, counted = block.find(LINKS_MARK), first_line, 0
        while at >= 0:
            start = block.rfind("\n", 0, at) + 1
            end = block.find("\n", at + LONGEST_STRETCH)
            end = len(block) if end < 0 else end
            line, counted = line + block.count("\n", counted, start), start
            self._links.add(_Stretch(block[start:end], line, failure=False))
            at = block.find(LINKS_MARK, end)

    def reading(self) -> Reading:
        """Read what was kept."""
        kept = sorted(self._failures.all() + self._figures.all(), key=lambda stretch: stretch.first_line)
        found: dict[object, Record] = {}
        context: tuple[str, ...] = ()
        newest = 0
        for stretch in kept:
            passage = Passage(stretch.text, stretch.first_line)
            for record in _records(passage):
                _count(found, record)
                if record.failure and record.line >= newest:
                    newest, context = record.line, tuple(passage.before(record.line))
        for stretch in self._links.all():
            for record in nccl.find(Passage(stretch.text, stretch.first_line)):
                _count(found, record)
        records = tuple(sorted(found.values(), key=lambda record: record.line))
        return Reading(
            records=records[:MOST_RECORDS],
            context=context,
            num_chars=self._chars,
            num_lines=self._lines,
            left_out=self._failures.left_out + self._figures.left_out + self._links.left_out,
            steps=sum(1 for line in context if _STEP.search(line[:400])),
        )


def _records(passage: Passage) -> Iterator[Record]:
    for reader in READERS:
        yield from reader(passage)


def _count(found: dict[object, Record], record: Record) -> None:
    """Put a record in, or count it where the same was said before by the same rank and card."""
    key = (record.form, record.sizes, record.facts, record.processes, record.device, record.rank)
    before = found.get(key)
    if before is not None:
        found[key] = replace(record, count=before.count + 1)
    elif len(found) < MOST_RECORDS:
        found[key] = record


def _clusters(text: str, start: int, limit: int) -> Iterator[tuple[int, int, bool]]:
    """Stretches around words, cut at line ends, none overlapping another, that begin before `limit`."""
    begin = end = -1
    failure = False
    for word in _WORDS.finditer(text, start, limit):
        at = word.start()
        if begin >= 0 and (at > end or end - begin > LONGEST_STRETCH):
            yield (*_at_lines(text, begin, end, start), failure)
            start = min(len(text), max(start, _at_lines(text, begin, end, start)[1]))
            begin, failure = -1, False
        if begin < 0:
            if at < start:
                continue
            begin = max(start, at - REACH)
        end = min(len(text), at + REACH)
        failure = failure or word[0] in _FAILURE_WORDS
    if begin >= 0:
        yield (*_at_lines(text, begin, end, start), failure)


def _at_lines(text: str, begin: int, end: int, least: int) -> tuple[int, int]:
    """Moved to the ends of lines, where these are near."""
    line_start = text.rfind("\n", max(least, begin - REACH), begin) + 1
    line_end = text.find("\n", end, end + REACH)
    return (line_start if line_start > 0 else begin), (line_end + 1 if line_end >= 0 else end)
