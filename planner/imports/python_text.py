"""`TrainingArguments(...)`, `dict(...)` or `{...}` as Python text: literals are read, nothing is run."""

import ast
from typing import Any, Final

from planner.imports.types import ImportRefusedError

LONGEST: Final = 60_000


def read_python(text: str) -> dict[str, Any] | None:
    """The keywords of all calls in a text, or a literal dict; None where it is no Python or has neither.

    A value that is no literal (`args.lr`, `torch.bfloat16`) is kept as its source text.

    Raises:
        ImportRefusedError: The text is too long.
    """
    if len(text) > LONGEST:
        raise ImportRefusedError("text_too_long", given=len(text), allowed=LONGEST)
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: dict[str, Any] = {}
    for statement in tree.body:
        node = statement.value if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign) else None
        if isinstance(node, ast.Call):
            found |= {word.arg: _value(word.value) for word in node.keywords if word.arg}
        elif isinstance(node, ast.Dict):
            found |= {
                str(key.value): _value(value)
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant)
            }
    return found or None


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        pass
    if isinstance(node, ast.Call) and any(word.arg for word in node.keywords):
        return {word.arg: _value(word.value) for word in node.keywords if word.arg}
    return ast.unparse(node)[:200]
