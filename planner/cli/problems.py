"""Input that a command can't use, and a question read from text or refused in the words of the command line."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.issues import Issue
    from planner.scenario import Scenario


class InputError(Exception):
    """Input that can't be used.

    Attributes:
        lines: Why, one line for each problem.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def bad_scenario(issues: "Iterable[Issue]") -> InputError:
    """Issues as the lines of an input error."""
    from planner.cli.words import line  # noqa: PLC0415

    return InputError(*(line(issue) for issue in issues))


@contextmanager
def scenario_errors() -> Iterator[None]:
    """Turns a question that is refused within it into an input error."""
    from planner.issues import ScenarioError  # noqa: PLC0415

    try:
        yield
    except ScenarioError as refusal:
        raise bad_scenario(refusal.issues) from refusal


def scenario_of(text: str) -> "Scenario":
    """The question in a JSON text.

    Raises:
        InputError: It is not JSON or no question; one line for each problem.
    """
    from planner.validation import document_from_text, parse_scenario  # noqa: PLC0415

    document, issues = document_from_text(text)
    if issues:
        raise bad_scenario(issues)
    scenario, issues = parse_scenario(document)
    if scenario is None:
        raise bad_scenario(issues)
    return scenario
