"""Measurements under way on this machine, whoever started them: each says where it writes, and the page lists them.

One small file per measurement, in the user's own data folder; it is touched while the measurement runs and taken away
when it ends. What a killed one left behind is taken away by whoever finds it stale.
"""

import contextlib
import datetime as dt
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from uuid import uuid4

from profiler.hook.collect import collect
from profiler.report import MAX_REPORT_BYTES, Report, ReportError
from profiler.report_file import open_report
from profiler.report_parts import Program

VARIABLE: Final = "HEADROOM_DATA"
FOLDER: Final = "live"
REPORT_NAME: Final = "report.json"
"""File in a measurement's folder that holds its report so far, where it has no hook."""

STALE_AFTER_S: Final = 60.0
MOST_LISTED: Final = 50
Way = Literal["run", "wrap", "hook", "watch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A measurement under way.

    Attributes:
        id: Its own for good.
        folder: Where it writes.
        way: How it measures, see `Program.way`.
        name: What is watched, for display.
        pid: Process that measures.
        started_at: UTC, ISO 8601.
    """

    id: str
    folder: Path
    way: Way
    name: str
    pid: int
    started_at: str

    def report(self) -> Report | None:
        """The report so far, None before there is one or when it has just ended."""
        written = self.folder / REPORT_NAME
        try:
            if written.exists():
                with written.open("rb") as file:
                    return open_report(file.read(MAX_REPORT_BYTES + 1))
            return collect(self.folder, Program(way=self.way, name=self.name), running=True)
        except (OSError, ReportError, ValueError):
            return None


class Announced:
    """A measurement's own entry.

    Args:
        path: Its file, None where none could be written: then it is not listed, and nothing else changes.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def beat(self) -> None:
        """Still alive."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.utime(self._path)

    def close(self) -> None:
        """Over."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)


def data_folder(
    variables: Mapping[str, str] = os.environ, *, platform: str = sys.platform, home: Path | None = None
) -> Path:
    """Where a user's own data belongs on this system; `HEADROOM_DATA` decides where it is set."""
    if named := variables.get(VARIABLE):
        return Path(named)
    home = home or Path.home()
    if platform == "win32":
        return Path(variables.get("APPDATA") or home / "AppData" / "Roaming") / "Headroom"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "Headroom"
    base = Path(variables.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else home / ".local" / "share") / "headroom"


@contextmanager
def announce(folder: Path, program: Program, data: Path | None = None) -> Iterator[Announced]:
    """List a measurement while inside.

    Args:
        folder: Where it writes.
        program: What is watched.
        data: The user's data folder, None for this system's.
    """
    entry = Announced(_write(folder, program, data))
    try:
        yield entry
    finally:
        entry.close()


def _write(folder: Path, program: Program, data: Path | None) -> Path | None:
    name = uuid4().hex
    document = {
        "folder": str(folder.resolve()),
        "way": program.way,
        "name": program.name,
        "pid": os.getpid(),
        "started_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    try:
        place = (data or data_folder()) / FOLDER
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{name}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
    except (OSError, RuntimeError):
        return None
    return path


def listed(data: Path | None = None) -> tuple[Live, ...]:
    """Measurements under way, newest first. Stale entries are taken away."""
    try:
        paths = sorted(((data or data_folder()) / FOLDER).glob("*.json"))
    except (OSError, RuntimeError):
        return ()
    found = (_read(path) for path in paths[: 10 * MOST_LISTED])
    alive = [live for live in found if live is not None]
    return tuple(sorted(alive, key=lambda live: live.started_at, reverse=True)[:MOST_LISTED])


def _read(path: Path) -> Live | None:
    try:
        if time.time() - path.stat().st_mtime > STALE_AFTER_S:
            path.unlink(missing_ok=True)
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
        return Live(
            id=path.stem,
            folder=Path(document["folder"]),
            way=document["way"],
            name=str(document["name"]),
            pid=int(document["pid"]),
            started_at=str(document["started_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
