"""Reads a pipe to its end on a thread of its own and hands over lines, bounded however the writer behaves."""

import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Final

CHUNK_BYTES: Final = 65_536
MAX_LOG_LINES: Final = 200
MAX_LOG_CHARACTERS: Final = 500


class BoundedLog:
    """The newest lines as text. Safe to read and write from several threads."""

    def __init__(self, max_lines: int = MAX_LOG_LINES) -> None:
        self._lines: deque[str] = deque(maxlen=max_lines)
        self._lock = threading.Lock()

    def add(self, line: bytes) -> None:
        """Keep a line, cut to a readable length."""
        text = line[: 4 * MAX_LOG_CHARACTERS].decode("utf-8", errors="replace").rstrip()
        if text:
            with self._lock:
                self._lines.append(text[:MAX_LOG_CHARACTERS])

    def lines(self) -> tuple[str, ...]:
        """What is kept, oldest first."""
        with self._lock:
            return tuple(self._lines)


class LineSplitter:
    """Puts lines together from chunks. A line over the limit is cut."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._hold(part)
            lines.append(bytes(self._held))
            self._held.clear()
        self._hold(rest)
        return lines

    def finish(self) -> list[bytes]:
        """What is left at the end."""
        left = [bytes(self._held)] if self._held else []
        self._held.clear()
        return left

    def _hold(self, part: bytes) -> None:
        self._held += part[: self._max_line_bytes - len(self._held)]


def start_pump(
    name: str,
    pipe: IO[bytes],
    on_line: Callable[[bytes], None],
    on_end: Callable[[], None],
    max_line_bytes: int,
) -> threading.Thread:
    """Start the thread that reads `pipe`, closes it at its end and then calls `on_end`.

    Args:
        name: Name of the thread.
        pipe: An unbuffered pipe.
        on_line: Called with every line, without its end.
        on_end: Called once, after the last line.
        max_line_bytes: Longest line that is held in memory.
    """

    def pump() -> None:
        splitter = LineSplitter(max_line_bytes)
        try:
            while chunk := pipe.read(CHUNK_BYTES):
                for line in splitter.feed(chunk):
                    on_line(line)
            for line in splitter.finish():
                on_line(line)
        except (OSError, ValueError):
            pass  # the pipe broke or was closed: its end either way
        finally:
            pipe.close()
            on_end()

    thread = threading.Thread(target=pump, name=name, daemon=True)
    thread.start()
    return thread
