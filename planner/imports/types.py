"""What an importer hands back: a question, and what of the file did not get into it."""

from dataclasses import dataclass
from typing import Any, Final

Param = str | int | float | bool | None

REASONS: Final = {
    "unknown": ("closest",),
    "no_memory": (),
    "inert": ("real",),
    "stage": ("needs", "given"),
    "auto": ("kept",),
    "bad_value": ("allowed",),
    "not_modelled": (),
    "elsewhere": (),
    "differs": ("found",),
    "default": (),
    "mixed_cards": ("cards",),
    "model_unclear": (),
    "unlike_cards": ("cards",),
    "missing": (),
}

"""Why a key is remarked on, and the parameters of the sentence.

`unknown`: the importer has never heard of it. `no_memory`: it changes results or logs, not memory. `inert`: the
program itself ignores it; `real` is the key that does what it seems to. `stage`: it acts in another ZeRO stage only.
`auto`: the launcher fills it in; the question's own value stays. `bad_value`: it is not of the allowed kind.
`not_modelled`: no field of a scenario says it. `elsewhere`: it names a file that has to be read by itself. `differs`:
it contradicts the rest, which makes `found`. `default`: left out, so the program's own value was taken.
`mixed_cards`: the question's cards are of several kinds, so their number stays. `model_unclear`: it names a file that
is clearly none of the catalog's models, so the question's own stays. `unlike_cards`: it is counted for cards of one
kind or a given split, and the question has several kinds. `missing`: the program needs it, or has it from a file that
is not here.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One key of the file that was not simply taken over.

    Attributes:
        key: Dotted, as the file spells it.
        value: As the file has it, shortened.
        reason: One of `REASONS`.
        params: Values for its sentence, sorted.
    """

    key: str
    value: str
    reason: str
    params: tuple[tuple[str, Param], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A file as a question.

    Attributes:
        document: A scenario document, not validated yet.
        source: Id of the format.
        taken: Fields that the file decided, as (path, value).
        remarks: What was not understood, does nothing, or was kept, in the order of the file.
        own: Fields that the file leaves out and that now have the program's own value, as (path, before, now); None
            is "not given".
    """

    document: dict[str, Any]
    source: str
    taken: tuple[tuple[str, Any], ...]
    remarks: tuple[Remark, ...]
    own: tuple[tuple[str, Any, Any], ...] = ()

    @property
    def trouble(self) -> tuple[Remark, ...]:
        """Remarks that somebody should read: all but those on keys that have nothing to do with memory."""
        return tuple(remark for remark in self.remarks if remark.reason not in {"no_memory", "default"})


class ImportRefusedError(ValueError):
    """Text that no importer can read.

    Attributes:
        code: `format_unknown`, `format_unsure`, `not_a_mapping`, or a code of `planner.yaml_text.TextError`.
        params: Values for the sentence.
    """

    def __init__(self, code: str, **params: Param) -> None:
        super().__init__(f"{code}: {params}")
        self.code = code
        self.params = params
