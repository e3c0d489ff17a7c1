"""The commands of kept runs: `keep REPORT` for calibration, `kept` to list, remove, export and import."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planner.plan_types import Plan
from profiler.kept import KeptError, KeptRuns, kept_from
from profiler.report import Report
from profiler.report_file import open_report


def add_commands(commands: Any) -> None:
    """Add both to the command line."""
    keep = commands.add_parser("keep", help="keep a measured run to calibrate later plans")
    keep.add_argument("report", type=Path, help="report of a run on a card")
    keep.add_argument("--name", default="", help="what to call it; default: the file's name")
    kept = commands.add_parser("kept", help="list the kept runs")
    what = kept.add_mutually_exclusive_group()
    what.add_argument("--remove", metavar="ID", help="forget one")
    what.add_argument("--export", type=Path, metavar="OUT", help="write all to a file")
    what.add_argument(
        "--import", type=Path, metavar="FILE", dest="taken", help="add those of an exported file"
    )


def keep(
    arguments: argparse.Namespace, plan_of: Callable[[Report], Plan], runs: KeptRuns | None = None
) -> int:
    """Keep one run. Returns 0, or 2 where it says nothing about later plans."""
    try:
        report = open_report(arguments.report.read_bytes())
        run = kept_from(report, plan_of(report), arguments.name or arguments.report.stem)
        (runs or KeptRuns()).add(run)
    except (OSError, ValueError) as error:  # a report, a scenario or a run that is none
        return _refuse(f"{arguments.report}: {error}")
    _say(
        f"{run.id}  {run.gpu_id}, {run.runtime}, driver {run.driver}: {run.ratio:.3f} of predicted ({run.layer})"
    )
    return 0


def kept(arguments: argparse.Namespace, runs: KeptRuns | None = None) -> int:
    """List, remove, export or import. Returns 0, or 2 for what is not there or cannot be read."""
    known = runs or KeptRuns()
    try:
        if arguments.remove is not None:
            return (
                0
                if known.remove(arguments.remove)
                else _refuse(f"--remove: {arguments.remove!r} is not kept")
            )
        if arguments.export is not None:
            arguments.export.write_text(known.export(), encoding="utf-8")
            return 0
        if arguments.taken is not None:
            _say(f"{known.take_in(arguments.taken.read_bytes())} added")
            return 0
    except (OSError, KeptError) as error:
        return _refuse(str(error))
    for run in known.list():
        _say(
            "  ".join(
                [run.id, run.created_at, run.gpu_id, run.runtime, run.driver, f"{run.ratio:.3f}", run.name]
            )
        )
    return 0


def _refuse(text: str) -> int:
    print(text, file=sys.stderr)  # noqa: T201  # a command's words
    return 2


def _say(text: str) -> None:
    print(text)  # noqa: T201
