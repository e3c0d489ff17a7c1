"""Memory of this machine and of a process, without extra packages. None = this system does not say."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from planner.units import KIB

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


def resident_bytes(pid: int, proc: Path = PROC) -> int | None:
    """Resident memory of a process (Linux: VmRSS; Windows: working set), None if it cannot be read."""
    if sys.platform == "win32":
        return _windows_working_set(pid)
    return _status_kib(proc / str(pid) / "status", "VmRSS")


def own_swapped_bytes(proc: Path = PROC) -> int | None:
    """Memory of this process that is on disk (Linux: VmSwap), None where the system does not say."""
    return _status_kib(proc / str(os.getpid()) / "status", "VmSwap")


def own_resident_bytes(proc: Path = PROC) -> int | None:
    """Resident memory of this process; on macOS its peak, which is all that the system tells."""
    if sys.platform == "darwin":
        import resource  # noqa: PLC0415  # there is none on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident_bytes(os.getpid(), proc)


def available_bytes(proc: Path = PROC, cgroup: Path = CGROUP) -> int | None:
    """Host memory that a new process may take: what is available and what a container's limit leaves."""
    if sys.platform == "win32":
        return _windows_available()
    read = (_status_kib(proc / "meminfo", "MemAvailable"), _cgroup_left(cgroup))
    return min((left for left in read if left is not None), default=None)


def _status_kib(path: Path, key: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, rest = line.partition(":")
            if name == key:
                return int(rest.split()[0]) * KIB
    return None


def _cgroup_left(cgroup: Path) -> int | None:
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            limit = int((cgroup / limit_name).read_text(encoding="utf-8"))
            used = int((cgroup / used_name).read_text(encoding="utf-8"))
            if limit < 2**60:  # version 1 writes a huge number for "no limit"
                return max(0, limit - used + _reclaimable(cgroup))
    return None


def _reclaimable(cgroup: Path) -> int:
    """File pages the system drops when memory is asked for; they count as used in a container."""
    for name in ("memory.stat", "memory/memory.stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in (cgroup / name).read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition(" ")
                if key == "inactive_file":
                    return int(value)
    return 0


class _MemoryStatus(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("available_physical", ctypes.c_uint64),
        ("total_page_file", ctypes.c_uint64),
        ("available_page_file", ctypes.c_uint64),
        ("total_virtual", ctypes.c_uint64),
        ("available_virtual", ctypes.c_uint64),
        ("available_extended_virtual", ctypes.c_uint64),
    )


class _ProcessCounters(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("page_faults", ctypes.c_uint32),
        ("peak_working_set", ctypes.c_size_t),
        ("working_set", ctypes.c_size_t),
        ("quota_peak_paged", ctypes.c_size_t),
        ("quota_paged", ctypes.c_size_t),
        ("quota_peak_nonpaged", ctypes.c_size_t),
        ("quota_nonpaged", ctypes.c_size_t),
        ("page_file", ctypes.c_size_t),
        ("peak_page_file", ctypes.c_size_t),
    )


def _windows_available() -> int | None:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    kernel: Any = vars(ctypes)["windll"].kernel32
    return status.available_physical if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else None


def _windows_working_set(pid: int) -> int | None:
    kernel: Any = vars(ctypes)["windll"].kernel32
    kernel.OpenProcess.restype = ctypes.c_void_p
    handle = kernel.OpenProcess(0x1000, 0, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
    if not handle:
        return None
    counters = _ProcessCounters(size=ctypes.sizeof(_ProcessCounters))
    try:
        read = kernel.K32GetProcessMemoryInfo(ctypes.c_void_p(handle), ctypes.byref(counters), counters.size)
    finally:
        kernel.CloseHandle(ctypes.c_void_p(handle))
    return counters.working_set if read else None
