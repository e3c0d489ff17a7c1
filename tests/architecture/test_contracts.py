"""The import contracts of pyproject.toml hold, and each one fails on a project that breaks it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PRODUCT, ROOT, write_tree

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONTRACTS = [contract["id"] for contract in tomllib.loads(SETTINGS)["tool"]["importlinter"]["contracts"]]
CLEAN = {f"{package}/__init__.py": "" for package in (*PRODUCT, "benchmarks")}
BREACHES = {
    "layers": {"planner/estimate.py": "import hardware_db"},
    "no-torch-in-the-page": {
        "ui/measure.py": "from profiler import worker",
        "profiler/worker.py": "import torch",
    },
    "torch-in-the-worker": {"profiler/runner.py": "import transformers"},
    "streamlit-in-ui": {"hardware_db/gpus.py": "import pandas"},
}


def lint(root: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the project's own contracts over a sample project."""
    (root / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache", "--no-logo"]
    for contract in contracts:
        command += ["--contract", contract]
    variables = {**os.environ, "PYTHONUTF8": "1"}
    return subprocess.run(
        command, cwd=root, check=False, capture_output=True, encoding="utf-8", env=variables
    )


def test_every_contract_has_a_breach() -> None:
    assert sorted(BREACHES) == sorted(CONTRACTS)


def test_a_clean_project_passes(tmp_path: Path) -> None:
    allowed = {
        "planner/__main__.py": "import hardware_db.load",
        "profiler/__main__.py": "import hardware_db.load",
        "hardware_db/load.py": "import planner",
        "profiler/worker.py": "import torch",
        "profiler/trace/child/run.py": "import torch",
        "ui/pages.py": "import streamlit, planner, hardware_db, profiler",
    }
    result = lint(write_tree(tmp_path, CLEAN | allowed))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_breach_fails_its_contract(tmp_path: Path, contract: str) -> None:
    result = lint(write_tree(tmp_path, CLEAN | BREACHES[contract]), contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "0 kept, 1 broken" in result.stdout
