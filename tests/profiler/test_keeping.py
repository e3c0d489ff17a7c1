"""The commands of kept runs."""

import re
from pathlib import Path

import pytest

import profiler.__main__ as command
from hardware_db import load_tables
from planner.estimate import plan
from planner.scenario import Scenario, to_document
from planner.units import GIB
from profiler.keeping import NO_REPORT, NOT_KEPT
from profiler.kept import KeptError, KeptRuns
from profiler.report import DeviceReadings, ReportError, dump_report
from tests.profiler.reports import CUDA, TWO_PHASES, WEIGHTS, phase, report
from tests.profiler.scenarios import LLAMA, scenario


def write_report(folder: Path) -> Path:
    asked = scenario(LLAMA, hardware={"devices": [{"gpu": "rtx-4090-24gb"}]})
    made = plan(Scenario.model_validate(asked), load_tables())
    where = CUDA.model_copy(update={"device_name": "NVIDIA GeForce RTX 4090", "driver": "570.86.15"})
    readings = DeviceReadings(total_bytes=24 * GIB, process_peak_bytes=made.worst.peak_bytes)
    measured = report(phase("forward", WEIGHTS, reserved=5_000), environment=where, readings=readings)
    document = to_document(made.resolved)
    document["model"] = {"config": {"model_type": "llama"}}  # the report's own config is what counts
    path = folder / "run.json"
    kept = measured.model_copy(update={"scenario": document, "config": LLAMA})
    path.write_text(dump_report(kept), encoding="utf-8")
    return path


def test_keep_list_export_forget_and_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))
    assert command.main(["keep", str(write_report(tmp_path)), "--name", "mine"]) == 0
    (run,) = KeptRuns().list()
    assert (run.name, run.gpu_id) == ("mine", "rtx-4090-24gb")
    out = tmp_path / "kept.json"
    assert command.main(["kept", "--export", str(out)]) == 0
    assert command.main(["kept", "--remove", run.id]) == 0
    assert KeptRuns().list() == ()
    capsys.readouterr()
    assert command.main(["kept"]) == 0
    assert capsys.readouterr().out == "no run is kept; `keep REPORT` keeps one\n"
    assert command.main(["kept", "--remove", run.id]) == 2
    assert command.main(["kept", "--remove", "../x"]) == 2
    assert "../x: id: '../x' (a-z, A-Z, 0-9, at most 64)" in capsys.readouterr().err
    assert command.main(["kept", "--import", str(out)]) == 0
    capsys.readouterr()
    assert command.main(["kept"]) == 0
    assert run.id in capsys.readouterr().out
    assert KeptRuns().list() == (run,)


def test_what_cannot_be_kept_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    newer = b'{"kind": "headroom.report", "version": 99}'
    for data, words in (
        (b"{", "run.json: no JSON, line:column 1:2; allowed: a report"),
        (b"\n\xff\xfe", "run.json: no JSON, line:column "),
        (newer, 'run.json: kind: "headroom.report" given; allowed: "headroom_measurement"'),
        (b'{"kind": "headroom_measurement", "version": 0}', "version: 0 given; allowed: 1, 2"),
        (b'{"kind": "headroom_measurement", "version": 1}', "run.json: created_at: null (Field required)"),
        (dump_report(TWO_PHASES).encode(), "run.json: "),
    ):
        path.write_bytes(data)
        assert command.main(["keep", str(path)]) == 2
        assert words in capsys.readouterr().err
    assert command.main(["keep", str(tmp_path / "none.json")]) == 2
    assert "none.json: can't be read" in capsys.readouterr().err
    path.write_bytes(b"\x80\x04")
    assert command.main(["kept", "--import", str(path)]) == 2
    assert (
        "run.json: no JSON, line:column 1:1; allowed: a file that `kept --export`" in capsys.readouterr().err
    )
    path.write_bytes(newer)
    assert command.main(["kept", "--import", str(path)]) == 2
    assert 'run.json: kind: "headroom.report" given' in capsys.readouterr().err


def test_every_reason_is_a_sentence_with_what_is_allowed() -> None:
    for known, said in ((ReportError, NO_REPORT), (KeptError, NOT_KEPT)):
        codes = set(re.findall(r"`([a-z_]+)`", (known.__doc__ or "").split("code:")[1].split("detail:")[0]))
        assert codes == set(said)
        assert all(text.format(field="f", detail="d") for text in said.values())
