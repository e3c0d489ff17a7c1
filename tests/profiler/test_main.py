"""The command line."""

import json
from pathlib import Path
from typing import Any

import pytest

import profiler.__main__ as command
from profiler.report import load_report
from tests.profiler.scenarios import GPT2, scenario


def write(tmp_path: Path, document: Any) -> str:
    path = tmp_path / "scenario.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "line 1"),
        ("[]", "object"),
        ({"version": 1, "task": "full"}, "hardware"),
        (scenario({"model_type": "no_such_model"}), "model"),
        (scenario(GPT2, **{"training.micro_batch": 0}), "training.micro_batch"),
    ],
)
def test_a_bad_file_is_told_by_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any, words: str
) -> None:
    assert command.main(["run", write(tmp_path, document), "--device", "cpu"]) == 2
    assert words in capsys.readouterr().err


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value"), [("--steps", "0"), ("--timeout", "-1"), ("--threads", "0")])
def test_a_bad_option(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str) -> None:
    path = write(tmp_path, scenario(GPT2))
    assert command.main(["run", path, "--device", "cpu", option, value]) == 2
    assert option.removeprefix("--") in capsys.readouterr().err


def test_what_cannot_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, scenario(GPT2, **{"training.attention": "flex"}))
    assert command.main(["run", path, "--device", "cpu"]) == 3
    assert "training.attention: attention not measured" in capsys.readouterr().err


def test_what_will_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "available_bytes", lambda: 1_000_000)
    assert command.main(["run", write(tmp_path, scenario(GPT2)), "--device", "cpu"]) == 3
    assert "will not fit" in capsys.readouterr().err


@pytest.mark.long
def test_a_step_is_printed_beside_its_plan_although_it_should_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "available_bytes", lambda: 1_000_000)
    out = tmp_path / "report.json"
    path = write(tmp_path, scenario(GPT2))
    arguments = [
        "run",
        path,
        "--device",
        "cpu",
        "--steps",
        "1",
        "--threads",
        "1",
        "--json",
        str(out),
        "--insist",
    ]
    assert command.main(arguments) == 0
    printed = capsys.readouterr().out
    for word in ("rest", "forward", "loss", "backward", "optimizer_step", "parameters", "cublas_workspaces"):
        assert word in printed
    report = load_report(out.read_bytes())
    assert report.predicted_bytes is not None
    peak = report.peak()
    assert peak is not None
    assert peak.peak_allocated_bytes == pytest.approx(report.predicted_bytes, rel=0.01)
