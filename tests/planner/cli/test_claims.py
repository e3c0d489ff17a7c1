"""Claims on the command line: rows chosen by name, rules of thumb on a scenario, JSON, and what is refused."""

from __future__ import annotations

import json

import pytest

import run
from planner.__main__ import main
from planner.claims import CLAIMS
from planner.cli.claims import chosen

EXAMPLE = str(run.ROOT / "examples" / "llama-3.1-8b-full-8xh100.json")


def test_a_row_is_told_with_its_figures_and_working(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "G13"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("G13  WRONG  ")
    assert "tensor 8 x pipeline 2 x context 1 x data 1 = 16, but there are 8 GPUs" in out
    assert "52.5 GB" in out
    assert "P*c/n" in out


def test_rows_of_two_claims_and_of_none() -> None:
    assert chosen(["g9"]) == ("g9", "g9_time")
    assert chosen(["E6", "g1", "e6"]) == ("e6", "g1")
    assert chosen([]) == tuple(CLAIMS)


def test_an_unknown_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "g99"]) == 2
    assert "no row g99; allowed: g1 to g36" in capsys.readouterr().err


def test_rules_of_thumb_on_a_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--scenario", EXAMPLE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Rules of thumb on this plan"
    assert any(line.startswith("A7 margin") and "64.0 GB" in line for line in lines)


def test_everything_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "g2", "--scenario", EXAMPLE, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (claim,) = told["claims"]
    assert (claim["id"], claim["outcome"]) == ("g2", "right")
    assert claim["figures"][0]["found"] == 84_000_000_000
    assert {rule["name"] for rule in told["rules"]} >= {"margin", "states_12"}
