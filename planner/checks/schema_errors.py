"""Pydantic's complaints about a document as issues by field, with what was given and what is allowed."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from planner.checks.codes import make
from planner.checks.plain import LONGEST_KEY
from planner.checks.words import closest, listed, shown
from planner.issues import Issue
from planner.scenario import json_schema

Schema = Mapping[str, Any]

_RANGE: Final = frozenset(
    {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number"}
)
_LENGTH: Final = frozenset({"too_short", "too_long", "string_too_short", "string_too_long"})
_TYPES: Final = {"boolean": "true, false"}


def schema_issues(error: ValidationError, document: object) -> tuple[Issue, ...]:
    """One issue per field at fault, in document order of the schema.

    Args:
        error: What validation of `document` raised.
        document: Plain JSON values.
    """
    found: dict[str, Issue] = {}
    for problem in error.errors(include_url=False):
        path = _path(problem["loc"], document, problem["type"])
        issue = _issue(problem["type"], path, problem["input"])
        found.setdefault(issue.field, issue)
    return tuple(issue for field, issue in found.items() if not _has_inner(field, found))


def _has_inner(field: str, fields: Iterable[str]) -> bool:
    return any(other.startswith(f"{field}.") for other in fields)


def allowed_at(path: Sequence[str | int]) -> str:
    """What the schema allows at a path: a range, the words of a choice, a kind of value; empty if unknown."""
    node = _node(path)
    return "" if node is None else _describe(node)


def _path(loc: tuple[int | str, ...], document: object, kind: str) -> tuple[str | int, ...]:
    """The location without pydantic's union tags, which the document does not have."""
    path: list[str | int] = []
    node: object = document
    for i, part in enumerate(loc):
        inside, found = _inside(node, part)
        if found:
            node = inside
        elif not (kind == "missing" and i == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _inside(node: object, part: int | str) -> tuple[object, bool]:
    if isinstance(node, dict) and part in node:
        return node[part], True
    if isinstance(node, list) and isinstance(part, int) and part < len(node):
        return node[part], True
    return None, False


def _issue(kind: str, path: tuple[str | int, ...], given: object) -> Issue:
    field = ".".join(str(part)[:LONGEST_KEY] for part in path)
    if kind == "missing":
        return make("missing_field", field, allowed=allowed_at(path))
    if kind == "extra_forbidden":
        keys = _keys(path[:-1])
        return make(
            "unknown_field",
            field,
            given=shown(path[-1]),
            closest=closest(path[-1], keys),
            allowed=listed(keys),
        )
    allowed = allowed_at(path)
    if kind == "literal_error":
        choices = [word.strip() for word in allowed.split(",")]
        return make("not_one_of", field, given=shown(given), allowed=allowed, closest=closest(given, choices))
    if kind in _RANGE:
        return make("out_of_range", field, given=shown(given), allowed=allowed)
    if kind in _LENGTH:
        length = str(len(given)) if isinstance(given, str | list | tuple | dict) else shown(given)
        return make("bad_length", field, given=length, allowed=allowed)
    if kind == "string_pattern_mismatch":
        return make("bad_text", field, given=shown(given), allowed=allowed)
    return make("wrong_type", field, given=shown(given), allowed=allowed)


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    return json_schema()


def _resolved(node: Schema) -> Schema:
    while "$ref" in node:
        node = _schema()["$defs"][str(node["$ref"]).rpartition("/")[2]]
    return node


def _choices(node: Schema) -> list[Schema]:
    node = _resolved(node)
    if "anyOf" not in node:
        return [node]
    return [choice for part in node["anyOf"] for choice in _choices(part) if choice.get("type") != "null"]


def _node(path: Sequence[str | int]) -> Schema | None:
    nodes = [_resolved(_schema())]
    for part in path:
        inner: list[Schema] = []
        for node in nodes:
            inside = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
            if isinstance(inside, Mapping):
                inner.extend(_choices(inside))
        if not inner:
            return None
        nodes = inner
    return nodes[0] if len(nodes) == 1 else {"anyOf": nodes}


def _keys(path: Sequence[str | int]) -> list[str]:
    node = _node(path) if path else _resolved(_schema())
    if node is None:
        return []
    return [key for choice in _choices(node) for key in choice.get("properties", {})]


def _describe(node: Schema) -> str:
    choices = _choices(node)
    if len(choices) > 1:
        return ", ".join(_describe(choice) for choice in choices)
    only = choices[0]
    if "enum" in only:
        return listed(only["enum"])
    if "const" in only:
        return str(only["const"])
    kind = str(only.get("type", ""))
    if kind in ("integer", "number"):
        return _span(only)
    if "pattern" in only:
        return str(only["pattern"])
    if kind == "array" and ("minItems" in only or "maxItems" in only):
        return f"array {only.get('minItems', 0)}..{only.get('maxItems', '')}"
    if kind == "string" and ("minLength" in only or "maxLength" in only):
        return f"string {only.get('minLength', 0)}..{only.get('maxLength', '')}"
    return _TYPES.get(kind, kind)


def _span(node: Schema) -> str:
    low, high = node.get("minimum", node.get("exclusiveMinimum")), node.get("maximum")
    start = f">{low:g}" if "exclusiveMinimum" in node else _plain_number(low)
    return f"{node['type']} {start}..{_plain_number(high)}"


def _plain_number(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:g}"
