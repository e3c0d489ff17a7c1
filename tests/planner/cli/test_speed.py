"""A plan's speed on the command line."""

import json
from pathlib import Path

import pytest

from planner.__main__ import main
from planner.cli.speed import LACKING, NAMES, speed_lines, speed_of
from tests.planner.throughput.cases import TABLES, made, serving, training
from ui.charts.step_time import KINDS

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_step_is_told_with_band_rate_and_parts() -> None:
    plan = made(training(cards=16, checkpointing="full", hardware={"links": {"inter_node_gbit": 25}}))
    found = speed_of(plan, TABLES)
    text = "\n".join(speed_lines(plan, found, TABLES))
    assert "A step of 65,536 tokens takes" in text
    assert " to " in text
    assert "Gbit/s a node; it has 25" in text
    assert "computed again" in text


def test_a_server_is_told_by_first_and_next_token() -> None:
    plan = made(serving(load={"concurrency": 4, "prompt_tokens": 512, "output_tokens": 128}))
    text = "\n".join(speed_lines(plan, speed_of(plan, TABLES), TABLES))
    assert "With 4 answers at once: first token" in text
    assert "reading weights" in text
    bare = made(serving() | {"workload": {"concurrency": 2}})
    assert "No lengths are given" in "\n".join(speed_lines(bare, speed_of(bare, TABLES), TABLES))


def test_what_is_not_known_is_said() -> None:
    plan = made(serving(runtime="llama_cpp", gpu_layers=10))
    text = "\n".join(speed_lines(plan, speed_of(plan, TABLES), TABLES))
    assert text.strip().startswith("No time: how fast the host")
    plan = made(training(gpu="v100-sxm-32gb", precision={"compute": "bf16"}))
    assert "No time: operations a second" in "\n".join(speed_lines(plan, speed_of(plan, TABLES), TABLES))


def test_every_part_and_lack_has_words() -> None:
    assert {name for kind in KINDS.values() for name in kind.parts} == NAMES.keys()
    assert all(text.format(gpu="x", dtype="y") for text in LACKING.values())


def test_the_document_has_the_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(EXAMPLES / "llama-3.1-8b-full-8xh100.json"), "--json"]) == 0
    speed = json.loads(capsys.readouterr().out)["speed"]
    assert speed["step_time_s"] == pytest.approx(sum(part["time_s"] for part in speed["parts"]))
    assert speed["band"]["low_s"] < speed["step_time_s"] < speed["band"]["high_s"]
