"""The tables of `torch.cuda.memory_summary`, found in a text or a log.

Source: `torch/cuda/memory.py` of PyTorch 2.13, `memory_summary`: sizes are divided by 1024 and cut, not rounded,
until the row's first pool is below 768 * 1024; counts likewise by 1000. PyTorch 1 wrote KB for KiB.
"""

import re
from collections.abc import Iterator
from typing import Final

from planner.diagnose.passage import Passage
from planner.diagnose.record import Record, facts, known
from planner.diagnose.sizes import UNITS, Size

_HEAD: Final = re.compile(r"PyTorch \w{1,20} memory summary, device ID (\d{1,4})\b")
_COUNTERS: Final = re.compile(r"OOMs: {1,3}(\d{1,12}) {0,40}\| {0,40}\w{1,40} retries: {1,3}(\d{1,12}) ")
_CELL: Final = r" {0,20}(\d{1,18}) {0,9}([KMGTP]i?B|B)? {0,20}\|"
_ROW: Final = re.compile(r"\| {0,20}([A-Za-z][A-Za-z -]{0,40}?) {0,20}\|" + _CELL * 2)
_ROWS: Final = {
    "Allocated memory": "allocated",
    "Requested memory": "asked",
    "GPU reserved memory": "reserved",
    "Non-releasable memory": "inactive",
}


def find(passage: Passage) -> Iterator[Record]:
    """Every table: what is in use now, the peaks, and the counters."""
    text = passage.text
    heads = list(_HEAD.finditer(text))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        yield _table(passage, text[head.end() : end], int(head[1]), text.count("\n", 0, head.start()))


def _table(passage: Passage, table: str, device: int, lines_before: int) -> Record:
    sizes: dict[str, Size | None] = {}
    for row in _ROW.finditer(table):
        name = _ROWS.get(row[1])
        if name is not None and name not in sizes:
            sizes[name] = _cut(row[2], row[3])
            sizes[f"peak_{name}"] = _cut(row[4], row[5])
    counters = _COUNTERS.search(table)
    return Record(
        form="memory_summary",
        failure=False,
        sizes=known(sizes),
        facts=facts(ooms=int(counters[1]), retries=int(counters[2])) if counters else (),
        device=device,
        line=passage.lines[0].number + lines_before,
    )


def _cut(digits: str, unit: str | None) -> Size | None:
    """A cell. The rest was cut off, so the tolerance is the whole of the last digit."""
    scale = UNITS.get(unit or "B")
    if scale is None or int(digits) * scale > 2**60:
        return None
    return Size(int(digits) * scale, scale - 1, f"{digits}{unit or 'B'}")
