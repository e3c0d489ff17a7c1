"""YAML and JSON text as plain values, and back: the one place in the planner that uses a YAML library.

PyYAML reads with its safe loader, and only after the text was seen to be small, shallow and free of aliases, so
that no text can make it build more than it says. Nothing but maps, lists, text, numbers and booleans comes out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

LONGEST_YAML: Final = 200_000
LONGEST_JSON: Final = 2_000_000
MOST_NODES: Final = 20_000
DEEPEST: Final = 40
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class TextError(ValueError):
    """Text that is not read.

    Attributes:
        code: `text_too_long`, `too_deep`, `too_large`, `yaml_alias`, `twice`, `not_yaml` or `not_json`.
        params: Values for the sentence: `given` and `allowed`, or `line` and `column`.
    """

    def __init__(self, code: str, **params: str | int | None) -> None:
        super().__init__(f"{code}: {params}")
        self.code = code
        self.params = params


def read_yaml(text: str) -> Any:
    """The values of one YAML document; keys are text.

    Raises:
        TextError: It is too long, too deep, has too many values, aliases or a key twice, or is no YAML.
    """
    if len(text) > LONGEST_YAML:
        raise TextError("text_too_long", given=len(text), allowed=LONGEST_YAML)
    try:
        _refuse_hostile(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if node is None else _value(node)
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        place = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        raise TextError("not_yaml", line=place[0], column=place[1]) from problem
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        if isinstance(problem, TextError):
            raise
        raise TextError("not_yaml", line=None, column=None) from problem


def read_json(text: str) -> Any:
    """The values of a JSON text.

    Raises:
        TextError: It is too long, too deep, has a key twice, or is no JSON.
    """
    if len(text) > LONGEST_JSON:
        raise TextError("text_too_long", given=len(text), allowed=LONGEST_JSON)
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as problem:
        raise TextError("not_json", line=problem.lineno, column=problem.colno) from problem
    except RecursionError as problem:
        raise TextError("too_deep", given=f"> {DEEPEST}", allowed=DEEPEST) from problem
    except ValueError as problem:
        if isinstance(problem, TextError):
            raise
        raise TextError("not_json", line=None, column=None) from problem


def write_yaml(values: Mapping[str, Any]) -> str:
    """Values as block-style YAML, keys in their order."""
    text: str = yaml.safe_dump(
        dict(values), sort_keys=False, allow_unicode=True, default_flow_style=False, width=100
    )
    return text


def write_yaml_documents(documents: Sequence[Mapping[str, Any]]) -> str:
    """Several YAML documents in one text."""
    return "---\n".join(write_yaml(document) for document in documents)


def _refuse_hostile(text: str) -> None:
    """Walk the events, which builds nothing, and refuse what a loader would have to pay for."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            mark = event.start_mark
            raise TextError("yaml_alias", line=mark.line + 1, column=mark.column + 1)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST:
            raise TextError("too_deep", given=depth, allowed=DEEPEST)
        if nodes > MOST_NODES:
            raise TextError("too_large", given=nodes, allowed=MOST_NODES)


def _value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _once([(str(key.value), _value(value)) for key, value in node.value])
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    """Text, a number, a boolean or None. YAML 1.1 reads `1e-4` as text; libraries that check types make it a number."""
    kind, text = node.tag.rpartition(":")[2], str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return text.casefold() in {"yes", "true", "on"}
    if kind in {"int", "float"} or (kind == "str" and node.style is None and _NUMBER.fullmatch(text)):
        return number(text)
    return text


def number(text: str) -> Any:
    """Text as an integer or a float where it is one, else the text itself."""
    plain = text.replace("_", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        return float(plain)
    except ValueError:
        return text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Pairs as a dict; a key that stands twice is refused, since libraries differ on which one counts."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise TextError("twice", given=json.dumps(key[:60], ensure_ascii=False), allowed=1)
        found[key] = value
    return found
