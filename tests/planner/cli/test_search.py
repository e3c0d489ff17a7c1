"""`python -m planner search`: its answer, its options, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from planner.__main__ import BAD_INPUT, main
from planner.cli.search import REASONS, TREE
from planner.cli.search_limits import time_text
from planner.search.tree import STEPS
from planner.search.types import Fails
from planner.validation import parse_scenario

QUESTION = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
    "runtime": {"name": "torchtitan"},
    "training": {"sequence_length": 4096},
}


@pytest.fixture(name="scenario")
def scenario_file(tmp_path: Path) -> str:
    path = tmp_path / "question.json"
    path.write_text(json.dumps(QUESTION), encoding="utf-8")
    return str(path)


def test_the_answer_names_the_best_plans_and_their_bands(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", scenario, "--provider", "Lambda", "--most-gpus", "8"]) == 0
    text = capsys.readouterr().out
    for start in (
        "Cheapest: ",
        "Fastest: ",
        "Fewest cards: ",
        "The articles' decision tree ends at ",
        "Rejected:",
    ):
        assert start in text
    assert " with deepspeed, which is not allowed here (--allow frameworks" in text
    cheapest = next(line for line in text.splitlines() if line.startswith("Cheapest: "))
    assert "Lambda" in cheapest
    assert " USD (" in cheapest
    assert " minutes (" in cheapest or " days (" in cheapest


@pytest.mark.parametrize(
    ("training", "options", "said"),
    [
        ({"micro_batch": 2, "gradient_accumulation": 3}, [], "48 sequences a step (the scenario's)"),
        ({"micro_batch": 2}, ["--sequences", "16"], "16 sequences a step (--sequences)"),
        ({}, [], "64 sequences a step (assumed; --sequences sets them)"),
    ],
)
def test_the_batch_of_a_step_stays_and_the_job_is_told(
    training: dict[str, int],
    options: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "question.json"
    question = QUESTION | {"training": {"sequence_length": 2048, **training}}
    path.write_text(json.dumps(question), encoding="utf-8")
    search = ["search", str(path), "--owned", "h100-sxm-80gb=8", "--tokens", "2e9", *options]
    assert main(search) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"Job: 2,000,000,000 training tokens (--tokens), {said} of 2,048 tokens."
    assert main([*search, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    settings = found["fastest"]["settings"]
    each = settings["data"] * settings["micro_batch"] * settings["accumulation"]
    assert each == found["job"]["sequences"] == int(said.split(maxsplit=1)[0])


def test_json_holds_scenarios_that_can_be_planned(scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", scenario, "--owned", "h100-sxm-80gb=8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cheapest"] is None
    assert found["fastest"]["usd"] is None
    assert found["fastest"]["devices"] == 8
    assert parse_scenario(found["fastest"]["scenario"])[0] is not None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kind", "index"], "kind: 'index'; allowed: on_demand, spot, marketplace"),
        (["--allow", "magic"], "allow: 'magic'; allowed: all, sharding"),
        (["--owned", "h100=8"], "owned: 'h100=8'; allowed: an id"),
        (["--owned", "h100-sxm-80gb=0"], "owned: 'h100-sxm-80gb=0'; allowed: an id"),
        (["--provider", "Nobody"], "provider: 'Nobody'; allowed: AWS"),
    ],
)
def test_bad_options_are_named_with_what_is_allowed(
    scenario: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", scenario, *options]) == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budget-usd", "0"], "--budget-usd: '0'; allowed: a number above 0"),
        (["--tokens", "inf"], "--tokens: 'inf'; allowed: a number above 0"),
        (["--deadline-days", "soon"], "--deadline-days: 'soon'; allowed: a number above 0"),
        (["--sequences=-1"], "--sequences: '-1'; allowed: a whole number from 1 up"),
        (["--sequences", "1e3"], "--sequences: '1e3'; allowed: a whole number from 1 up"),
        (["--most-gpus", "0"], "--most-gpus: '0'; allowed: a whole number from 1 up"),
    ],
)
def test_a_number_that_cannot_be_is_named_by_its_option(
    scenario: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["search", scenario, *options])
    assert ended.value.code == BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.fixture(name="server")
def server_file(tmp_path: Path) -> str:
    path = tmp_path / "serves.json"
    question = {name: value for name, value in QUESTION.items() if name != "training"}
    path.write_text(json.dumps(question | {"task": "serve", "runtime": {"name": "vllm"}}), encoding="utf-8")
    return str(path)


def test_a_server_is_found_with_its_price_and_pace(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", server, "--provider", "Lambda"]) == 0
    text = capsys.readouterr().out
    for start in (
        "Cheapest hour: Lambda ",
        "Cheapest tokens: Lambda ",
        "Fastest answers: ",
        "The articles' tree, ",
    ):
        assert start in text
    assert "USD a million tokens (" in text
    assert main(["search", server, "--owned", "l4-24gb=2", "--weights", "fp8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fastest"]["usd_per_hour"] is None
    assert parse_scenario(found["fastest"]["scenario"])[0] is not None
    assert main(["search", server, "--weights", "magic"]) == BAD_INPUT
    assert "weights: 'magic'; allowed: fp8, awq4" in capsys.readouterr().err


def test_what_no_plan_keeps_to_is_told_with_what_comes_nearest(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["search", scenario, "--provider", "Lambda", "--most-gpus", "8"]
    for options, said in (
        (["--budget-usd", "1"], r"No plan within 1\.00 USD; the cheapest costs [\d,.]+ USD on 8 x Lambda "),
        (
            ["--deadline-days", "0.01"],
            r"No plan within 14\.4 minutes; the fastest takes [\d.]+ minutes on 8 x Lambda ",
        ),
        (
            ["--budget-usd", "1", "--deadline-days", "9"],
            r"within 1\.00 USD and 9\.00 days; the cheapest by then",
        ),
    ):
        assert main([*base, *options]) == 0
        assert re.search(said, capsys.readouterr().out)


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (0.01, "14.4 minutes (7.2 to 28.8)"),
        (0.5, "0.50 days (0.25 to 1.00)"),
        (1234.5, "1,234.50 days (617.25 to"),
    ],
)
def test_short_times_are_minutes(days: float, said: str) -> None:
    assert time_text(days, days / 2, days * 2).startswith(said)


@pytest.mark.parametrize("option", ["budget-usd", "deadline-days", "sequences", "tokens", "allow"])
def test_an_option_of_training_is_refused_where_a_server_is_looked_for(
    server: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", server, f"--{option}", "1"]) == BAD_INPUT
    assert f"--{option}: not for the task serve; allowed: with a task that trains" in capsys.readouterr().err


def test_an_option_of_serving_is_refused_where_a_job_trains(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", scenario, "--weights", "fp8"]) == BAD_INPUT
    assert "--weights: not for the task full; allowed: with a task that serves" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "runtime", "said"),
    [
        ("serve", "torchtune", "torchtune does not serve; allowed: "),
        ("full", "vllm", "vllm does not train; allowed: "),
    ],
)
def test_a_runtime_of_the_other_kind_of_task_is_refused_as_plan_does(
    tmp_path: Path, task: str, runtime: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "question.json"
    told = {name: value for name, value in QUESTION.items() if name != "training" or task != "serve"}
    path.write_text(json.dumps(told | {"task": task, "runtime": {"name": runtime}}), encoding="utf-8")
    errors = []
    for command in ("plan", "search"):
        assert main([command, str(path)]) == BAD_INPUT
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1]
    assert said in errors[1]


def test_every_reason_and_step_has_words() -> None:
    assert set(REASONS) == {reason.value for reason in Fails}
    assert set(TREE) == {"one_card", *(name for name, _ in STEPS)}
