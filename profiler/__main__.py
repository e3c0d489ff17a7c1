"""The command line: `run FILE`, `wrap -- COMMAND` and `watch PID|GPU` measure, `trace` and `snapshot` read."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from hardware_db import load_tables
from planner.__main__ import read_scenario
from planner.cli.problems import InputError, bad_scenario
from planner.estimate import plan
from planner.issues import ScenarioError
from planner.plan_types import Plan
from planner.scenario import Scenario
from profiler import keeping, outside
from profiler.allocator.settings import AllocatorSettings, parse_settings
from profiler.compare import compare
from profiler.documents import DeviceKind, Options
from profiler.ending import ended_from_outside
from profiler.host_memory import available_bytes
from profiler.job_types import ExitReason, Snapshot
from profiler.machine import machine_devices
from profiler.nvml import Nvml
from profiler.partial import partial_report
from profiler.plan_request import Prepared, prepare
from profiler.rank_place import rank_place
from profiler.report import Report
from profiler.runner import Job, Runner
from profiler.snapshot.command import report
from profiler.streaming import streamed
from profiler.text_report import comparison_lines, remark_line
from profiler.trace.answer import answer
from profiler.trace.documents import TraceOptions
from profiler.trace.module_request import ask_module, plain_question
from profiler.trace.module_source import SourceError, parse_source
from profiler.trace.request import Asked, ask
from profiler.trace.runner import TraceRunner
from profiler.trace.text import as_json, lines

LOOK_S = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 measured, 1 failed, 2 wrong input, 3 refused."""
    parser = argparse.ArgumentParser(prog="python -m profiler", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure one scenario file")
    run.add_argument("file", help="scenario file, - for the standard input")
    run.add_argument("--json", type=Path, metavar="OUT", help="write the report here")
    run.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    run.add_argument("--steps", type=int, default=2, help="measured steps (default: 2)")
    run.add_argument("--threads", type=int, help="CPU threads")
    run.add_argument("--timeout", type=float, default=900.0, metavar="S", help="seconds (default: 900)")
    run.add_argument("--insist", action="store_true", help="run although the plan says it won't fit")
    traced = commands.add_parser("trace", help="follow one step of a scenario file on shape-only tensors")
    traced.add_argument("file", nargs="?", help="scenario file, - for the standard input")
    traced.add_argument(
        "--module",
        metavar="PACKAGE.MODULE:FACTORY",
        help="your own model: a function that returns (model, example inputs or a function giving the loss)",
    )
    traced.add_argument("--input", metavar="JSON", help="arguments of the factory by name, a JSON object")
    traced.add_argument("--gpu", metavar="ID", help="with --module and no file: the card")
    traced.add_argument("--json", action="store_true", help="print the answer as JSON")
    traced.add_argument(
        "--instant", action="store_true", help="run few layers and extend exactly, or all and say why"
    )
    traced.add_argument("--rank", type=int, default=0, metavar="R", help="rank of a divided job (default: 0)")
    traced.add_argument("--allocator", metavar="CONF", help="as PYTORCH_ALLOC_CONF")
    traced.add_argument("--timeout", type=float, default=600.0, metavar="S", help="seconds (default: 600)")
    seen = commands.add_parser("snapshot", help="read a memory snapshot, memory_stats or memory_summary")
    seen.add_argument("file", help="file, - for the standard input")
    seen.add_argument("--json", action="store_true", help="print it as JSON")
    outside.add_commands(commands)
    keeping.add_commands(commands)
    parsed = parser.parse_args(arguments)
    try:
        return COMMANDS[parsed.command](parsed)
    except InputError as problem:
        _say("\n".join(problem.lines))
        return 2


def _trace(arguments: argparse.Namespace) -> int:
    try:
        settings = None if arguments.allocator is None else parse_settings(arguments.allocator)
        asked = _ask(arguments, settings)
        given = {"timeout_s": arguments.timeout, "instant": arguments.instant}
        options = asked.options.model_copy(update=given)
        options = TraceOptions.model_validate(options.model_dump())
    except ValueError as error:
        _say(_option_errors(error))
        return 2
    if asked.refused:
        for remark in asked.refused:
            _say(remark_line(remark))
        return 3
    job = TraceRunner().start(asked.scenario, asked.config, options)
    seen = _wait(job)
    if seen.reason is not ExitReason.DONE or job.trace is None:
        _explain(seen)
        return 3 if seen.reason is ExitReason.REFUSED else 1
    found = answer(job.trace, asked.settings, asked.capacity_bytes)
    if arguments.json:
        print(json.dumps(as_json(job.trace, found, asked.capacity_bytes)))
    else:
        print("\n".join(lines(job.trace, found, asked.capacity_bytes)))
    return 0


def _ask(arguments: argparse.Namespace, settings: AllocatorSettings | None) -> Asked:
    """The scenario's model, or a user's own with the scenario's settings."""
    if arguments.module is None:
        if arguments.file is None:
            raise SourceError("FILE: nothing given; a scenario file or --module asked for")
        made = _plan(arguments.file)
        return ask(made, _capability(made), settings, arguments.rank)
    if arguments.rank:
        raise SourceError(
            f"--rank: {arguments.rank} given; a model of your own is followed on one card, rank 0"
        )
    source = parse_source(arguments.module, arguments.input, Path.cwd())
    if arguments.file is None:
        made = _checked(plain_question(arguments.gpu or "unknown"))
    elif arguments.gpu is None:
        made = _plan(arguments.file)
    else:
        raise SourceError(f"--gpu: {arguments.gpu!r} given; the file names the card")
    return ask_module(made, _capability(made), source, settings)


def _snapshot(arguments: argparse.Namespace) -> int:
    print(report(arguments.file, json_wanted=arguments.json))
    return 0


def _keep(arguments: argparse.Namespace) -> int:
    return keeping.keep(arguments, _plan_of)


def _plan_of(report: Report) -> Plan:
    """The plan of the very question that was measured."""
    model = {**(report.scenario.get("model") or {}), "config": report.config}
    return _checked({**report.scenario, "model": model})


def _wrap(arguments: argparse.Namespace) -> int:
    return outside.wrap_command(arguments, None if arguments.scenario is None else _plan(arguments.scenario))


def _run(arguments: argparse.Namespace) -> int:
    made = _plan(arguments.file)
    device: DeviceKind = arguments.device or ("cuda" if machine_devices(Nvml()).devices else "cpu")
    try:
        options = Options(
            device=device,
            steps=arguments.steps,
            threads=arguments.threads,
            timeout_s=arguments.timeout,
            insist=arguments.insist,
        )
    except ValueError as error:
        _say(_option_errors(error))
        return 2
    place = rank_place()
    prepared = prepare(made, options.device, _free_bytes(options.device), place)
    if prepared.refused or (prepared.too_large is not None and not options.insist):
        for remark in (*prepared.refused, *filter(None, [prepared.too_large])):
            _say(remark_line(remark))
        return 3
    return _follow(arguments, made, prepared, options, 0 if place is None else place.rank)


def _follow(
    arguments: argparse.Namespace, made: Plan, prepared: Prepared, options: Options, rank: int
) -> int:
    """Run to the end and say what came of it; of several ranks the first one does."""
    job = Runner().start(
        prepared.scenario, options, config=prepared.config, predicted_bytes=prepared.predicted_bytes
    )
    with ended_from_outside(job), streamed(job, prepared, options, arguments.file, shown=rank == 0):
        seen = _wait(job)
    if seen.reason is not ExitReason.DONE or seen.report is None:
        _explain(seen)
        kept = partial_report(seen, prepared.scenario, prepared.config, options, prepared.predicted_bytes)
        if kept is not None and arguments.json is not None and rank == 0:
            outside.save(kept, arguments.json)
        return 3 if seen.reason is ExitReason.REFUSED else 1
    failed = seen.report.outcome == "failed"
    if rank != 0:
        return int(failed)
    if arguments.json is not None:
        outside.save(seen.report, arguments.json)
    print("\n".join(comparison_lines(seen.report, compare(made.worst.ledger, seen.report))))
    return int(failed)


def _wait(job: Job) -> Snapshot:
    """Follow a job to its end; Ctrl-C ends it."""
    try:
        while not job.wait(LOOK_S):
            _show_progress(job.snapshot())
    except KeyboardInterrupt:
        job.stop()
        job.wait()
    return job.snapshot()


def _plan(name: str) -> Plan:
    try:
        return plan(read_scenario(name), load_tables())
    except ScenarioError as refusal:
        raise bad_scenario(refusal.issues) from refusal


def _capability(made: Plan) -> tuple[int, int] | None:
    """CUDA compute capability of the fullest card, None where it has none or only its size is known."""
    card = load_tables().gpus.get(made.worst.gpu_id)
    return None if card is None else card.compute_capability


def _checked(document: dict[str, Any]) -> Plan:
    try:
        return plan(Scenario.model_validate(document), load_tables())
    except ScenarioError as refusal:
        raise bad_scenario(refusal.issues) from refusal


def _option_errors(error: ValueError) -> str:
    """Wrong options, one line each: the option, what was given, what is asked."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "\n".join(
        f"--{'.'.join(map(str, problem['loc'])).removesuffix('_s')}: {problem['input']!r} given; "
        f"{problem['msg'].lower()}"
        for problem in error.errors()
    )


def _free_bytes(device: str) -> int | None:
    if device == "cpu":
        return available_bytes()
    devices = machine_devices(Nvml()).devices
    return devices[0].free_bytes if devices else None


def _show_progress(seen: Snapshot) -> None:
    if seen.progress is not None and sys.stderr.isatty():
        where = seen.progress.phase or seen.progress.code
        _say(f"\r{seen.progress.fraction:4.0%} {where:<16}", end="")


def _explain(seen: Snapshot) -> None:
    ended = f" ({seen.signal or seen.exit_code})" if seen.exit_code else ""
    _say(f"{seen.reason}{ended}: {seen.detail}".removesuffix(": "))
    for remark in seen.remarks:
        _say(remark_line(remark))
    for line in seen.stderr[-20:]:
        _say(line)


def _say(text: str, end: str = "\n") -> None:
    print(text, file=sys.stderr, end=end, flush=True)


COMMANDS: Final = {
    "run": _run,
    "wrap": _wrap,
    "watch": outside.watch,
    "trace": _trace,
    "snapshot": _snapshot,
    "keep": _keep,
    "kept": keeping.kept,
}


if __name__ == "__main__":
    sys.exit(main())
