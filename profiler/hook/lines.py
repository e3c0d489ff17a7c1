"""The file that the hook writes: one JSON object a line. Writing never raises into the program that is watched."""

import contextlib
import json
import os
from collections import deque
from typing import Any, Final

VARIABLE: Final = "HEADROOM_HOOK"
"""Settings of the hook, a JSON object, in the environment of the watched program."""

MOST_HELD: Final = 4_000


class Lines:
    """Appends to a file. What cannot be written (a full disk) is held, bounded, and tried again with the next line.

    Args:
        path: The file, made if it is not there.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._pid = os.getpid()
        self._held: deque[bytes] = deque(maxlen=MOST_HELD)
        self.problem = ""

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line; in a process forked from the watched one, nothing."""
        if os.getpid() != self._pid:
            return
        self._held.append(json.dumps({"e": kind, **fields}).encode("utf-8") + b"\n")
        self._flush()

    def _flush(self) -> None:
        """One open and close a line: the file may lie on a disk that fills up and empties again."""
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            handle = os.open(self._path, flags, 0o600)
        except OSError as error:
            self.problem = str(error)
            return
        try:
            while self._held:
                left = self._held[0]
                written = os.write(handle, left)
                if written == len(left):
                    self._held.popleft()
                else:
                    self._held[0] = left[written:]
        except OSError as error:
            self.problem = str(error)
        finally:
            with contextlib.suppress(OSError):
                os.close(handle)
