"""A user's own model: what the command line takes, what is refused, and what a trace of it holds."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario
from profiler.__main__ import main
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Target
from profiler.trace.module_request import ask_module, plain_question
from profiler.trace.module_source import ModuleSource, SourceError, parse_source
from profiler.trace.record import Trace
from profiler.worker.workloads import CannotBuildError
from tests.profiler.scenarios import scenario
from tests.profiler.trace.cases import AUTOCAST
from tests.profiler.trace.child_cases import trace_command

ROOT = Path(__file__).resolve().parents[3]
MODELS = "tests.profiler.trace.user_models"


def traced(name: str, target: Target | None = None, changes: Mapping[str, Any] = {}) -> Trace:
    document = scenario({}, **changes)
    source = ModuleSource(target=f"{MODELS}:{name}", folder=str(ROOT), inputs={})
    asked = Scenario.model_validate(document)
    return make_trace(asked, document, {}, target or Target(), module=source)


@pytest.mark.parametrize("name", ["by_inputs", "by_name", "by_loss"])
def test_parameters_keep_their_own_names(name: str) -> None:
    trace = traced(name)
    words = set(trace.storages.words)
    assert {"up.weight", "down.bias", "norm.weight", "scale"} <= words
    assert trace.params_total == trace.params_trainable == 32 * 128 * 2 + 128 + 32 + 2 * 128
    assert {"forward", "loss", "backward", "optimizer_step", "rest"} <= {mark.phase for mark in trace.marks}
    modules = {one.module for one in trace.storages.storages() if one.phase == "backward" and not one.kind}
    assert {"norm", "down"} <= modules  # the first layer makes nothing but gradients


def test_cudas_norm_is_one_kernel() -> None:
    """The CPU's composition keeps squares and quotients of the size of the input; the kernel a number a row."""
    here, there = traced("normed", Target(device="cpu")), traced("normed")
    of_norm = [
        [one for one in trace.storages.storages() if one.module == "norm" and one.phase == "forward"]
        for trace in (here, there)
    ]
    assert len(of_norm[1]) == 2 * 2  # the output and the rows' numbers, in each of two steps
    assert {one.shape for one in of_norm[1]} == {(100, 256), (100, 1)}
    assert sum(one.bytes for one in of_norm[0]) > sum(one.bytes for one in of_norm[1])


def test_autocast_reaches_a_users_model() -> None:
    trace = traced("by_loss", changes=AUTOCAST)
    words, columns = trace.storages.words, trace.storages
    products = {
        words[columns.dtype[number]]
        for number, op in enumerate(columns.op)
        if words[op] == "aten::addmm" and words[columns.phase[number]] == "forward"
    }
    assert products == {"bfloat16", ""}  # the library's workspace has no format


@pytest.mark.parametrize(
    ("name", "code", "word"),
    [
        ("by_values", "depends_on_values", "item"),
        ("by_number_of_values", "depends_on_values", "meta"),
        ("without_loss", "module_without_loss", "(60, 32)"),
        ("alone", "module_wrong", "Net"),
        ("no_module", "module_wrong", "torch.nn.Module"),
        ("failing", "module_failed", "no such file"),
        ("leaving", "module_failed", "SystemExit"),
        ("too_wide", "step_failed", "user_models.py:"),
        ("not_there", "module_not_found", "not_there"),
        ("Net.forward.nothing", "module_not_found", "nothing"),
        ("ROOT", "module_not_found", "ROOT"),
    ],
)
def test_what_cannot_be_followed_says_why(name: str, code: str, word: str) -> None:
    with pytest.raises(CannotBuildError) as refused:
        traced(name)
    remark = refused.value.remark
    assert remark.code == code
    assert word in str(remark.params["detail"])
    assert name in str(remark.params["given"]) or code == "module_without_loss"


def test_values_are_missed_under_autocast_as_well() -> None:
    for name in ("by_values", "by_number_of_values"):
        with pytest.raises(CannotBuildError) as refused:
            traced(name, changes=AUTOCAST)
        assert refused.value.remark.code == "depends_on_values"


def test_a_module_that_is_not_there_is_refused_by_the_child(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import nowhere_at_all\n", encoding="utf-8")
    done = trace_command("--module", "broken:f", folder=tmp_path, environment=_environment())
    assert done.returncode == 3, done.stderr
    assert "module not imported" in done.stderr
    assert "nowhere_at_all" in done.stderr


def test_the_command_line_follows_a_module_of_the_folder_it_runs_in(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def make(width):\n"
        "    return torch.nn.Linear(width, width), lambda model: model(torch.ones(64, width)).mean()\n",
        encoding="utf-8",
    )
    arguments = ["--module", "mine:make", "--input", '{"width": 256}', "--gpu", "rtx-4090-24gb", "--json"]
    done = trace_command(*arguments, folder=tmp_path, environment=_environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["categories"]["weights"] == 4 * (256 * 256 + 256)
    assert found["target"]["compute_capability"] == [8, 9]
    assert found["capacity_bytes"] > 2 * 10**10


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("target", "inputs", "word"),
    [
        ("no_colon", None, "package.module:factory"),
        ("a:b:c", None, "package.module:factory"),
        ("a:b; import os", None, "package.module:factory"),
        ("a:b", "[1]", "--input"),
        ("a:b", "{", "--input"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(target: str, inputs: str | None, word: str) -> None:
    with pytest.raises(SourceError, match=word):
        parse_source(target, inputs, ROOT)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["trace"], "--module"),
        (["trace", "--module", "x"], "package.module:factory"),
        (["trace", "--module", "x:y", "--gpu", "no-such-card"], "no-such-card"),
        (["trace", str(ROOT / "pyproject.toml"), "--module", "x:y", "--gpu", "rtx-4090-24gb"], "--gpu"),
        (["trace", "--module", "x:y", "--rank", "3"], "--rank: 3 given"),
        (["trace", "--module", "x:y", "--timeout", "0"], "--timeout: 0.0 given"),
    ],
)
def test_the_command_line_names_the_option(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"training.loss": "chunked"}, "training.loss"),
        ({"training.packing": "packed"}, "training.packing"),
        ({"training.checkpointing": "full"}, "training.checkpointing"),
        ({"task": "lora", "adapter": {"rank": 4}}, "task"),
    ],
)
def test_settings_of_other_models_are_refused(changes: dict[str, Any], field: str) -> None:
    base = plain_question("rtx-4090-24gb")
    document = scenario(base["model"]["config"], **changes) | {"hardware": base["hardware"]}
    made = plan(Scenario.model_validate(document), load_tables())
    asked = ask_module(made, (8, 9), ModuleSource(target="a:b", folder="."))
    assert field in {remark.field for remark in asked.refused}


def test_a_scenario_cannot_name_code() -> None:
    """Scenarios come in links: only the command line's own option brings a module in."""
    document = plain_question("unknown")
    document["model"] = {"config": {"model_type": f"{MODELS}:by_loss"}}
    with pytest.raises(CannotBuildError) as refused:
        make_trace(Scenario.model_validate(document), document, document["model"]["config"], Target())
    assert refused.value.remark.code == "model_not_built"
