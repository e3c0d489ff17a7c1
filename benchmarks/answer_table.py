"""Answers to mapped questions as a table: what was wanted, what was answered, and what was left out with its reason."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Answered(Protocol):
    """One answer to one question."""

    @property
    def row(self) -> str:
        """Id of the published row."""

    @property
    def field(self) -> str:
        """What was asked for."""

    @property
    def wanted(self) -> Any:
        """The published value."""

    @property
    def found(self) -> Any:
        """Ours, None where there is none."""

    @property
    def right(self) -> bool:
        """Whether ours is within what the row allows."""


def answer_table(
    found: Sequence[Answered], left_out: Sequence[dict[str, Any]], shown: Callable[[Any], str], width: int
) -> str:
    """The table as lines.

    Args:
        found: The answers.
        left_out: Rows without a question, each with its `id` and why it is `left_out`.
        shown: Writes a value.
        width: Characters of the columns of values.
    """
    lines = [f"{'row':<6}{'asked':<26}{'wanted':>{width}}{'answered':>{width}}  "]
    lines += [
        f"{each.row:<6}{each.field:<26}{shown(each.wanted):>{width}}{shown(each.found):>{width}}  "
        f"{'right' if each.right else 'WRONG'}"
        for each in found
    ]
    right = sum(each.right for each in found)
    lines.append(f"{right} of {len(found)} right, in {len({each.row for each in found})} rows")
    lines += [f"left out: {row['id']}, {row['left_out']}" for row in left_out]
    return "\n".join(lines)
