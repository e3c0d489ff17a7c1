"""The tables of `torch.cuda.memory_summary`, found in a text or a log.

Source: `torch/cuda/memory.py` of PyTorch 2.13, `memory_summary`: sizes are divided by 1024 and cut, not rounded,
until the row's first pool is below 768 * 1024; counts likewise by 1000. PyTorch 1 wrote KB for KiB.
"""

import re
from collections.abc import Iterator
from typing import Final

from planner.units import KIB
from profiler.snapshot.view import Figure

THOUSAND: Final = 10**3

_HEAD: Final = re.compile(r"PyTorch \w{1,20} memory summary, device ID (\d{1,4})\b")
_COUNTERS: Final = re.compile(
    r"OOMs:[ ]{0,20}(\d{1,15})[ ]{0,40}\|[ ]{0,40}\w{1,40} retries:[ ]{0,20}(\d{1,15})[ ]{0,40}\|"
)
_CELL: Final = r"[ ]{0,20}(\d{1,18})[ ]{0,9}([KMGTP]i?B|[KMB])?[ ]{0,20}\|"
_ROW: Final = re.compile(r"\|[ ]{0,20}([A-Za-z][A-Za-z -]{0,40}?)[ ]{0,20}\|" + _CELL * 4)
_ROWS: Final = {
    "Allocated memory": "allocated_bytes",
    "Active memory": "active_bytes",
    "Requested memory": "requested_bytes",
    "GPU reserved memory": "reserved_bytes",
    "Non-releasable memory": "inactive_split_bytes",
    "Allocations": "allocation",
    "Active allocs": "active",
    "GPU reserved segments": "segment",
    "Non-releasable allocs": "inactive_split",
    "Oversize allocations": "oversize_allocations",
    "Oversize GPU segments": "oversize_segments",
}
_POOLS: Final = {"from large pool": "large_pool", "from small pool": "small_pool"}
_COLUMNS: Final = ("current", "peak", "allocated", "freed")
_POWERS: Final = "BKMGTP"

Figures = dict[str, Figure]


def tables(text: str) -> Iterator[tuple[int, Figures]]:
    """Each table's device and figures by the names of `memory_stats`, in order. Rows may have anything around them.

    Args:
        text: Without colour codes.
    """
    heads = list(_HEAD.finditer(text))
    for number, head in enumerate(heads):
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        yield int(head[1]), _figures(text[head.end() : end])


def _figures(table: str) -> Figures:
    found: Figures = {}
    if counters := _COUNTERS.search(table):
        found["num_ooms"] = Figure(value=int(counters[1]))
        found["num_alloc_retries"] = Figure(value=int(counters[2]))
    metric = ""
    for row in _ROW.finditer(table):
        metric = _ROWS.get(row[1], metric if row[1] in _POOLS else "")
        if not metric:
            continue
        pool = _POOLS.get(row[1], "all")
        stem = metric if metric.startswith("oversize") else f"{metric}.{pool}"
        for place, column in enumerate(_COLUMNS):
            figure = _figure(row[2 + 2 * place], row[3 + 2 * place], is_size=metric.endswith("_bytes"))
            found.setdefault(f"{stem}.{column}", figure)
    return found


def _figure(digits: str, suffix: str | None, *, is_size: bool) -> Figure:
    """What was cut off is less than one of the last printed digit."""
    power = _POWERS.index((suffix or "B")[0])
    unit = KIB**power if is_size else THOUSAND**power
    return Figure(value=int(digits) * unit, tolerance=unit - 1)
