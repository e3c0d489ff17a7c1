"""The planner computes and does nothing else: no files, no network, no clock, no chance, no printing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import ROOT, called, imports, modules, write_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.architecture.source import Module

COMMAND_LINE = "planner.__main__"
IMPURE_MODULES = frozenset(
    {
        *("os", "io", "pathlib", "shutil", "tempfile", "glob", "fileinput", "mmap", "sqlite3"),
        *("importlib.resources", "importlib.metadata", "pkgutil", "pickle", "shelve"),
        *("socket", "ssl", "urllib.request", "http", "ftplib", "smtplib", "asyncio"),
        *("subprocess", "multiprocessing", "threading", "concurrent", "signal", "sys", "logging", "warnings"),
        *("time", "random", "secrets", "uuid"),
    }
)  # fmt: skip
IMPURE_CALLS = frozenset(
    {
        *("open", "print", "input", "eval", "exec", "breakpoint", "__import__"),
        *("read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir"),
        *("now", "today", "utcnow"),
        *("savez", "save", "loadtxt", "savetxt", "fromfile", "tofile", "memmap"),
    }
)


def _is_impure(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:length]) in IMPURE_MODULES for length in range(1, len(parts) + 1))


def _impurities(module: Module) -> Iterator[str]:
    for line, name in imports(module):
        if _is_impure(name):
            yield f"{module.path}:{line}: imports {name}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and called(node) in IMPURE_CALLS:
            yield f"{module.path}:{node.lineno}: calls {called(node)}()"
        elif isinstance(node, ast.Global):
            yield f"{module.path}:{node.lineno}: changes the global {', '.join(node.names)}"


def impurities(root: Path) -> list[str]:
    """Everything in the planner, its command line aside, that reaches outside or remembers."""
    return [
        finding
        for module in modules(root, "planner")
        if module.name != COMMAND_LINE
        for finding in _impurities(module)
    ]


def test_the_planner_is_pure() -> None:
    found = impurities(ROOT)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "def f(path):\n    return open(path)",
        "def f(path):\n    return path.read_text(encoding='utf-8')",
        "from pathlib import Path",
        "import urllib.request",
        "from urllib import request",
        "from importlib.resources import files",
        "import os.path",
        "import numpy as np\nx = np.random.default_rng()\nnp.save('x', x)",
        "from datetime import date\ndef f():\n    return date.today()",
        "print('x')",
        "seen = 0\ndef f():\n    global seen\n    seen += 1",
    ],
)
def test_an_impurity_is_found(tmp_path: Path, text: str) -> None:
    found = impurities(write_tree(tmp_path, {"planner/memory/weights.py": text}))
    assert len(found) == 1
    assert found[0].startswith("planner/memory/weights.py:")


@pytest.mark.parametrize(
    "text",
    [
        "import json\nimport math\nfrom urllib.parse import quote\nfrom datetime import date",
        "import importlib\nimportlib.import_module('planner.model.gpt')",
        "from functools import cache\nfrom enum import StrEnum",
    ],
)
def test_pure_code_passes(tmp_path: Path, text: str) -> None:
    assert impurities(write_tree(tmp_path, {"planner/memory/weights.py": text})) == []


def test_the_command_line_may_read_and_print(tmp_path: Path) -> None:
    assert impurities(write_tree(tmp_path, {"planner/__main__.py": "import sys\nprint(open('x'))"})) == []
