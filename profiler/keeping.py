"""The commands of kept runs: `keep REPORT` for calibration, `kept` to list, remove, export and import."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from planner.checks.words import shown
from planner.plan_types import Plan
from profiler.kept import KIND, MOST_BYTES, VERSION, KeptError, KeptRuns, kept_from
from profiler.report import MAX_REPORT_BYTES, READ_VERSIONS, Report, ReportError
from profiler.report_file import open_report

NO_REPORT: Final[Mapping[str, str]] = {
    "too_large": f"{{detail}} bytes given; allowed: at most {MAX_REPORT_BYTES}",
    "not_json": "no JSON, line:column {detail}; allowed: a report that run, wrap or watch wrote",
    "wrong_kind": 'kind: {detail} given; allowed: "headroom_measurement"',
    "wrong_version": f"version: {{detail}} given; allowed: {', '.join(map(str, READ_VERSIONS))}",
    "bad_value": "{field}: {detail}",
}
"""Code of a `ReportError` -> sentence."""
NOT_KEPT: Final[Mapping[str, str]] = {
    "not_on_a_gpu": "environment.device: measured on {detail}; allowed: a CUDA card",
    "card_not_known": "environment.device_name: {detail!r} given; allowed: a card of `python -m planner gpus`",
    "no_scenario": "scenario: {{}} given; allowed: the scenario that was measured (wrap --scenario FILE)",
    "not_completed": "outcome: {detail!r} given; allowed: 'completed'",
    "nothing_to_compare": "nothing was measured that was predicted",
    "no_driver": "environment.driver: nothing given; allowed: the driver's version",
    "not_writable": "the user's data folder can't be written: {detail}",
    "full": "{detail} runs are kept already, which is the most; forget some with `kept --remove ID`",
    "too_large": f"{{detail}} bytes given; allowed: at most {MOST_BYTES}",
    "not_json": "no JSON, line:column {detail}; allowed: a file that `kept --export` wrote",
    "wrong_kind": f'kind: {{detail}} given; allowed: "{KIND}"',
    "wrong_version": f"version: {{detail}} given; allowed: {VERSION}",
    "bad_value": "{detail}",
}
"""Code of a `KeptError` -> sentence."""


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
    except (OSError, ReportError, KeptError, ValidationError) as error:
        return _refuse(f"{arguments.report}: {_told(error)}")
    _say(
        f"{run.id}  {run.gpu_id}, {run.runtime}, driver {run.driver}: {run.ratio:.3f} of predicted ({run.layer})"
    )
    return 0


def kept(arguments: argparse.Namespace, runs: KeptRuns | None = None) -> int:
    """List, remove, export or import. Returns 0, or 2 for what is not there or cannot be read."""
    known = runs or KeptRuns()
    given = arguments.remove or arguments.export or arguments.taken
    try:
        if arguments.remove is not None:
            return (
                0
                if known.remove(arguments.remove)
                else _refuse(f"--remove: {arguments.remove!r} is not kept; allowed: an id that `kept` lists")
            )
        if arguments.export is not None:
            arguments.export.write_text(known.export(), encoding="utf-8")
            return 0
        if arguments.taken is not None:
            _say(f"{known.take_in(arguments.taken.read_bytes())} added")
            return 0
    except (OSError, KeptError) as error:
        return _refuse(f"{given}: {_told(error)}")
    listed = known.list()
    if not listed:
        _say("no run is kept; `keep REPORT` keeps one")
    for run in listed:
        _say(
            "  ".join(
                [run.id, run.created_at, run.gpu_id, run.runtime, run.driver, f"{run.ratio:.3f}", run.name]
            )
        )
    return 0


def _told(error: OSError | ReportError | KeptError | ValidationError) -> str:
    """Why a file is refused, in a line."""
    if isinstance(error, OSError):
        return f"can't be read or written: {error.strerror or error}"
    if isinstance(error, ReportError):
        return NO_REPORT[error.code].format(field=error.field or "report", detail=error.detail)
    if isinstance(error, KeptError):
        return NOT_KEPT[error.code].format(detail=error.detail)
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, ("scenario", *first["loc"])))
    return f"{where}: {shown(first['input'])} given; {first['msg']}"


def _refuse(text: str) -> int:
    print(text, file=sys.stderr)  # noqa: T201  # a command's words
    return 2


def _say(text: str) -> None:
    print(text)  # noqa: T201
