"""The prepared check of one card: what it would run, how it scores, and its twin on a processor."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_check
from benchmarks.gpu_check import error_frac, errors_of, one, scores
from benchmarks.gpu_check_cases import CASES, Case, scenario_of
from hardware_db import load_tables
from planner.estimate import plan
from planner.plan_types import Verdict
from planner.scenario import Scenario
from profiler.allocator.settings import parse_settings
from profiler.machine import Machine
from profiler.plan_request import prepare
from profiler.trace.request import ask

CARD = "h200-sxm-141gb"
TABLES = load_tables()


def test_sixteen_configurations_and_more_of_every_kind() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 16
    text = json.dumps([case.changes for case in CASES])
    for word in (
        "lora",
        "full",
        "adafactor",
        "sgd_momentum",
        "fused",
        "eager",
        "flash",
        "chunked",
        "fused_linear",
    ):
        assert f'"{word}"' in text, word
    assert sum(case.runs_out for case in CASES) == 1
    assert sum(bool(case.allocator) for case in CASES) == 2
    assert sum(case.cpu for case in CASES) >= 16


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_configuration_can_be_run_and_traced(case: Case) -> None:
    for small, gpu_id, device in ((False, CARD, "cuda"), (True, "unknown", "cpu")):
        if small and not case.cpu:
            continue
        made = plan(Scenario.model_validate(scenario_of(case, gpu_id, small=small)), TABLES)
        assert prepare(made, device, None).refused == ()  # type: ignore[arg-type]
        settings = parse_settings(case.allocator) if case.allocator else None
        assert ask(made, (9, 0), settings).refused == ()


def test_only_the_one_that_is_meant_to_runs_out() -> None:
    for case in CASES:
        made = plan(Scenario.model_validate(scenario_of(case, CARD, small=False)), TABLES)
        assert (made.verdict is Verdict.DOES_NOT_FIT) == case.runs_out, case.name


def result(measured: int, formula: int, trace: int, **more: Any) -> dict[str, Any]:
    return {
        "name": "x",
        "outcome": "measured",
        "ran_out": False,
        "measured": {"allocated": measured, "reserved": None},
        "formula": {"allocated": formula, "reserved": 7},
        "trace": {"allocated": trace, "reserved": 7},
        **more,
    }


def test_scores() -> None:
    results = [
        result(100, 101, 100),
        result(200, 196, 200),
        result(1, 9, 9, ran_out=True),
        {"outcome": "not_run"},
    ]
    found = scores(results)
    assert found["formula.allocated"] == {"rows": 2, "median_frac": 0.015, "largest_frac": 0.02}
    assert found["trace.allocated"]["largest_frac"] == 0
    assert found["formula.reserved"] == {"rows": 0, "median_frac": None, "largest_frac": None}
    assert (found["ran_out_as_said"], found["could_have_run_out"]) == (3, 3)


def test_an_unknown_figure_has_no_error() -> None:
    assert error_frac(None, 5) is error_frac(5, None) is error_frac(5, 0) is None
    assert errors_of({"outcome": "failed"}, "formula", "allocated") is None


def test_what_does_not_run_is_named() -> None:
    flash = next(case for case in CASES if case.name == "llama-bf16-flash")
    assert one(flash, "cpu", "unknown", 100.0, TABLES)["reason"] == "needs a card"
    assert one(CASES[0], "cpu", "unknown", 1.0, TABLES)["reason"] == "no time left"


def test_without_a_card_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_check, "machine_devices", lambda _: Machine(reason="no_driver"))
    assert gpu_check.main([]) == 2
    assert "There is no NVIDIA driver on this machine. Nothing to check" in capsys.readouterr().err


def test_a_wrong_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_check.main(["--cpu", "nonsense"]) == 2
    assert "nonsense given" in capsys.readouterr().err


@pytest.mark.long
def test_the_twin_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "check.json"
    assert gpu_check.main(["--cpu", "--json", str(out), "llama-bf16-sdpa"]) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["scores"]["formula.allocated"]["largest_frac"] < 0.001
    assert written["scores"]["trace.allocated"]["largest_frac"] < 0.001
    assert "llama-bf16-sdpa" in capsys.readouterr().out
