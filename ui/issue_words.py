"""Issues in words: one sentence a code, with the field named and every parameter escaped."""

import re
from typing import Final

from planner.issues import Issue, Param
from ui.catalog import gpu
from ui.names import card_name
from ui.numbers import DASH, whole
from ui.words import Safe, Words

KINDS: Final = re.compile(r"(?<![^ ,])(?:integer|number|string|array|object)(?=$|[ ,])")
"""Kinds of values, as the schema calls them in what it allows."""

RANGES: Final = re.compile(r"(?<![\w.])(\d+)\.\.(\d+)(?![\w.])")
"""Ranges of whole numbers, as the schema writes them."""

OF_CARDS: Final = frozenset({"stage_tensor_mixes_cards"})
"""Issues whose `given` is a list of cards."""


def issue_text(issue: Issue, words: Words) -> str:
    """The sentence of an issue as plain text."""
    return words(f"issue.{issue.code}", field=field_name(issue.field, words), **_params(issue, words))


def issue_html(issue: Issue, words: Words) -> Safe:
    """The sentence of an issue as HTML."""
    return words.html(f"issue.{issue.code}", field=field_name(issue.field, words), **_params(issue, words))


def field_name(field: str, words: Words) -> str:
    """A field by the label it has in the form; by its path where no form shows it."""
    key = f"field.{field}.label"
    if words.has(key):
        return words(key)
    parts = field.split(".")
    if parts[:2] == ["hardware", "devices"] and len(parts) >= 3:
        leaf = ".".join(parts[3:]) or "gpu"
        if words.has(f"field.device.{leaf}"):
            return words("field.device.row", row=int(parts[2]) + 1, name=words(f"field.device.{leaf}"))
    if parts[:2] == ["parallel", "stages"] and words.has(f"field.stage.{parts[-1]}"):
        name = words(f"field.stage.{parts[-1]}")
        return words("field.stage.row", row=int(parts[2]) + 1, name=name, path=field)
    return field or words("field.document")


def _params(issue: Issue, words: Words) -> dict[str, str]:
    params = {name: _value(value) for name, value in issue.params}
    if issue.code in OF_CARDS:
        params["given"] = words.both([_card(each) for each in params["given"].split(", ")])
    params["suggestion"] = ""
    closest = dict(issue.params).get("closest")
    if isinstance(closest, str) and closest:
        params["suggestion"] = words("issue.suggestion", closest=closest)
    bound = dict(issue.params).get("lower_bound_params")
    key = f"issue.{issue.code}_bound"
    params["bound"] = words(key, params=whole(bound)) if isinstance(bound, int) and words.has(key) else ""
    if isinstance(params.get("allowed"), str):
        named = KINDS.sub(lambda kind: words(f"issue.kind.{kind[0]}"), params["allowed"])
        params["allowed"] = RANGES.sub(lambda ends: f"{whole(int(ends[1]))}–{whole(int(ends[2]))}", named)
    for coded in ("reason", "because"):
        key = f"issue.{issue.code}_{coded}.{params.get(coded)}"
        if words.has(key):
            params[coded] = words(key)
    return params


def _card(gpu_id: str) -> str:
    """A card of the table by its name, another as it is called in the question."""
    found = gpu(gpu_id)
    return card_name(found.name) if found is not None else gpu_id


def _value(value: Param) -> str:
    if value is None:
        return DASH
    if isinstance(value, bool | float | str):
        return str(value)
    return whole(value)
