"""`export` and `import` on the command line: text to standard output, what to see to beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import run
from planner.__main__ import main
from planner.cli.files import REFUSED_EXPORTS, REMARKS, REPORT
from planner.exports.catalog import TARGETS
from planner.exports.report import COLUMNS, HEADINGS, plain

if TYPE_CHECKING:
    from pathlib import Path

LORA = str(run.ROOT / "examples" / "llama-3.1-8b-lora-rtx4090.json")
SERVER = str(run.ROOT / "examples" / "llama-3.1-70b-vllm-4xh100.json")


def test_without_a_format_it_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", LORA]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = {line.partition("  ")[0] for line in lines if ": " not in line}
    refused = {line.partition(": ")[0] for line in lines if ": " in line}
    assert {"pytorch", "training_arguments", "peft", "axolotl", "report"} <= named
    assert "deepspeed" in refused
    assert named | refused <= set(TARGETS)


def test_a_file_goes_out_and_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", SERVER, "--format", "serve"]) == 0
    command = capsys.readouterr().out
    assert command.startswith("vllm serve meta-llama/Llama-3.1-70B")
    file = tmp_path / "serve.sh"
    file.write_text(command, encoding="utf-8")
    assert main(["import", str(file), "--onto", SERVER]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["serving"]["max_model_len"] == 32768
    assert made["hardware"]["devices"] == [{"gpu": "h100-sxm-80gb", "count": 4}]


def test_what_does_nothing_is_said_beside_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ds.json"
    file.write_text('{"zero_optimization": {"stage": 2}, "offload_params_path": "/x"}', encoding="utf-8")
    assert main(["import", str(file), "--model", "m/x", "--gpu", "h100-sxm-80gb"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["model"] == {"id": "m/x"}
    assert "offload_params_path = /x: does nothing" in said.err
    assert "zero_optimization.offload_param.nvme_path" in said.err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["export", LORA, "--format", "abacus"], "no export abacus; known: pytorch"),
        (["export", LORA, "--format", "triton"], "for serving only"),
        (["export", LORA, "--format", "torchtune"], "set runtime.name to one of: torchtune"),
        (["import", LORA], "this is a scenario file"),
        (["import", LORA, "--format", "abacus"], "allowed: deepspeed"),
    ],
)
def test_what_cannot_be_is_said(
    arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert wanted in said.err
    assert said.out == ""


def test_a_value_out_of_range_names_its_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("base_model: m/x\nmicro_batch_size: 9999999\n", encoding="utf-8")
    assert main(["import", str(file)]) == 2
    assert "training.micro_batch" in capsys.readouterr().err


def test_the_report_holds_the_plans_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", LORA, "--format", "report"]) == 0
    text = capsys.readouterr().out
    assert main(["plan", LORA, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert f"{plan['devices'][0]['peak_bytes'] / 2**30:,.2f}" in text
    assert "```mermaid" in text
    assert json.dumps(plan["scenario"], indent=2) in text


def test_text_in_a_report_is_text() -> None:
    assert plain("a|b <script> [x](y)\n`z`") == "a\\|b \\<script> \\[x](y) \\`z\\`"


def test_every_word_of_the_report_is_there() -> None:
    assert set(REPORT) >= {*HEADINGS, *COLUMNS}
    assert all(REMARKS.values())
    assert all(REFUSED_EXPORTS.values())
