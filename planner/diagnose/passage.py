"""A stretch of text made ready to be read: colours and prefixes gone, lines joined where a terminal broke them."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Final

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-9;?]{0,40}[ -/]?[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]"
    r"|(?:\^\[|\bESC|\\x1b|\\033|\\e|\\u001b)\[[0-9;]{0,20}m"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\ufeff]")
_BREAK: Final = re.compile(r"\r\n?|\n")
_LEVEL: Final = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_PREFIX: Final = re.compile(
    r"\s*(?:"
    r"\[(?:rank|default)(?P<rank>\d{1,6})\]:"
    r"|\[\d{1,6},(?P<mpi>\d{1,6})\]<std(?:err|out)>:"
    r"|\((?P<who>\w{1,40}(?: \w{1,20}=\w{1,20}){0,2}) pid=\d{1,10}(?:, ip=[\w.:]{1,45})?\)"
    r"|[A-Za-z][\w.-]{0,60}\s{1,40}\|(?=\s)"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?: std(?:err|out) [FP])?(?=\s)"
    rf"|{_LEVEL} \d\d-\d\d \d\d:\d\d:\d\d(?: \[[\w./]{{1,80}}:\d{{1,6}}\])?"
    rf"|{_LEVEL}(?: |:root:|:[\w.]{{1,60}}:)(?=\S)"
    r")[ \t]?"
)
_RANK: Final = re.compile(
    r"\[Rank (\d{1,6})\]|\bTP(\d{1,4})\]|(?:Worker_)?(?:TP|DP|PP)(\d{1,4})\b|\brank[ =:](\d{1,6})\b"
)
MOST_PREFIXES: Final = 5


@dataclass(frozen=True, slots=True)
class Line:
    """A line without colours and prefixes.

    Attributes:
        number: Where it stands in the text, from 1.
        text: What is left of it.
        rank: The rank its prefix names.
    """

    number: int
    text: str
    rank: int | None


class Passage:
    """A stretch of a text.

    Attributes:
        lines: Its lines.
    """

    def __init__(self, text: str, first_line: int = 1) -> None:
        plain = _CONTROL.sub("", _ESCAPES.sub("", text)) if _CONTROL.search(text) or "[" in text else text
        if "\\n" in plain and "\n" not in plain.strip():
            plain = plain.replace("\\n", "\n")
        self.lines = tuple(
            _line(number, line) for number, line in enumerate(_BREAK.split(plain), start=first_line)
        )

    @cached_property
    def dense(self) -> str:
        """The text without any white space: a message reads the same wherever it was wrapped."""
        return "".join(self._pieces)

    def line_of(self, position: int) -> Line:
        """The line that a position of `dense` stands in."""
        return self.lines[max(0, bisect_right(self._starts, position) - 1)]

    @cached_property
    def text(self) -> str:
        """The cleaned lines."""
        return "\n".join(line.text for line in self.lines)

    def before(self, number: int, most: int = 80) -> list[str]:
        """The lines above a line, nearest last."""
        first = self.lines[0].number
        end = max(0, number - first)
        return [line.text for line in self.lines[max(0, end - most) : end]]

    @cached_property
    def _pieces(self) -> list[str]:
        return ["".join(line.text.split()) for line in self.lines]

    @cached_property
    def _starts(self) -> list[int]:
        starts, position = [], 0
        for piece in self._pieces:
            starts.append(position)
            position += len(piece)
        return starts


def _line(number: int, text: str) -> Line:
    rank = None
    head = text[:400]
    named = _RANK.search(head)
    if named:
        rank = int(next(group for group in named.groups() if group))
    start = 0
    for _ in range(MOST_PREFIXES):
        prefix = _PREFIX.match(text, start)
        if prefix is None:
            break
        given = prefix["rank"] or prefix["mpi"]
        rank = int(given) if given else rank
        start = prefix.end()
    return Line(number, text[start:], rank)
