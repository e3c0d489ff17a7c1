"""Powers of 1024 and 1e9 stand in planner/units.py alone, so that GiB and GB cannot be mixed up elsewhere."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PRODUCT, ROOT, Module, modules, named_nodes, write_tree

if TYPE_CHECKING:
    from pathlib import Path

HOME = "planner/units.py"
SHIFTS = (10, 20, 30, 40)
UNITS = frozenset({1024, 1024**2, 1024**3, 1024**4, 10**9})
# Numbers that equal a unit and are none: (file, qualified name of what they stand in) -> what they are.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("planner/advise/serving.py", "LEAST_STEP_TOKENS"): "tokens of a step",
    ("planner/cli/report.py", "_title"): "billions of parameters",
    ("planner/claims/bytes_per_parameter.py", "BILLION"): "billions of parameters",
    (
        "planner/memory/communication.py",
        "ZERO3_LIVE",
    ): "parameters that stay gathered, a default of the framework",
    ("planner/memory/serving_vllm.py", "LATENT_WORKSPACE"): "tokens gathered at once, a limit of the engine",
    ("planner/memory/serving_vllm.py", "EXPERT_CHUNK"): "tokens worked on at once, a limit of the engine",
    ("planner/model/linear_attention.py", "KERNEL"): "the widest kernel taken for one, in tokens",
    ("planner/model/row_towers.py", "_QWEN3_SMALL"): "the width of a vision tower",
    ("planner/runtimes/sglang.py", "PLAIN_TOWER"): "the width of a vision tower",
    ("planner/search/tree.py", "SMALL_PARAMS"): "parameters",
    ("planner/search/types.py", "TOKENS"): "tokens of a run",
    ("planner/training/zero.py", "SUB_GROUP"): "parameters stepped together, a default",
    ("ui/answers.py", "REMEMBERED"): "how many answers are kept",
    ("ui/inputs/runtime.py", "draw"): "the step of a field, in tokens",
    ("ui/inputs/workload.py", "_serving"): "the step of a field, in tokens",
    ("ui/inputs/workload.py", "_training"): "the step of a field, in tokens",
    ("ui/limits.py", "LONGEST_SEQUENCE"): "tokens",
    ("ui/limits.py", "token_steps"): "tokens",
    ("ui/numbers.py", "short_tokens"): "tokens, which come in powers of two",
    (
        "planner/training/zero.py",
        "PARAMETERS_IN_CPU",
    ): "parameters that stay on the host, a default of the framework",
}


def _constant(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) and type(node.value) in {int, float} else None


def is_unit(node: ast.AST) -> bool:
    """Whether an expression is a unit: 1024, 1e9, 2**30, 1 << 30, 10**9 and their like."""
    if _constant(node) in UNITS:
        return True
    if not isinstance(node, ast.BinOp):
        return False
    left, right = _constant(node.left), _constant(node.right)
    if isinstance(node.op, ast.Pow):
        return (left == 2 and right in SHIFTS) or (left == 10 and right == 9)
    return isinstance(node.op, ast.LShift) and left == 1 and right in SHIFTS


def stray_units(root: Path) -> dict[tuple[str, str], list[int]]:
    """Units outside their home: (file, qualified name) -> lines."""
    found: dict[tuple[str, str], list[int]] = {}
    for module in modules(root, *PRODUCT, "app"):
        if module.path == HOME:
            continue
        for name, line in _units_in(module):
            found.setdefault((module.path, name), []).append(line)
    return found


def _units_in(module: Module) -> list[tuple[str, int]]:
    return [
        (name, node.lineno)
        for name, node in named_nodes(module)
        if isinstance(node, ast.expr) and is_unit(node)
    ]


def test_units_stand_in_one_file() -> None:
    strays = {where: lines for where, lines in stray_units(ROOT).items() if where not in EXCEPTIONS}
    listed = "\n".join(f"{path}: {name}, lines {lines}" for (path, name), lines in strays.items())
    assert not strays, f"use planner.units, or say in EXCEPTIONS what the number is:\n{listed}"


def test_every_exception_is_still_needed() -> None:
    assert EXCEPTIONS.keys() - stray_units(ROOT).keys() == set()


def test_the_home_of_units_has_them() -> None:
    home = next(module for module in modules(ROOT, "planner") if module.path == HOME)
    assert len(_units_in(home)) >= 2


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x = 1024", "x"),
        ("x = size / 1024**3", "x"),
        ("x = 1_073_741_824", "x"),
        ("def f(size_bytes):\n    return size_bytes / 2**30", "f"),
        ("class A:\n    rank: int = 1024", "A.rank"),
        ("class A:\n    def f(self):\n        return 1 << 30", "A.f"),
        ("x = 1e9", "x"),
        ("x = 10**9", "x"),
        ("x = 1_000_000_000", "x"),
        ("f(1024.0)", ""),
    ],
)
def test_a_stray_unit_is_found(tmp_path: Path, text: str, name: str) -> None:
    assert list(stray_units(write_tree(tmp_path, {"ui/format.py": text}))) == [("ui/format.py", name)]


@pytest.mark.parametrize(
    "text", ["x = 2048", "x = 2**16", "x = '1024'", "x = 1e6", "x = True << 1", "x = 10"]
)
def test_other_numbers_pass(tmp_path: Path, text: str) -> None:
    assert stray_units(write_tree(tmp_path, {"ui/format.py": text})) == {}


def test_the_home_is_left_alone(tmp_path: Path) -> None:
    assert stray_units(write_tree(tmp_path, {HOME: "GIB = 1024**3"})) == {}
