"""The PyTorch file runs, on a CPU and a model of a few thousand parameters; bf16 is never scaled."""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import run
from hardware_db import load_tables
from planner.exports.catalog import export, offered
from tests.planner.exports.cases import CASES, planned

if TYPE_CHECKING:
    from pathlib import Path

VOCABULARY = 64
TINY = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
}
SCRIPTS = {
    name: export(planned(name), "pytorch", load_tables()).text
    for name in CASES
    if any(file.target == "pytorch" for file in offered(planned(name), load_tables())[0])
}
LOSS = re.compile(r"step (\d): loss ([\d.]+)")


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_fp16_is_scaled(name: str) -> None:
    precision = planned(name).resolved.training.precision
    scaled = bool(precision.autocast) and precision.compute == "fp16"
    assert ("GradScaler" in SCRIPTS[name]) == scaled
    assert ("torch.autocast" in SCRIPTS[name]) == bool(precision.autocast)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_python_without_idle_imports(name: str) -> None:
    tree = ast.parse(SCRIPTS[name])
    found = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert found <= used


def test_the_cases_hold_both_kinds() -> None:
    assert any("GradScaler" in text for text in SCRIPTS.values())
    assert any("fully_shard" in text for text in SCRIPTS.values())
    assert any("DistributedDataParallel" in text for text in SCRIPTS.values())
    assert any("BitsAndBytesConfig" in text for text in SCRIPTS.values())


@pytest.mark.parametrize(
    ("name", "processes"),
    [
        ("hf_fp16_full", 1),
        ("hf_full_fsdp", 2),
        pytest.param("generic_backward", 1, marks=pytest.mark.long),
        pytest.param("generic_every_k", 2, marks=pytest.mark.long),
        pytest.param("hf_full_keep", 2, marks=pytest.mark.long),
        pytest.param("hf_dora", 1, marks=pytest.mark.long),
    ],
)
def test_a_script_trains(name: str, processes: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TINY), encoding="utf-8")
    (tmp_path / "train.py").write_text(SCRIPTS[name], encoding="utf-8")
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    options = ["--model", str(tmp_path), "--random", "--device", "cpu", "--steps", "2", "--sequence", "16"]
    child = subprocess.run(
        [*launcher, str(tmp_path / "train.py"), *options],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        encoding="utf-8",
        env=run.child_environment(),
    )
    assert child.returncode == 0, child.stderr[-3000:]
    losses = [float(loss) for _, loss in LOSS.findall(child.stdout)]
    assert len(losses) == 2 * processes
    assert all(abs(loss - math.log(VOCABULARY)) < 1 for loss in losses)
