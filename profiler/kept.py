"""Runs that the user keeps to calibrate later plans: one small file each, in the user's own data folder."""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError

from planner.accuracy.calibrate import KeptRun
from planner.checks.words import shown
from planner.plan_types import Plan
from planner.scenario import to_document
from planner.units import MIB
from profiler.compare import compare
from profiler.gpu_names import gpu_id_for
from profiler.live import data_folder
from profiler.report import Report, json_fault

FOLDER: Final = "kept"
KIND: Final = "headroom_kept_runs"
VERSION: Final = 1
MOST_RUNS: Final = 500
MOST_BYTES: Final = 4 * MIB
_ADAPTER: TypeAdapter[KeptRun] = TypeAdapter(KeptRun)


class KeptError(ValueError):
    """A run cannot be kept, or a file of runs cannot be read.

    Attributes:
        code: `not_on_a_gpu`, `card_not_known`, `no_scenario`, `not_completed`, `nothing_to_compare`, `no_driver`,
            `not_writable`, `full`, `too_large`, `not_json`, `wrong_kind`, `wrong_version` or `bad_value`.
        detail: What was given.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code} {detail}".strip())
        self.code = code
        self.detail = detail


def question_digest(scenario: Mapping[str, Any]) -> str:
    """A short name of a question: the same for the same scenario with every default filled in."""
    text = json.dumps(scenario, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def question_of(plan: Plan) -> str:
    """The digest of a plan's own question, for `planner.accuracy.calibrate.calibrated`."""
    return question_digest(to_document(plan.resolved))


def kept_from(report: Report, plan: Plan, name: str) -> KeptRun:
    """A run to keep.

    Args:
        report: The measurement.
        plan: The plan of the very scenario that was measured.
        name: What the user calls it.

    Raises:
        KeptError: It says nothing about later plans.
    """
    if report.outcome != "completed":
        raise KeptError("not_completed", report.outcome)
    if report.environment.device != "cuda":
        raise KeptError("not_on_a_gpu", report.environment.device_name)
    if not report.scenario:
        raise KeptError("no_scenario", report.program.name)
    if not report.environment.driver:
        raise KeptError("no_driver")
    gpu_id = gpu_id_for(report.environment.device_name, report.readings.total_bytes)
    if gpu_id is None:
        raise KeptError("card_not_known", report.environment.device_name)
    rows = compare(plan.worst.ledger, report).layers
    row = next((row for row in reversed(rows[:3]) if row.measured_bytes and row.predicted_bytes), None)
    if row is None or row.measured_bytes is None or row.predicted_bytes is None:
        raise KeptError("nothing_to_compare")
    return KeptRun(
        id=uuid4().hex,
        name=name,
        created_at=report.created_at,
        runtime=plan.resolved.runtime.name,
        task=plan.resolved.task,
        gpu_id=gpu_id,
        driver=report.environment.driver,
        question=question_of(plan),
        layer=row.name,
        predicted_bytes=row.predicted_bytes,
        measured_bytes=row.measured_bytes,
    )


class KeptRuns:
    """The kept runs of this machine's user.

    Args:
        folder: Where they lie, None for the user's data folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder if folder is not None else data_folder() / FOLDER

    def list(self) -> tuple[KeptRun, ...]:
        """All of them, newest first. A file that cannot be read is passed over and left alone."""
        try:
            paths = sorted(self._folder.glob("*.json"))[:MOST_RUNS]
        except OSError:
            return ()
        found = (_read(path) for path in paths)
        return tuple(sorted(filter(None, found), key=lambda run: (run.created_at, run.id), reverse=True))

    def add(self, run: KeptRun) -> None:
        """Keep one; one with its id is replaced.

        Raises:
            KeptError: The folder cannot be written, or holds as many as it may.
        """
        if len(self.list()) >= MOST_RUNS:
            raise KeptError("full", str(MOST_RUNS))
        path = self._path(run.id)
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(asdict(run)), encoding="utf-8")
            beside.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            raise KeptError("not_writable", str(error)) from error

    def remove(self, run_id: str) -> bool:
        """Forget one. Returns whether it was there.

        Raises:
            KeptError: It cannot be taken away.
        """
        try:
            self._path(run_id).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise KeptError("not_writable", str(error)) from error
        return True

    def export(self) -> str:
        """All of them as the text of one file."""
        runs = [asdict(run) for run in self.list()]
        return json.dumps({"kind": KIND, "version": VERSION, "runs": runs}, indent=1)

    def take_in(self, data: bytes) -> int:
        """Add the runs of an exported file; those already here are replaced. Returns how many.

        Raises:
            KeptError: It is no such file; then nothing is added.
        """
        runs = runs_from(data)
        for run in runs:
            self.add(run)
        return len(runs)

    def _path(self, run_id: str) -> Path:
        if not run_id.isalnum() or not run_id.isascii() or len(run_id) > 64:
            raise KeptError("bad_value", f"id: {run_id[:64]!r} (a-z, A-Z, 0-9, at most 64)")
        return self._folder / f"{run_id}.json"


def runs_from(data: bytes) -> tuple[KeptRun, ...]:
    """The runs of an exported file.

    Raises:
        KeptError: It is no such file, or a value in it cannot be.
    """
    if len(data) > MOST_BYTES:
        raise KeptError("too_large", str(len(data)))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise KeptError("not_json", json_fault(data, error)) from error
    kind = document.get("kind") if isinstance(document, dict) else None
    if not isinstance(document, dict) or kind != KIND:
        raise KeptError("wrong_kind", shown(kind))
    if document.get("version") != VERSION:
        raise KeptError("wrong_version", shown(document.get("version")))
    runs = document.get("runs")
    if not isinstance(runs, list) or len(runs) > MOST_RUNS:
        raise KeptError("bad_value", f"runs: {shown(runs)} (list, <= {MOST_RUNS})")
    return tuple(_checked(run, f"runs.{place}") for place, run in enumerate(runs))


def _checked(document: object, where: str) -> KeptRun:
    try:
        run = _ADAPTER.validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join([where, *map(str, first["loc"])])
        given = None if first["type"] == "missing" else first["input"]
        raise KeptError("bad_value", f"{path}: {shown(given)} ({first['msg']})") from error
    for name in ("predicted_bytes", "measured_bytes"):
        if getattr(run, name) <= 0:
            raise KeptError("bad_value", f"{where}.{name}: {getattr(run, name)} (> 0)")
    if not run.id.isalnum() or not run.id.isascii():
        raise KeptError("bad_value", f"{where}.id: {shown(run.id)} (a-z, A-Z, 0-9)")
    return run


def _read(path: Path) -> KeptRun | None:
    try:
        return _checked(json.loads(path.read_text(encoding="utf-8")), path.name)
    except (OSError, ValueError):
        return None
