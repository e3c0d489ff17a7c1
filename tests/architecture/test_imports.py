"""What each package may import, as lists of what is allowed; pyproject.toml says what is forbidden."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import (
    COMPUTED,
    PRODUCT,
    ROOT,
    TORCH_FAMILY,
    Module,
    imports,
    modules,
    write_tree,
)

if TYPE_CHECKING:
    from pathlib import Path

ALLOWED = {
    "planner": frozenset({"planner", "numpy", "pydantic"}),
    "hardware_db": frozenset({"hardware_db", "planner"}),
    "profiler": frozenset({"profiler", "planner", "numpy", "pydantic", "pynvml"}),
    "ui": frozenset(
        {"ui", "planner", "hardware_db", "profiler", "streamlit", "plotly", "pandas", "numpy", "pydantic"}
    ),
    "app": frozenset({"ui", "streamlit"}),
}
# Modules, with all below them, that may import more than their package, and what for.
EXTRA = {
    "hardware_db.checkpoint": frozenset(
        {"httpx2", "huggingface_hub", "safetensors"}
    ),  # headers of checkpoints
    "hardware_db.refresh.gpuhunt": frozenset(
        {"gpuhunt"}
    ),  # prices of more clouds, where the user installed it
    "planner.__main__": frozenset({"hardware_db"}),  # a command line reads the data and hands it in
    "planner.yaml_text": frozenset({"yaml"}),  # text to values and back, without touching a file
    "profiler.__main__": frozenset({"hardware_db"}),
    "profiler.worker": TORCH_FAMILY,  # the child process
    "profiler.trace.child": TORCH_FAMILY,  # the tracing child process
    "profiler.hook.site": frozenset({COMPUTED}),  # loads the hook apart from the program's modules
    **dict.fromkeys(  # inside the program that is watched
        (
            *(
                "profiler.hook.attach",
                "profiler.hook.everywhere",
                "profiler.hook.follow",
                "profiler.hook.inside",
            ),
            *("profiler.hook.memory", "profiler.hook.snapshots", "profiler.hook.watcher"),
        ),
        TORCH_FAMILY,
    ),
    "profiler.trace.child.user_module": frozenset(
        {COMPUTED}
    ),  # a user's own model, named on the command line
}
# Figures are pure functions of a plan.
NO_STREAMLIT = ("ui.charts", "ui.locales")


def _is_below(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")


def allowed_for(module: Module) -> frozenset[str]:
    """Top-level names that a module may import beside the standard library."""
    allowed = ALLOWED[module.package]
    for parent, more in EXTRA.items():
        if _is_below(module.name, parent):
            allowed |= more
    if any(_is_below(module.name, parent) for parent in NO_STREAMLIT):
        allowed -= {"streamlit"}
    return allowed


def broken_walls(root: Path) -> list[str]:
    """Every import that its package may not make."""
    return [
        f"{module.path}:{line}: {module.package} may not import {name}"
        for module in modules(root, *PRODUCT, "app")
        for line, name in imports(module)
        if (top := name.partition(".")[0]) not in sys.stdlib_module_names and top not in allowed_for(module)
    ]


def test_no_package_imports_more_than_it_may() -> None:
    found = broken_walls(ROOT)
    assert not found, "\n".join(found)


def test_the_rule_covers_real_files() -> None:
    found = {module.package for module in modules(ROOT, *PRODUCT, "app")}
    assert found == {*PRODUCT, "app"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("planner/estimate.py", "import pandas"),
        ("planner/estimate.py", "from hardware_db import gpus"),
        ("planner/estimate.py", "def f():\n    import torch"),
        ("planner/estimate.py", "import importlib\nimportlib.import_module('torch.nn')"),
        ("planner/estimate.py", "import importlib\nimportlib.import_module(name)"),
        ("planner/estimate.py", "import importlib\nimportlib.import_module(f'{name}.nn')"),
        ("planner/estimate.py", "import importlib\nimportlib.import_module(f'torch.{name}')"),
        ("planner/memory/__main__.py", "import hardware_db"),
        ("hardware_db/gpus.py", "import pandas as pd"),
        ("hardware_db/gpus.py", "from ui import pages"),
        ("profiler/runner.py", "import torch"),
        ("profiler/runner.py", "import hardware_db"),
        ("profiler/workers.py", "import torch"),
        ("profiler/__main__.py", "import torch"),
        ("profiler/worker/step.py", "import streamlit"),
        ("ui/pages/plan.py", "from transformers import AutoConfig"),
        ("ui/charts/bars.py", "import streamlit as st"),
        ("app.py", "import planner"),
    ],
)
def test_a_broken_wall_is_found(tmp_path: Path, path: str, text: str) -> None:
    write_tree(tmp_path, {path: text})
    found = broken_walls(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(f"{path}:")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "planner/__main__.py",
            "import json\nfrom hardware_db import gpus\nfrom planner.estimate import plan",
        ),
        ("profiler/__main__.py", "import hardware_db"),
        ("planner/memory/weights.py", "import math\nimport numpy as np\nfrom pydantic import BaseModel"),
        ("planner/model/registry.py", "import importlib\nimportlib.import_module(f'planner.model.{name}')"),
        ("profiler/worker.py", "import torch\nfrom transformers import AutoModelForCausalLM"),
        ("profiler/trace/child/run.py", "import torch"),
        ("ui/charts/bars.py", "import plotly.graph_objects as go"),
        ("app.py", "import streamlit as st\nfrom ui import pages"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, path: str, text: str) -> None:
    assert broken_walls(write_tree(tmp_path, {path: text})) == []
