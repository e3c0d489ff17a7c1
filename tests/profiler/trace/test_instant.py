"""Instant mode against full mode: every event, every peak, to the byte; and why it is not used."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.cases import BF16, SDPA
from tests.profiler.trace.child_cases import run_cases, trace_command
from tests.profiler.trace.instant_cases import LONG, SHORT

ROOT = Path(__file__).resolve().parents[3]


def check(case: dict[str, Any]) -> None:
    assert case["differences"] == []
    assert case["instant"]["code"] == ""
    assert sum(case["instant"]["layers"]) < case["layers"]


@pytest.fixture(scope="module")
def short_cases() -> dict[str, dict[str, Any]]:
    return run_cases("instant_referee", list(SHORT))


@pytest.mark.parametrize("name", SHORT)
def test_instant_mode_is_full_mode(name: str, short_cases: dict[str, dict[str, Any]]) -> None:
    check(short_cases[name])


def test_layers_checkpointed_in_groups_repeat_by_the_group(short_cases: dict[str, dict[str, Any]]) -> None:
    assert short_cases["llama-every-three"]["instant"]["period"] == 3


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_and_so_it_is_on_large_models(name: str) -> None:
    check(run_cases("instant_referee", [name])[name])


def test_there_are_as_many_models_as_promised() -> None:
    experts = [name for name in LONG if name.startswith("moe")]
    assert len(experts) >= 2
    assert len(LONG) - len(experts) >= 12


def test_few_layers_are_all_run_and_the_command_line_says_so(tmp_path: Path) -> None:
    document = scenario(LLAMA, **BF16, **SDPA) | {"hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]}}
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    done = trace_command(str(file), "--instant", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() >= {"peak_allocated_bytes", "peak_reserved_bytes", "phase", "categories", "seconds"}
    assert found["instant"]["code"] == "few_layers"
    assert found["instant"]["layers"] == []
