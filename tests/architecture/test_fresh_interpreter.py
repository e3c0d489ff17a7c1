"""A fresh interpreter that has loaded all of the page's code, or the command line's, has not loaded PyTorch.

PyTorch and its family are replaced by empty modules that record being loaded, so the tests fail the same way
whether or not they are installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import run
from tests.architecture.source import ROOT, TORCH_FAMILY, modules, write_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEAVY_FOR_A_COMMAND_LINE = ("streamlit", "pandas", "plotly", "pyarrow")
IN_THE_CHILD_PROCESS = (
    *("profiler.worker", "profiler.trace.child", "profiler.hook.site", "profiler.hook.attach"),
    *("profiler.hook.everywhere", "profiler.hook.follow", "profiler.hook.inside", "profiler.hook.memory"),
    *("profiler.hook.snapshots", "profiler.hook.watcher"),
)

PROGRAM = """
import importlib, importlib.abc, importlib.machinery, json, sys

watched, names = map(json.loads, sys.argv[1:3])
loaded = []

class Watch(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in watched:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module):
        loaded.append(module.__name__)
        module.__getattr__ = lambda name: None

sys.meta_path.insert(0, Watch())
sys.path.insert(0, ".")
for name in names:
    importlib.import_module(name)
if sys.argv[3:]:
    from streamlit.testing.v1 import AppTest
    page = AppTest.from_file("app.py", default_timeout=60).run()
    if page.exception:
        sys.exit(str(page.exception[0].value))
print(json.dumps(loaded))
"""


def loaded_by(root: Path, names: Sequence[str], watched: Sequence[str], *, page: bool = False) -> list[str]:
    """Import `names` in a fresh interpreter, open the page if told, and list what it loaded of `watched`."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(list(watched)), json.dumps(list(names))]
    if page:
        command.append("page")
    answer = subprocess.run(
        command, cwd=root, check=False, capture_output=True, encoding="utf-8", env=run.child_environment()
    )
    assert answer.returncode == 0, answer.stderr
    result: list[str] = json.loads(answer.stdout.splitlines()[-1])
    return result


def page_modules(root: Path) -> list[str]:
    """Every module of ours that the page's process may load."""
    return [
        module.name
        for module in modules(root, "planner", "hardware_db", "profiler", "ui")
        if not module.name.startswith(IN_THE_CHILD_PROCESS) and not module.name.endswith("__main__")
    ]


def test_the_page_does_not_load_torch() -> None:
    assert loaded_by(ROOT, page_modules(ROOT), sorted(TORCH_FAMILY), page=True) == []


@pytest.mark.parametrize("command", ["planner.__main__", "profiler.__main__"])
def test_the_command_lines_load_neither_torch_nor_the_page(command: str) -> None:
    watched = [*sorted(TORCH_FAMILY), *HEAVY_FOR_A_COMMAND_LINE]
    assert loaded_by(ROOT, [command], watched) == []


@pytest.mark.parametrize("text", ["import torch", "from torch.nn import functional", "import transformers"])
def test_loading_torch_is_found(tmp_path: Path, text: str) -> None:
    root = write_tree(tmp_path, {"ui/measure.py": text, "profiler/worker.py": "import torch"})
    assert loaded_by(root, page_modules(root), sorted(TORCH_FAMILY)) != []


def test_the_worker_is_not_the_page(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"ui/measure.py": "import profiler", "profiler/worker.py": "import torch"})
    assert loaded_by(root, page_modules(root), sorted(TORCH_FAMILY)) == []


PLAN = """
import json, sys
from planner.__main__ import main
sys.stdout = sys.stderr
main(["plan", sys.argv[1]])
sys.stdout = sys.__stdout__
print(json.dumps([name for name in sys.modules if name.startswith("planner.")]))
"""


@pytest.mark.parametrize(
    ("example", "left_out"),
    [
        (
            "llama-7b-full-four-3090",
            ("planner.serving.", "planner.throughput.serving", "planner.runtimes.vllm"),
        ),
        (
            "llama-70b-awq-two-l40s",
            ("planner.training.ledgers", "planner.training.backward", "planner.throughput.training"),
        ),
    ],
)
def test_a_plan_from_the_command_line_loads_what_its_own_task_needs(
    example: str, left_out: tuple[str, ...]
) -> None:
    command = [sys.executable, "-c", PLAN, f"examples/{example}.json"]
    answer = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8", env=run.child_environment()
    )
    loaded = json.loads(answer.stdout.splitlines()[-1])
    assert "planner.estimate" in loaded
    assert [name for name in loaded if name.startswith(left_out)] == []
