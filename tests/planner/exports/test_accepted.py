"""The libraries that install beside ours read our files, and find in them what was planned.

The others (DeepSpeed, torchtune, axolotl, LLaMA-Factory, SkyPilot, Kubernetes, Triton) are asked by
`python -m benchmarks.accept_exports`; docs/exports.md holds what they said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import run
from hardware_db import load_tables
from planner.exports.catalog import export, offered
from tests.planner.exports.cases import CASES, planned

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = ("training_arguments", "accelerate", "peft")
Answers = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Every file of every case, read in one child process."""
    keys = [
        (n, file.target)
        for n in CASES
        for file in offered(planned(n), load_tables())[0]
        if file.target in TARGETS
    ]
    keys += [(name, "fsdp") for name, target in keys if target == "accelerate"]
    texts = [(t, export(planned(n), "accelerate" if t == "fsdp" else t, load_tables()).text) for n, t in keys]
    path: Path = tmp_path_factory.mktemp("accept") / "files.json"
    path.write_text(json.dumps(texts), encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "-m", "tests.planner.exports.accept", str(path)],
        cwd=run.ROOT,
        check=False,
        capture_output=True,
        encoding="utf-8",
        env=run.child_environment(),
    )
    lines = [line for line in child.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(keys), child.stderr[-2000:]
    return dict(zip(keys, map(json.loads, lines), strict=True))


def test_nothing_is_refused(answers: Answers) -> None:
    assert {key: answer for key, answer in answers.items() if "refused" in answer} == {}
    assert {target for _, target in answers} == {*TARGETS, "fsdp"}


def test_the_trainer_reads_what_was_planned(answers: Answers) -> None:
    for (name, target), answer in answers.items():
        if target != "training_arguments":
            continue
        held, read = planned(name).resolved, answer["read"]
        training = held.training
        autocast = bool(training.precision.autocast)
        assert read["batch"] == training.micro_batch
        assert read["steps"] == training.gradient_accumulation
        assert read["bf16"] == (autocast and training.precision.compute == "bf16")
        assert read["fp16"] == (autocast and training.precision.compute == "fp16")
        assert read["checkpointing"] == (training.checkpointing == "full")
        assert read["fsdp"] == (held.parallel.sharding == "fsdp")
        assert read["offload"] == (held.parallel.offload.parameters == "cpu")


def test_accelerate_reads_what_was_planned(answers: Answers) -> None:
    for (name, target), answer in answers.items():
        held = planned(name).resolved
        if target == "accelerate":
            assert answer["read"]["processes"] == held.hardware.num_devices
            assert (answer["read"]["kind"] == "FSDP") == (held.parallel.sharding == "fsdp")
        elif target == "fsdp" and held.parallel.sharding == "fsdp":
            assert answer["read"] == {
                "version": 2,
                "reshard": held.parallel.reshard_after_forward is not False,
                "checkpointing": held.training.checkpointing == "full",
                "offload": held.parallel.offload.parameters == "cpu",
            }


def test_peft_reads_what_was_planned(answers: Answers) -> None:
    for (name, target), answer in answers.items():
        if target != "peft":
            continue
        adapter, read = planned(name).resolved.adapter, answer["read"]
        assert adapter is not None
        wanted = "all-linear" if adapter.targets == "all_linear" else sorted(adapter.targets or ())
        assert (read["rank"], read["alpha"], read["targets"]) == (adapter.rank, adapter.alpha, wanted)
        assert read["dora"] == (adapter.method == "dora")
        quantized = read["quantized"] or {}
        assert quantized.get("load_in_4bit", False) == (adapter.base in {"nf4", "nf4_dq"})
        assert quantized.get("bnb_4bit_use_double_quant", False) == (adapter.base == "nf4_dq")
        assert quantized.get("load_in_8bit", False) == (adapter.base == "int8")
