"""Runs the training script with and without the hook. No PyTorch here."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from profiler.report import Report
from profiler.report_file import open_report

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("train.py")
LIMIT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run of a command.

    Attributes:
        code: Its exit code.
        out: Its lines.
        err: Its errors.
        report: The report, None if there is none.
    """

    code: int
    out: list[str]
    err: str
    report: Report | None = None


def run(command: list[str], cwd: Path, environment: dict[str, str] | None = None) -> Ran:
    """Run a command to its end."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1", **(environment or {})},
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=LIMIT_S,
    )
    return Ran(code=done.returncode, out=done.stdout.splitlines(), err=done.stderr)


def bare(cwd: Path, *arguments: str) -> Ran:
    """The script alone."""
    return run([sys.executable, str(SCRIPT), *arguments], cwd)


def wrapped(cwd: Path, *arguments: str, options: tuple[str, ...] = (), script: Path = SCRIPT) -> Ran:
    """The script under `wrap`, started from a folder that is not Headroom's."""
    out = cwd / "report.json"
    command = [sys.executable, "-m", "profiler", "wrap", "--report", str(out), *options]
    environment = {"PYTHONPATH": str(ROOT), "HEADROOM_DATA": str(cwd / "data")}
    ran = run([*command, "--", sys.executable, str(script), *arguments], cwd, environment)
    report = open_report(out.read_bytes()) if out.exists() else None
    return Ran(code=ran.code, out=ran.out, err=ran.err, report=report)


def text_of(report: Report | None) -> str:
    """For messages of failed tests."""
    return "none" if report is None else json.dumps([remark.model_dump() for remark in report.remarks])
