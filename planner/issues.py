"""Problems as data: a code with parameters and the field it belongs to. The user interface words them."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a problem matters: an error stops the plan, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


Param = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Issue:
    """One problem with the question, tied to the field that has to change.

    Attributes:
        code: Stable lowercase id; the locale files hold one sentence per code.
        field: Dotted path in the scenario, such as ``training.micro_batch`` or ``hardware.devices.0.gpu``.
        severity: Error, warning or note.
        params: Named values for the sentence (what was given, what is allowed, ...), as sorted pairs.
    """

    code: str
    field: str
    severity: Severity
    params: tuple[tuple[str, Param], ...] = ()


def error(code: str, field: str, **params: Param) -> Issue:
    """An issue that stops the plan."""
    return Issue(code, field, Severity.ERROR, tuple(sorted(params.items())))


def warning(code: str, field: str, **params: Param) -> Issue:
    """An issue that the reader should know about; the plan goes on."""
    return Issue(code, field, Severity.WARNING, tuple(sorted(params.items())))


def note(code: str, field: str, **params: Param) -> Issue:
    """A remark, for example a default that was filled in."""
    return Issue(code, field, Severity.NOTE, tuple(sorted(params.items())))


class ScenarioError(ValueError):
    """Raised where a caller asked for a plan of a question that has errors.

    Attributes:
        issues: Every issue found, errors first.
    """

    def __init__(self, issues: tuple[Issue, ...]) -> None:
        super().__init__("; ".join(f"{i.field}: {i.code} {dict(i.params)}" for i in issues))
        self.issues = issues
