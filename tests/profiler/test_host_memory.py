"""Host memory, from recorded files and from this machine."""

import os
from pathlib import Path

import pytest

from profiler.host_memory import available_bytes, own_resident_bytes, resident_bytes


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


MEMINFO = {"meminfo": "MemTotal:       32000000 kB\nMemAvailable:   1000 kB\n"}


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="no /proc on this system")
def test_this_process_has_memory() -> None:
    own = own_resident_bytes()
    assert own is not None
    assert own > 1_000_000
    assert resident_bytes(os.getpid()) is not None
    assert (available_bytes() or 0) > 1_000_000


def test_a_process_that_is_gone_is_unknown(tmp_path: Path) -> None:
    assert resident_bytes(1, _write(tmp_path, {"2/status": "VmRSS: 5 kB\n"})) is None


def test_resident_memory_is_read(tmp_path: Path) -> None:
    root = _write(tmp_path, {"7/status": "Name:\tx\nVmRSS:\t   12 kB\n"})
    assert resident_bytes(7, root) == 12 * 1024


@pytest.mark.parametrize("text", ["", "VmRSS:\n", "VmRSS: many kB\n"])
def test_odd_files_are_unknown(tmp_path: Path, text: str) -> None:
    assert resident_bytes(7, _write(tmp_path, {"7/status": text})) is None


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ({}, 1_024_000),
        ({"memory.max": "max\n", "memory.current": "5\n"}, 1_024_000),
        ({"memory.max": "1000\n", "memory.current": "400\n"}, 600),
        (
            {"memory.max": "1000\n", "memory.current": "900\n", "memory.stat": "anon 1\ninactive_file 300\n"},
            400,
        ),
        ({"memory.max": "1000\n", "memory.current": "1200\n"}, 0),
        ({"memory/memory.limit_in_bytes": "900", "memory/memory.usage_in_bytes": "100"}, 800),
        (
            {"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "1"},
            1_024_000,
        ),
    ],
)
def test_a_container_limits_what_is_available(tmp_path: Path, cgroup: dict[str, str], expected: int) -> None:
    proc = _write(tmp_path / "proc", MEMINFO)
    assert available_bytes(proc, _write(tmp_path / "cgroup", cgroup)) == expected


def test_nothing_to_read_is_unknown(tmp_path: Path) -> None:
    assert available_bytes(tmp_path, tmp_path) is None
