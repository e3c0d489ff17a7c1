"""What an export is, and when there is none."""

from dataclasses import dataclass
from typing import Final

Remark = tuple[str, str]
"""A code and the value it is about."""

MIMES: Final = {
    ".json": "application/json",
    ".yaml": "application/yaml",
    ".py": "text/x-python",
    ".sh": "text/x-shellscript",
    ".md": "text/markdown",
    ".pbtxt": "text/plain",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """One file made of a plan.

    Attributes:
        target: Id of the program it is for.
        file_name: What to call it.
        text: What goes into it.
        carries: Fields of a scenario that it says; whatever else a question holds, the file leaves open.
        remarks: What the user must see to, by code.
    """

    target: str
    file_name: str
    text: str
    carries: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()

    @property
    def mime(self) -> str:
        """Media type by the end of the name."""
        return MIMES.get(self.file_name[self.file_name.rfind(".") :], "text/plain")


class ExportRefusedError(ValueError):
    """A plan that a program cannot carry out as planned.

    Attributes:
        code: `target_unknown`, `for_training`, `for_serving`, `runtime`, `adapter`, `model`,
            `field`, `kinds` (several kinds of card), or `offer`.
        field: The scenario's field at fault, "" where it is none.
        given: Its value.
        allowed: What the program can do.
    """

    def __init__(self, code: str, field: str = "", given: object = "", allowed: str = "") -> None:
        super().__init__(f"{code}: {field} {given} ({allowed})")
        self.code = code
        self.field = field
        self.given = str(given)
        self.allowed = allowed
