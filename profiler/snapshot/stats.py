"""`torch.cuda.memory_stats` as JSON, as a printed dict, or as lines of names and numbers."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from profiler.snapshot.view import Figure

_METRICS: Final = (
    r"(?:(?:allocated|reserved|active|requested|inactive_split)_bytes|allocation|segment|active|inactive_split)"
    r"\.(?:all|large_pool|small_pool)|oversize_allocations|oversize_segments"
)
_NAME: Final = (
    rf"(?:{_METRICS})\.(?:current|peak|allocated|freed)"
    r"|num_(?:alloc_retries|ooms|sync_all_streams|device_alloc|device_free|oom_rejections)"
)
_IS_NAME: Final = re.compile(_NAME)
_PAIR: Final = re.compile(rf"(?<![\w.])({_NAME})['\"]?\s{{0,40}}[,:=|]?\s{{0,40}}(\d{{1,19}})(?![\w.])")
_DEVICE: Final = re.compile(
    r"(?:\bcuda:|\bdevice {0,3}(?:ID)?[ =:]{0,3}|\bGPU[ =:]{0,3})(\d{1,4})\b", re.IGNORECASE
)
_DEPTH: Final = 6

Figures = dict[str, Figure]


def dicts(text: str) -> Iterator[tuple[int | None, Figures]]:
    """Each dict's device, None where nothing says it, and figures, in order. A name that comes again begins a new one.

    Args:
        text: Without colour codes.
    """
    found = list(_from_json(text))
    yield from found or _from_text(text)


def _from_text(text: str) -> Iterator[tuple[int | None, Figures]]:
    figures: Figures = {}
    device, end = None, 0
    for pair in _PAIR.finditer(text):
        name = pair[1]
        if name in figures:
            yield device, figures
            figures = {}
        if not figures:
            named = _DEVICE.findall(text, end, pair.start())
            device = int(named[-1]) if named else None
        figures[name] = Figure(value=int(pair[2]))
        end = pair.end()
    if figures:
        yield device, figures


def _from_json(text: str) -> Iterator[tuple[int | None, Figures]]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from _records(values, None, 0)


def _records(values: Any, device: int | None, depth: int) -> Iterator[tuple[int | None, Figures]]:
    """A dict of figures, or a list or a dict of such dicts by device."""
    if depth > _DEPTH:
        return
    if isinstance(values, list):
        for number, value in enumerate(values):
            yield from _records(value, number, depth + 1)
    elif isinstance(values, dict):
        figures = dict(_flat(values, "", 0))
        if figures:
            yield device, figures
            return
        for key, value in values.items():
            digits = re.search(r"\d{1,4}$", key)
            yield from _records(value, int(digits[0]) if digits else device, depth + 1)


def _flat(values: Mapping[str, Any], before: str, depth: int) -> Iterator[tuple[str, Figure]]:
    """Names joined by dots, as `memory_stats` joins those of the nested form."""
    for key, value in values.items():
        name = before + key
        if isinstance(value, dict) and depth < _DEPTH:
            yield from _flat(value, f"{name}.", depth + 1)
        elif type(value) is int and _IS_NAME.fullmatch(name):
            yield name, Figure(value=value)
