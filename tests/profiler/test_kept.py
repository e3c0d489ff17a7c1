"""Runs that are kept: from a report, on disk, exported and taken in again."""

import json
from pathlib import Path
from typing import Any

import pytest

from hardware_db import load_tables
from planner.accuracy.calibrate import KeptRun, calibrated
from planner.estimate import plan as plan_for
from planner.plan_types import Plan
from planner.scenario import Scenario, to_document
from planner.units import GIB
from profiler.kept import KeptError, KeptRuns, kept_from, question_of, runs_from
from profiler.report import DeviceReadings, Report
from tests.profiler.reports import CUDA, WEIGHTS, phase, report
from tests.profiler.scenarios import LLAMA, scenario

HERE = CUDA.model_copy(update={"device_name": "NVIDIA GeForce RTX 4090", "driver": "570.86.15"})
RUN = KeptRun(
    id="a1",
    name="mine – ßé",
    created_at="2026-11-29T10:00:00+00:00",
    runtime="hf_trainer",
    task="full",
    gpu_id="rtx-4090-24gb",
    driver="570.86.15",
    question="q",
    layer="process",
    predicted_bytes=10,
    measured_bytes=11,
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    asked = scenario(LLAMA, hardware={"devices": [{"gpu": "rtx-4090-24gb"}]})
    return plan_for(Scenario.model_validate(asked), load_tables())


def measured(plan: Plan, **changes: Any) -> Report:
    readings = DeviceReadings(total_bytes=24 * GIB, process_peak_bytes=2 * plan.worst.peak_bytes)
    made = report(phase("forward", WEIGHTS, reserved=5_000), environment=HERE, readings=readings)
    return made.model_copy(update={"scenario": to_document(plan.resolved), **changes})


def test_a_measured_run_calibrates_the_next_plan_of_its_question(plan: Plan) -> None:
    run = kept_from(measured(plan), plan, "mine")
    assert (run.gpu_id, run.driver, run.runtime, run.layer) == (
        "rtx-4090-24gb",
        "570.86.15",
        "hf_trainer",
        "process",
    )
    assert run.measured_bytes == 2 * plan.worst.peak_bytes
    found = calibrated(plan, [run], question=question_of(plan))
    assert found is not None
    assert found.band.basis == "kept_same"
    assert found.level == pytest.approx(run.measured_bytes / run.predicted_bytes)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"outcome": "out_of_memory"}, "not_completed"),
        ({"scenario": {}}, "no_scenario"),
        ({"environment": HERE.model_copy(update={"device": "cpu"})}, "not_on_a_gpu"),
        ({"environment": HERE.model_copy(update={"driver": ""})}, "no_driver"),
        ({"environment": HERE.model_copy(update={"device_name": "Unheard Of 9000"})}, "card_not_known"),
        ({"phases": (), "readings": DeviceReadings(total_bytes=24 * GIB)}, "nothing_to_compare"),
    ],
)
def test_a_run_that_says_nothing_is_refused(plan: Plan, changes: dict[str, Any], code: str) -> None:
    with pytest.raises(KeptError) as caught:
        kept_from(measured(plan, **changes), plan, "mine")
    assert caught.value.code == code


def test_keep_list_and_forget(tmp_path: Path) -> None:
    runs = KeptRuns(tmp_path / "kept")
    assert runs.list() == ()
    later = KeptRun(**{**vars_of(RUN), "id": "b2", "created_at": "2026-11-30T00:00:00+00:00"})
    runs.add(RUN)
    runs.add(later)
    runs.add(RUN)
    assert runs.list() == (later, RUN)
    assert KeptRuns(tmp_path / "kept").list() == (later, RUN)
    assert runs.remove("b2")
    assert not runs.remove("b2")
    assert runs.list() == (RUN,)


def vars_of(run: KeptRun) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__slots__}


def test_export_and_import_on_another_machine(tmp_path: Path) -> None:
    here, there = KeptRuns(tmp_path / "here"), KeptRuns(tmp_path / "there")
    here.add(RUN)
    assert there.take_in(here.export().encode()) == 1
    assert there.take_in(here.export().encode()) == 1
    assert there.list() == (RUN,)


def changed(**values: Any) -> bytes:
    document = {"kind": "headroom_kept_runs", "version": 1, "runs": [vars_of(RUN) | values]}
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "not_json"),
        (b"[" * 100_000, "not_json"),
        (b"[]", "wrong_kind"),
        (b'{"kind": "headroom_measurement"}', "wrong_kind"),
        (b'{"kind": "headroom_kept_runs", "version": 2, "runs": []}', "wrong_version"),
        (b'{"kind": "headroom_kept_runs", "version": 1, "runs": {}}', "bad_value"),
        (changed(id="../../outside"), "bad_value"),
        (changed(predicted_bytes=0), "bad_value"),
        (changed(measured_bytes="11"), "bad_value"),
        (b" " * 5_000_000, "too_large"),
    ],
)
def test_a_file_that_is_none_adds_nothing(tmp_path: Path, data: bytes, code: str) -> None:
    runs = KeptRuns(tmp_path)
    with pytest.raises(KeptError) as caught:
        runs.take_in(data)
    assert caught.value.code == code
    assert runs.list() == ()


@pytest.mark.parametrize("run_id", ["../x", "a/b", "", "é", "a" * 65])
def test_an_id_never_leaves_the_folder(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(KeptError):
        KeptRuns(tmp_path).remove(run_id)


def test_a_broken_file_is_passed_over_and_left_alone(tmp_path: Path) -> None:
    runs = KeptRuns(tmp_path)
    runs.add(RUN)
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert runs.list() == (RUN,)
    assert (tmp_path / "broken.json").exists()


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    runs = KeptRuns(tmp_path / "file")
    assert runs.list() == ()
    with pytest.raises(KeptError) as caught:
        runs.add(RUN)
    assert caught.value.code == "not_writable"


def test_an_export_is_read_as_it_was() -> None:
    assert runs_from(changed()) == (RUN,)
