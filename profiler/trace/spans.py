"""Which phase of which step an event of a trace belongs to."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from profiler.trace.record import Mark


class Spans:
    """The marks of a trace by event.

    Args:
        marks: In the order of their events.
    """

    def __init__(self, marks: Sequence[Mark]) -> None:
        self._marks = marks
        self._starts = [mark.event for mark in marks]

    def at(self, event: int) -> Mark | None:
        """The mark in force at an event, None before the first."""
        index = bisect_right(self._starts, event) - 1
        return self._marks[index] if index >= 0 else None

    def spans(self, step: int, events: int) -> Iterator[tuple[str, range]]:
        """Phases of a step with the events in them, as far as the run came.

        A phase begins with what the event before it left.
        """
        for index, mark in enumerate(self._marks):
            end = self._marks[index + 1].event if index + 1 < len(self._marks) else events
            span = range(max(mark.event - 1, 0), min(end, events))
            if mark.step == step and span:
                yield mark.phase, span
