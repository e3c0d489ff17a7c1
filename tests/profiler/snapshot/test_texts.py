"""`memory_stats` and `memory_summary` as programs print them."""

import json
import pprint
import time
from collections import OrderedDict
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.units import GIB, KIB, MIB
from profiler.snapshot import MemoryFileError, read_memory_file, read_memory_text
from profiler.snapshot.view import DeviceMemory
from tests.profiler.snapshot.summaries import Stats, stats, table

FIGURES = stats(15 * GIB + 12345, 21 * GIB)

# The layout of PyTorch 2, some rows left out.
PRINTED = """
|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |  15360 MiB |  18944 MiB |    812 GiB |    797 GiB |
|       from large pool |  15302 MiB |  18880 MiB |    810 GiB |    795 GiB |
|       from small pool |     58 MiB |     66 MiB |      2 GiB |      1 GiB |
|---------------------------------------------------------------------------|
| Requested memory      |  15291 MiB |  18870 MiB |    809 GiB |    794 GiB |
|---------------------------------------------------------------------------|
| GPU reserved memory   |  21504 MiB |  21504 MiB |  43008 MiB |  21504 MiB |
|---------------------------------------------------------------------------|
| Non-releasable memory |   6144 MiB |   6500 MiB |    402 GiB |    396 GiB |
|---------------------------------------------------------------------------|
| Allocations           |    1847    |    2103    |   45829 K  |   43982    |
|===========================================================================|
"""


def only(text: str) -> DeviceMemory:
    (device,) = read_memory_text(text).devices
    return device


def check(device: DeviceMemory, figures: Stats) -> None:
    """Every figure that was printed lies within its tolerance."""
    assert device.figures
    for name, figure in device.figures:
        assert figure.value <= figures[name] <= figure.value + figure.tolerance, name


def test_a_printed_table() -> None:
    device = only(PRINTED)
    assert device.device == 0
    assert device.now.allocated_bytes == 15360 * MIB
    assert device.now.reserved_bytes == 21 * GIB
    assert device.now.requested_bytes == 15291 * MIB
    assert device.now.rounding_bytes == 69 * MIB
    assert device.now.fragmented_frac == pytest.approx(2 / 7)
    assert device.now.active_bytes is None
    assert (device.peak_allocated_bytes, device.peak_reserved_bytes) == (18944 * MIB, 21504 * MIB)
    assert (device.num_ooms, device.retries) == (1, 3)
    assert [(pool.pool, pool.level.allocated_bytes) for pool in device.pools] == [
        ("large", 15302 * MIB),
        ("small", 58 * MIB),
    ]
    counted = device.figure("allocation.all.allocated")
    assert counted is not None
    assert (counted.value, counted.tolerance) == (45829000, 999)
    level = device.figure("allocated_bytes.all.current")
    assert level is not None
    assert level.tolerance == MIB - 1
    assert [(entry.name, entry.bytes) for entry in device.ledger().entries] == [
        ("block_rounding", 69 * MIB),
        ("cache", 6 * GIB),
    ]


@pytest.mark.parametrize("allocated", [900, 5 * KIB, 767 * MIB, 768 * MIB, 15 * GIB + 7, 900 * GIB])
@pytest.mark.parametrize("short", [False, True])
def test_every_figure_of_a_table(allocated: int, short: bool) -> None:
    figures = stats(allocated, allocated * 2)
    device = only(table(figures, 3, short=short))
    assert device.device == 3
    assert len(device.figures) == 2 + 4 * (11 if short else 29)
    assert len(device.pools) == (0 if short else 2)
    check(device, figures)


def test_several_devices_and_the_last_reading_of_each() -> None:
    early, late = stats(GIB, 2 * GIB), stats(3 * GIB, 4 * GIB)
    seen = read_memory_text(table(early, 0) + "step 2\n" + table(early, 1) + table(late, 0))
    assert [device.device for device in seen.devices] == [0, 1]
    check(seen.devices[0], late)
    check(seen.devices[1], early)
    assert (seen.remarks[0].code, seen.remarks[0].count) == ("earlier_readings", 1)


