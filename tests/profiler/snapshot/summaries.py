"""The text that PyTorch prints of an allocator's figures, written anew from the rules of `memory_summary`."""

from collections.abc import Iterator

from planner.units import KIB

SIZES = {
    "allocated_bytes": "Allocated memory",
    "active_bytes": "Active memory",
    "requested_bytes": "Requested memory",
    "reserved_bytes": "GPU reserved memory",
    "inactive_split_bytes": "Non-releasable memory",
}
COUNTS = {
    "allocation": "Allocations",
    "active": "Active allocs",
    "segment": "GPU reserved segments",
    "inactive_split": "Non-releasable allocs",
}
OVERSIZE = {"oversize_allocations": "Oversize allocations", "oversize_segments": "Oversize GPU segments"}
POOLS = {"all": "", "large_pool": "      from large pool", "small_pool": "      from small pool"}
COLUMNS = ("current", "peak", "allocated", "freed")

Stats = dict[str, int]


def stats(allocated: int, reserved: int, **more: int) -> Stats:
    """What `memory_stats` would return, with a tenth of everything in small blocks."""
    base = {
        "allocated_bytes": allocated,
        "active_bytes": allocated + 512,
        "requested_bytes": allocated - 100,
        "reserved_bytes": reserved,
        "inactive_split_bytes": (reserved - allocated) // 2,
        "allocation": 1847,
        "active": 1848,
        "segment": 214,
        "inactive_split": 158,
    }
    made: Stats = {"num_ooms": 1, "num_alloc_retries": 3, "max_split_size": -1, "num_device_alloc": 214}
    for name, value in base.items():
        for pool, part in (("all", 1.0), ("large_pool", 0.9), ("small_pool", 0.1)):
            for column, times in (("current", 1), ("peak", 2), ("allocated", 900), ("freed", 899)):
                made[f"{name}.{pool}.{column}"] = int(value * part) * times
    for name in OVERSIZE:
        made |= {f"{name}.{column}": 0 for column in COLUMNS}
    return made | more


def table(figures: Stats, device: int = 0, *, short: bool = False) -> str:
    """The box of `memory_summary`."""
    return "".join(f"|{line}|\n" for line in _lines(figures, device, short))


def _lines(figures: Stats, device: int, short: bool) -> Iterator[str]:
    yield "=" * 75
    yield f"{'':18}PyTorch CUDA memory summary, device ID {device:<18d}"
    yield "-" * 75
    ooms, retries = figures["num_ooms"], figures["num_alloc_retries"]
    yield f"{'':12}CUDA OOMs: {ooms:<13d}|{'':8}cudaMalloc retries: {retries:<10d}"
    yield "=" * 75
    yield "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  "
    for name, label in (*SIZES.items(), *COUNTS.items()):
        yield "-" * 75
        for pool, indent in list(POOLS.items())[: 1 if short else 3]:
            cells = [_cell(figures, name, pool, column) for column in COLUMNS]
            yield f" {indent or label:<21} | {' | '.join(cells)} "
    for name, label in OVERSIZE.items():
        yield "-" * 75
        cells = [f"{figures[f'{name}.{column}']:7d}   " for column in COLUMNS]
        yield f" {label:<21} | {' | '.join(cells)} "
    yield "=" * 75


def _cell(figures: Stats, name: str, pool: str, column: str) -> str:
    value, leading = figures[f"{name}.{pool}.{column}"], figures[f"{name}.all.{column}"]
    if name in SIZES:
        power = sum(leading >= 768 * KIB**step for step in (2, 3, 4, 5))
        return f"{value // KIB**power:6d} {('B  ', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
    power = sum(leading >= 750 * 1000**step for step in (1, 2))
    return f"{value // 1000**power:7d} {' KM'[power]} "
