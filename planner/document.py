"""A scenario document as plain JSON values, read and changed by dotted path.

Functions return new documents; what they do not name is carried along untouched.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

Document = dict[str, Any]


def get(document: Document, path: str, default: Any = None) -> Any:
    """The value at a path; the default where the path is absent or null."""
    node: Any = document
    for part in path.split("."):
        node = _child(node, part)
        if node is None:
            return default
    return node


def put(document: Document, path: str, value: Any) -> Document:
    """A copy with a value at a path; None takes the field out, and blocks left empty with it."""
    return put_all(document, {path: value})


def put_all(document: Document, changes: Mapping[str, Any]) -> Document:
    """A copy with every path set to its value; None takes a field out."""
    changed = deepcopy(document)
    for path, value in changes.items():
        _put(changed, path, value)
    return changed


def canonical(document: Document) -> str:
    """The document as text that is equal for equal documents: the key of every cache."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, allow_nan=True)


def _put(changed: Document, path: str, value: Any) -> None:
    *parents, leaf = path.split(".")
    node: Any = changed
    for part in parents:
        if isinstance(node, list):
            node = node[int(part)]
            continue
        if not isinstance(node.get(part), dict | list):
            node[part] = {}
        node = node[part]
    if value is None:
        node.pop(leaf, None)
        _drop_empty_blocks(changed, parents)
    else:
        node[leaf] = value


def _child(node: Any, part: str) -> Any:
    if isinstance(node, dict):
        return node.get(part)
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    return None


def _drop_empty_blocks(document: Document, parents: list[str]) -> None:
    for depth in range(len(parents), 0, -1):
        *above, name = parents[:depth]
        holder = get(document, ".".join(above)) if above else document
        if isinstance(holder, dict) and holder.get(name) == {}:
            del holder[name]
