"""The list of saved scenarios: one JSON file of this machine, written whole and moved into place.

Every change is read, made and written under a lock, so two sessions, or two processes, lose nothing of each
other's. A file that cannot be read is set aside under another name and never overwritten.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from planner.units import MIB
from ui.document import Document, canonical

VARIABLE: Final = "HEADROOM_DATA"
FILE_NAME: Final = "saved.json"
VERSION: Final = 1
MOST_ENTRIES: Final = 200
MOST_BYTES: Final = 4 * MIB
LONGEST_NAME: Final = 80
LOCK_LIMIT_S: Final = 5.0
LOCK_PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A saved scenario.

    Attributes:
        id: Its own for good, whatever it is called.
        name: Free text of one line.
        document: The scenario document as it was.
        saved_at: UTC, ISO 8601 to the second.
    """

    id: str
    name: str
    document: Document
    saved_at: str


Entries = tuple[Entry, ...]
Change = Callable[[Entries], Entries]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the file held.

    Attributes:
        entries: Newest first.
        set_aside: Name of the copy that was made of a file, or parts of one, that could not be read.
    """

    entries: Entries = ()
    set_aside: str | None = None


class SavedError(Exception):
    """The list cannot be kept.

    Attributes:
        code: `not_writable`, `busy`, `newer`, `full` or `too_large`.
        detail: A path, a number of entries or of bytes.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def data_folder(variables: Mapping[str, str], *, platform: str = sys.platform, home: Path) -> Path:
    """Where a user's own data belongs on this system; HEADROOM_DATA decides where it is set."""
    if named := variables.get(VARIABLE):
        return Path(named)
    if platform == "win32":
        return Path(variables.get("APPDATA") or home / "AppData" / "Roaming") / "Headroom"
    if platform == "darwin":
        return home / "Library" / "Application Support" / "Headroom"
    base = Path(variables.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else home / ".local" / "share") / "headroom"


def one_line(name: str) -> str:
    """A name without line breaks and control characters, cut to length."""
    printable = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(printable.split())[:LONGEST_NAME].rstrip()


def new_entry(name: str, document: Document) -> Entry:
    """An entry of its own, saved now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Entry(id=uuid4().hex, name=one_line(name), document=document, saved_at=now)


def with_entry(entries: Entries, entry: Entry) -> Entries:
    """The list with an entry put in, newest first; an entry of the same id stays what it is.

    Raises:
        SavedError: `full`: there are `MOST_ENTRIES` already.
    """
    if any(other.id == entry.id for other in entries):
        return entries
    if len(entries) >= MOST_ENTRIES:
        raise SavedError("full", str(MOST_ENTRIES))
    return tuple(sorted((entry, *entries), key=lambda other: other.saved_at, reverse=True))


def with_name(entries: Entries, entry_id: str, name: str) -> Entries:
    """The list with one entry called something else; an empty name changes nothing."""
    called = one_line(name)
    return tuple(replace(e, name=called) if called and e.id == entry_id else e for e in entries)


def without(entries: Entries, entry_id: str) -> Entries:
    """The list without one entry."""
    return tuple(entry for entry in entries if entry.id != entry_id)


class SavedFile:
    """The file that holds the list.

    Args:
        folder: Where it lies; made when something is first saved.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def read(self) -> Reading:
        """The list as it stands; empty where there is no file yet.

        Raises:
            SavedError: `newer` or `not_writable`.
        """
        try:
            entries, broken = self._parsed()
            if not broken:
                return Reading(entries=entries)
            with self._locked():
                return self._read()
        except OSError as problem:
            raise SavedError("not_writable", str(self.path.parent)) from problem

    def update(self, change: Change) -> Reading:
        """Make a change to the list as it stands now, whoever wrote it last.

        Raises:
            SavedError: The change does not fit, or the file cannot be written; then it is as it was.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                before = self._read()
                entries = change(before.entries)
                if entries != before.entries:
                    self._write(entries)
                return replace(before, entries=entries)
        except OSError as problem:
            raise SavedError("not_writable", str(self.path.parent)) from problem

    def _read(self) -> Reading:
        """The list; what cannot be read is set aside first. The lock is held."""
        entries, broken = self._parsed()
        if not broken:
            return Reading(entries=entries)
        aside = self.path.with_name(
            f"saved-unreadable-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:6]}.json"
        )
        self.path.replace(aside)
        if entries:
            self._write(entries)
        return Reading(entries=entries, set_aside=aside.name)

    def _parsed(self) -> tuple[Entries, bool]:
        """Entries that can be read, and whether anything else was in the file."""
        try:
            with self.path.open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return (), False
        if len(raw) > MOST_BYTES:
            return (), True
        try:
            values = json.loads(raw)
        except (ValueError, RecursionError):
            return (), True
        if not isinstance(values, dict) or not isinstance(values.get("entries"), list):
            return (), True
        version = values.get("version")
        if isinstance(version, int) and version > VERSION:
            raise SavedError("newer", str(version))
        found = [_entry(value) for value in values["entries"][:MOST_ENTRIES]]
        good = {entry.id: entry for entry in found if entry is not None}
        return tuple(good.values()), len(good) < len(values["entries"])

    def _write(self, entries: Entries) -> None:
        """Write beside the file and move over it, so that it is never half there."""
        kept = [{"id": e.id, "name": e.name, "saved_at": e.saved_at, "document": e.document} for e in entries]
        text = json.dumps({"version": VERSION, "entries": kept}, ensure_ascii=False, indent=1) + "\n"
        raw = text.encode("utf-8", errors="surrogatepass")
        if len(raw) > MOST_BYTES:
            raise SavedError("too_large", str(MOST_BYTES))
        handle, temporary = tempfile.mkstemp(prefix=".saved-", suffix=".json", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(raw)
                file.flush()
                os.fsync(file.fileno())
            _move(Path(temporary), self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file: no other thread, no other process. The system lets go of it if we die."""
        until = time.monotonic() + LOCK_LIMIT_S
        with self.path.with_name(f"{FILE_NAME}.lock").open("a+b") as file:
            while not _try_lock(file.fileno()):
                if time.monotonic() > until:
                    raise SavedError("busy", str(self.path))
                time.sleep(LOCK_PAUSE_S)
            try:
                yield
            finally:
                _unlock(file.fileno())


def _entry(value: Any) -> Entry | None:
    """An entry of the file, None where it is none."""
    if not isinstance(value, dict) or not isinstance(value.get("document"), dict):
        return None
    texts = [value.get(name) for name in ("id", "name", "saved_at")]
    if not all(isinstance(text, str) for text in texts) or not texts[0]:
        return None
    try:
        canonical(value["document"])
    except (ValueError, RecursionError):
        return None
    entry_id, name, saved_at = map(str, texts)
    return Entry(id=entry_id, name=one_line(name), document=value["document"], saved_at=saved_at[:40])


def _move(source: Path, target: Path) -> None:
    """Move over a file; on Windows a reader can be in the way for a moment."""
    for _ in range(5):
        with suppress(PermissionError):
            source.replace(target)
            return
        time.sleep(LOCK_PAUSE_S)
    source.replace(target)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        """Whether the lock was to be had."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        """Whether the lock was to be had."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
