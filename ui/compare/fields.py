"""Which fields of two questions differ once every default is filled in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from planner.plan_types import Plan
from ui.document import Document, get

ATOMS: Final = frozenset({"model", "hardware.devices"})
"""Blocks that are compared, and named, as a whole."""
NO_PART: Final = frozenset({"version", "name", "economics"})
"""What has no part in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field that differs.

    Attributes:
        path: Dotted path of the schema.
        before: Value in force in the first question; None where it has none.
        after: Value in force in the second.
        asked: Whether the questions themselves differ in it, rather than what a runtime fills in.
    """

    path: str
    before: Any
    after: Any
    asked: bool


def field_changes(first: Plan, second: Plan) -> tuple[FieldChange, ...]:
    """Every field whose value in force differs: those that were asked first, each lot in order of the schema."""
    before, after = _in_force(first), _in_force(second)
    asked = [plan.scenario.model_dump(mode="json", exclude_unset=True) for plan in (first, second)]
    found = [
        FieldChange(
            path=path,
            before=before.get(path),
            after=after.get(path),
            asked=_given(asked[0], path) != _given(asked[1], path),
        )
        for path in dict.fromkeys([*before, *after])
        if before.get(path) != after.get(path)
    ]
    blocks = [plan.resolved.model_dump(mode="json") for plan in (first, second)]
    found = [c for c in found if c.asked or all(_has_block(block, c.path) for block in blocks)]
    return tuple(sorted(found, key=lambda change: not change.asked))


def _in_force(plan: Plan) -> dict[str, Any]:
    return dict(_leaves(plan.resolved.model_dump(mode="json"), ""))


def _leaves(node: Document, prefix: str) -> Iterator[tuple[str, Any]]:
    """Dotted paths with their values; lists are values."""
    for name, value in node.items():
        path = f"{prefix}{name}"
        if path in NO_PART:
            continue
        if isinstance(value, dict) and path not in ATOMS:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, None if value == [] else value


def _has_block(document: Document, path: str) -> bool:
    """Whether the block of a field is there at all: what fills a new block is told by the block itself."""
    block, dot, _ = path.rpartition(".")
    return not dot or get(document, block) is not None


def _given(document: Document, path: str) -> Any:
    return get(document, path)
