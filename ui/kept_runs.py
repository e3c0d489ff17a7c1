"""Runs that the user kept, and the tables and plans that follow from them. Nothing of Streamlit in here."""

from functools import lru_cache
from pathlib import Path

from hardware_db import load_tables
from planner.accuracy.calibrate import KeptRun, calibrated, calibrated_tables, with_calibration
from planner.hardware import Tables
from planner.plan_types import Plan
from planner.scenario import Scenario
from profiler.kept import FOLDER, KeptRuns, question_of
from profiler.live import data_folder

Stamp = tuple[str, int]


def stamp() -> Stamp:
    """What changes whenever a run is kept or removed; an empty folder's name where there is none."""
    folder = data_folder() / FOLDER
    try:
        return str(folder), folder.stat().st_mtime_ns
    except OSError:
        return "", 0


def kept_runs() -> tuple[KeptRun, ...]:
    """All kept runs, newest first."""
    return _runs(stamp())


def tables_for(scenario: Scenario) -> Tables:
    """The tables for a question: the shipped ones, with the band that kept runs of its kind ask for."""
    cards = {device.gpu for device in scenario.hardware.devices}
    if not kept_runs() or len(cards) != 1:
        return load_tables()
    return _tables(stamp(), scenario.runtime.name, scenario.task, cards.pop())


def with_kept(plan: Plan) -> Plan:
    """The plan with the band of a kept run of the very same question, if there is one."""
    runs = kept_runs()
    if not runs:
        return plan
    question = question_of(plan)
    same = [run for run in runs if run.question == question]
    found = calibrated(plan, same, question=question) if same else None
    return plan if found is None else with_calibration(plan, found)


@lru_cache(maxsize=4)
def _runs(at: Stamp) -> tuple[KeptRun, ...]:
    return KeptRuns(Path(at[0])).list() if at[0] else ()


@lru_cache(maxsize=16)
def _tables(at: Stamp, runtime: str, task: str, gpu_id: str) -> Tables:
    return calibrated_tables(load_tables(), runtime, task, gpu_id, _runs(at))
