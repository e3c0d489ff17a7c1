"""Reads the project's Python files as syntax trees, for rules about what may stand where."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("planner", "hardware_db", "profiler", "ui")
COMPUTED = "a computed name"
TORCH_FAMILY = frozenset({"torch", "transformers", "peft", "accelerate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file: its dotted name, its path as messages show it, its tree."""

    name: str
    path: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top-level package or module the file belongs to."""
        return self.name.partition(".")[0]


def read(root: Path, path: Path) -> Module:
    """Parse one file under `root`."""
    relative = path.relative_to(root)
    parts = relative.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return Module(name=name, path=relative.as_posix(), tree=tree)


def modules(root: Path, *packages: str) -> list[Module]:
    """Parse every file of these packages; a name without a folder is a single module."""
    paths: list[Path] = []
    for package in packages:
        folder, single = root / package, root / f"{package}.py"
        paths += sorted(folder.rglob("*.py")) if folder.is_dir() else [single] if single.is_file() else []
    return [_read_once(root, path, path.stat().st_mtime_ns) for path in paths]


@functools.cache
def _read_once(root: Path, path: Path, _changed_ns: int) -> Module:
    """Parse a file, or look up what it was parsed to: the rules read the same files and change no tree."""
    return read(root, path)


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) for every import, wherever it stands, imports by name included.

    A name put together at run time counts by how it begins, and as `COMPUTED` when that is not known either.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            prefix = f"{module.package}.{base}" if node.level else base
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"}:
            yield from ((node.lineno, _text_start(argument)) for argument in node.args[:1])


def _text_start(node: ast.expr) -> str:
    """How a text expression begins, as far as it is literal."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _text_start(node.values[0])
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return COMPUTED


def called(node: ast.Call) -> str:
    """Last part of the name of what is called, empty for anything nameless."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def named_nodes(module: Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the qualified name of what it stands in: class, function or assigned name."""
    stack: list[tuple[ast.AST, tuple[str, ...], bool]] = [(module.tree, (), False)]
    while stack:
        node, scope, inside_function = stack.pop()
        if node is not module.tree:
            yield ".".join(scope), node
        for child in reversed(list(ast.iter_child_nodes(node))):
            inner, deeper = scope, inside_function
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = (*scope, child.name)
                deeper = inside_function or not isinstance(child, ast.ClassDef)
            elif isinstance(child, ast.Assign | ast.AnnAssign) and not inside_function:
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                inner = (*scope, *(target.id for target in targets if isinstance(target, ast.Name)))
            stack.append((child, inner, deeper))


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write a sample project: path to text; every folder on the way becomes a package."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for folder in path.relative_to(root).parents:
            if folder != Path():
                (root / folder / "__init__.py").touch()
    return root