@pytest.mark.parametrize(
    "prefix",
    ["2026-05-01 10:00:00,123 INFO train: ", "[rank3]: ", "\x1b[32m", "(pid=77) | ", "    > "],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\x1b[0m\n"])
def test_what_a_log_puts_around_the_lines(prefix: str, ending: str) -> None:
    text = "".join(prefix + line + ending for line in table(FIGURES).splitlines())
    check(only(text), FIGURES)
    assert only(text).device == 0


def test_a_text_that_was_printed_as_a_literal() -> None:
    check(only(repr(table(FIGURES))), FIGURES)


def test_units_of_pytorch_1() -> None:
    assert only(PRINTED.replace("MiB", "MB ").replace("GiB", "GB ")).now.allocated_bytes == 15360 * MIB


@pytest.mark.parametrize(
    "printed",
    [
        json.dumps(FIGURES),
        json.dumps(FIGURES, indent=2),
        str(FIGURES),
        str(OrderedDict(FIGURES)),
        "OrderedDict(" + str(list(FIGURES.items())) + ")",
        pprint.pformat(FIGURES),
        "\n".join(f"INFO {name} = {value}" for name, value in FIGURES.items()),
        "\n".join(f"{name}: {value}" for name, value in FIGURES.items()),
        "\n".join(f"| {name:40} | {value:>20} |" for name, value in FIGURES.items()),
    ],
)
def test_stats_in_many_forms(printed: str) -> None:
    device = only(printed)
    assert device.now.allocated_bytes == FIGURES["allocated_bytes.all.current"]
    assert (device.num_ooms, device.retries) == (1, 3)
    assert device.peak_reserved_bytes == 42 * GIB
    assert {figure.tolerance for _, figure in device.figures} == {0}
    check(device, FIGURES)


def test_nested_stats_by_device() -> None:
    nested = {"allocated_bytes": {"all": {"current": 7, "peak": 9}}, "num_ooms": 2}
    seen = read_memory_text(json.dumps({"cuda:0": nested, "cuda:1": nested}))
    assert [(d.device, d.now.allocated_bytes, d.peak_allocated_bytes, d.num_ooms) for d in seen.devices] == [
        (0, 7, 9, 2),
        (1, 7, 9, 2),
    ]
    assert [device.device for device in read_memory_text(json.dumps([nested, nested])).devices] == [0, 1]


def test_stats_printed_one_after_another() -> None:
    text = f"device 0: {FIGURES}\ndevice 1: {stats(GIB, GIB)}"
    assert [(d.device, d.now.allocated_bytes) for d in read_memory_text(text).devices] == [
        (0, 15 * GIB + 12345),
        (1, GIB),
    ]


def test_host_figures_and_private_pools_are_no_device() -> None:
    with pytest.raises(MemoryFileError):
        read_memory_text(
            '{"allocated_bytes.current": 5, "reserved_bytes_by_private_pools.0_1.all.current": 6}'
        )


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("hello", "not_memory_text"),
        ("{", "not_memory_text"),
        ("PyTorch CUDA memory summary, device ID 0", "not_memory_text"),
        (PRINTED[: PRINTED.index("| Allocated")], "not_memory_text"),
        ("x" * (MIB + 1), "too_large"),
        ('{"allocated_bytes.all.current": -5}', "bad_value"),
        ('{"allocated_bytes.all.current": 1.5}', "not_memory_text"),
        ('{"allocated_bytes.all.current": true}', "not_memory_text"),
        ('{"allocated_bytes.all.current": 9999999999999999999999}', "bad_value"),
        ("[" * 100_000, "not_memory_text"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "not_memory_text"),
    ],
)
def test_what_is_no_reading(text: str, code: str) -> None:
    with pytest.raises(MemoryFileError) as caught:
        read_memory_text(text)
    assert caught.value.code == code


def test_a_file_of_either_kind() -> None:
    assert read_memory_file(PRINTED.encode()).source == "summary"
    assert read_memory_file(b"\xef\xbb\xbf" + json.dumps(FIGURES).encode()).source == "stats"
    with pytest.raises(MemoryFileError, match="not_memory_text"):
        read_memory_file(b"configuration of a run")


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text(text: str) -> None:
    for made in (text, PRINTED[:600] + text + PRINTED[600:]):
        with suppress(MemoryFileError):
            read_memory_text(made)


@pytest.mark.parametrize(
    "hostile",
    ["| A" + " " * MIB, "| " + "A " * (MIB // 2 - 2), "allocated_bytes.all.current" + " " * (MIB - 30),
     "allocated_bytes.all.current " * (MIB // 28 - 1), "device " * (MIB // 7), "|" * MIB, "\x1b[" * (MIB // 2),
     "PyTorch " * (MIB // 8), "CUDA OOMs: 1" + " " * (MIB - 12)],
)  # fmt: skip
def test_no_text_takes_long(hostile: str) -> None:
    """Twice the text takes about twice the time: patterns do not try again and again."""
    spent = []
    for text in (hostile[: len(hostile) // 4], hostile):
        start = time.process_time()
        with pytest.raises(MemoryFileError):
            read_memory_text(text)
        spent.append(time.process_time() - start)
    assert spent[1] < 10 * spent[0] + 0.5
