"""The command line: `python -m planner COMMAND`, with plan, schema, models, model, gpus, score and more.

Exit code 0 for any answer, 2 for input that can't be used; each problem goes to stderr with field, given
value and what is allowed. Imports stay inside the commands, so that a plan starts in a fraction of a second.
"""

import argparse
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from planner.cli.parser import Command, command_parser
from planner.cli.problems import InputError, bad_scenario, scenario_errors, scenario_of
from planner.units import MIB

if TYPE_CHECKING:
    from planner.plan_types import Plan
    from planner.scenario import Scenario

BAD_INPUT: Final = 2
LARGEST_FILE_BYTES: Final = 64 * MIB
STDIN: Final = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Words after the program's name; the process's own where left out.

    Returns:
        The exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    options = command_parser(COMMANDS).parse_args(arguments)
    command: Command = options.command
    try:
        for text in command(options):
            print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; what is still buffered has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except InputError as problem:
        for text in problem.lines:
            print(text, file=sys.stderr)
        return BAD_INPUT
    return 0


def _plan(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.advice import advice_document, advice_lines, advice_on  # noqa: PLC0415
    from planner.cli.speed import speed_document, speed_lines, speed_of  # noqa: PLC0415

    answer, tables = _planned(options.file), load_tables()
    found, speed = advice_on(answer, tables), speed_of(answer, tables)
    if options.json:
        from planner.plan_json import plan_document  # noqa: PLC0415

        document = plan_document(answer) | {"speed": speed_document(speed), "advice": advice_document(found)}
        return [json.dumps(document, indent=2, ensure_ascii=False)]
    from planner.cli.report import plan_lines  # noqa: PLC0415

    return [*plan_lines(answer), *speed_lines(answer, speed, tables), *advice_lines(answer, found)]


def _cards_question(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.layouts import card_lines  # noqa: PLC0415

    plan = None if options.topic == "layouts" else _planned(options.file)
    scenario = read_scenario(options.file) if plan is None else plan.scenario
    with scenario_errors():
        return card_lines(options.topic, scenario, plan, load_tables(), as_json=options.json)


def _budget(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.budget import budget_lines  # noqa: PLC0415

    answer = _planned(options.file)
    if not answer.resolved.is_training:
        raise InputError("task: serve; allowed: pretrain, full, lora, qlora")
    if not answer.resolved.runtime.compile:
        raise InputError("runtime.compile: false; a memory budget is a compiler's, allowed: true")
    return budget_lines(answer.scenario, load_tables(), as_json=options.json)


def _schema(_: argparse.Namespace) -> Iterable[str]:
    from planner.scenario import json_schema  # noqa: PLC0415

    return [json.dumps(json_schema(), indent=2)]


def _models(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.catalog import model_table  # noqa: PLC0415

    tables = load_tables()
    return model_table(tables.models, tables.pipelines, options.filter)


def _model(options: argparse.Namespace) -> Iterable[str]:
    from datetime import UTC, datetime  # noqa: PLC0415

    from hardware_db.checkpoint import CheckpointError, model_document, read_checkpoint  # noqa: PLC0415
    from planner.cli.model import model_lines, refused  # noqa: PLC0415
    from planner.scenario import to_document  # noqa: PLC0415
    from planner.validation import parse_scenario  # noqa: PLC0415

    base = to_document(read_scenario(options.onto)) if options.onto else _empty(None)
    try:
        found = read_checkpoint(options.source)
    except CheckpointError as problem:
        raise InputError(refused(problem.code, problem.params)) from problem
    kept = base["model"] if found.config is None else {}
    block = {**kept, **model_document(found, datetime.now(UTC).date().isoformat())}
    scenario, issues = parse_scenario({**base, "model": block})
    if scenario is None or (scenario.model.stored is None and found.files):
        raise bad_scenario(issues)
    document = to_document(scenario)
    if options.onto or options.json:
        shown = document if options.onto else document["model"]
        return [json.dumps(shown, indent=2, ensure_ascii=False)]
    return model_lines(scenario, found.files, len(found.tensors))


def _gpus(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.catalog import gpu_table  # noqa: PLC0415

    return gpu_table(load_tables().gpus, options.filter)


def _score(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.accuracy.contradictions import contradictions  # noqa: PLC0415
    from planner.accuracy.predict import predictor  # noqa: PLC0415
    from planner.accuracy.score import as_json, score  # noqa: PLC0415
    from planner.accuracy.truth import RecordError, read_records  # noqa: PLC0415
    from planner.cli.score import contradiction_line, score_lines  # noqa: PLC0415

    try:
        records = read_records((name, _text(name)) for name in options.files)
    except RecordError as problem:
        raise InputError(str(problem)) from problem
    for pair in contradictions(records):
        print(contradiction_line(pair), file=sys.stderr)
    result = score(records, predictor(load_tables()))
    if options.json:
        return [json.dumps(as_json(result), indent=1, ensure_ascii=False)]
    return score_lines(result)


def _link(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.estimate import plan  # noqa: PLC0415
    from planner.issues import ScenarioError  # noqa: PLC0415
    from planner.link import encode  # noqa: PLC0415

    scenario = read_scenario(options.file)
    with scenario_errors():
        text = encode(scenario)
    try:
        plan(scenario, load_tables())
    except ScenarioError as refusal:
        # The page opens it and helps to mend it, so there is a link and a word about it.
        for problem in bad_scenario(refusal.issues).lines:
            print(problem, file=sys.stderr)
    return [text]


def _diagnose(options: argparse.Namespace) -> Iterable[str]:
    from planner.diagnose import diagnose, read  # noqa: PLC0415
    from planner.diagnose.scan import decoded  # noqa: PLC0415

    plan = _planned(options.scenario) if options.scenario else None
    try:
        if options.file == STDIN:
            reading = read(decoded(_blocks(sys.stdin.buffer)))
        else:
            with Path(options.file).open("rb") as stream:
                reading = read(decoded(_blocks(stream)))
    except OSError as problem:
        raise InputError(f"{options.file}: can't be read: {problem.strerror or problem}") from problem
    found = diagnose(reading, plan)
    if options.json:
        from planner.diagnose.document import as_json  # noqa: PLC0415

        return [json.dumps(as_json(found), indent=2, ensure_ascii=False)]
    from planner.cli.diagnose import diagnosis_lines, waiting_lines  # noqa: PLC0415

    if plan is None:
        return diagnosis_lines(found)
    from hardware_db import load_tables  # noqa: PLC0415

    return [*diagnosis_lines(found), *waiting_lines(plan, load_tables(), found)]


def _claims(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.claims import chosen, claim_lines, document, rule_lines  # noqa: PLC0415

    try:
        names = chosen(options.rows)
    except LookupError as unknown:
        raise InputError(f"claims: no row {unknown}; allowed: g1 to g36, e1 to e6, f1") from unknown
    plan = _planned(options.scenario) if options.scenario else None
    tables = load_tables()
    if options.json:
        return [json.dumps(document(names, plan, tables), indent=2, ensure_ascii=False)]
    if plan is not None and not options.rows:
        return rule_lines(plan, tables)
    rules = rule_lines(plan, tables) if plan is not None else ()
    return [*claim_lines(names, tables), *rules]


def _export(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.files import export_lines, refused_export, report_words  # noqa: PLC0415
    from planner.exports.catalog import REPORT, export, offered  # noqa: PLC0415
    from planner.exports.report import report  # noqa: PLC0415
    from planner.exports.types import ExportRefusedError  # noqa: PLC0415

    answer, tables = _planned(options.file), load_tables()
    if options.format is None:
        files, refused = offered(answer, tables)
        names = [
            f"{file.target}  {file.file_name}" for file in (*files, report(answer, report_words(answer)))
        ]
        return [*names, *(refused_export(target, problem) for target, problem in refused)]
    try:
        if options.format == REPORT:
            file = report(answer, report_words(answer))
        else:
            file = export(answer, options.format, tables)
    except ExportRefusedError as problem:
        raise InputError(refused_export(options.format, problem)) from problem
    for text in export_lines(file):
        print(text, file=sys.stderr)
    return [file.text.removesuffix("\n")]


def _import(options: argparse.Namespace) -> Iterable[str]:
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.files import import_lines, refused_import  # noqa: PLC0415
    from planner.imports import FORMATS, ImportRefusedError, import_text  # noqa: PLC0415
    from planner.scenario import to_document  # noqa: PLC0415
    from planner.validation import parse_scenario  # noqa: PLC0415

    if options.format is not None and options.format not in FORMATS:
        raise InputError(f"format: {options.format!r}; allowed: {', '.join(FORMATS)}")
    base = to_document(read_scenario(options.onto)) if options.onto else _empty(options.gpu)
    if options.model:
        if base["model"] != {"id": options.model}:
            base.pop("name", None)
        base["model"] = {"id": options.model}
    try:
        found = import_text(_text(options.file), base, options.format, load_tables().models)
    except ImportRefusedError as problem:
        raise InputError(f"{options.file}: {refused_import(problem)}") from problem
    scenario, issues = parse_scenario(found.document)
    if scenario is None:
        raise bad_scenario(issues)
    for text in import_lines(found):
        print(text, file=sys.stderr)
    return [json.dumps(to_document(scenario), indent=2, ensure_ascii=False)]


def _search(options: argparse.Namespace) -> Iterable[str]:
    from datetime import UTC, datetime  # noqa: PLC0415

    from hardware_db import load_tables  # noqa: PLC0415
    from planner.cli.search import reply_lines  # noqa: PLC0415

    question = read_scenario(options.file)
    try:
        with scenario_errors():
            return reply_lines(options, question, load_tables(), datetime.now(UTC).date())
    except ValueError as problem:
        raise InputError(str(problem)) from problem


def _empty(gpu: str | None) -> dict[str, Any]:
    """A question about nothing yet: what a file is read onto where no other is given."""
    devices = [{"gpu": gpu or "unknown", "count": 1}]
    return {"version": 1, "task": "full", "model": {}, "hardware": {"devices": devices}}


def _planned(name: str) -> "Plan":
    from hardware_db import load_tables  # noqa: PLC0415
    from planner.estimate import plan  # noqa: PLC0415

    with scenario_errors():
        return plan(read_scenario(name), load_tables())


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    while block := stream.read(MIB):
        yield block


def read_scenario(name: str) -> "Scenario":
    """The question in a file, or in the standard input for `-`.

    Raises:
        InputError: It cannot be read or is no question; one line for each problem.
    """
    return scenario_of(_text(name))


def _text(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read(LARGEST_FILE_BYTES + 1) if name == STDIN else _file(Path(name))
    except OSError as problem:
        raise InputError(f"{name}: can't be read: {problem.strerror or problem}") from problem
    if len(raw) > LARGEST_FILE_BYTES:
        raise InputError(f"{name}: more than {LARGEST_FILE_BYTES // MIB} MiB, the most that is read")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"{name}: not UTF-8 text: byte {problem.start}") from problem


def _file(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(LARGEST_FILE_BYTES + 1)


COMMANDS: Final[dict[str, Command]] = {
    "plan": _plan,
    "layouts": _cards_question,
    "elastic": _cards_question,
    "trial": _cards_question,
    "budget": _budget,
    "schema": _schema,
    "models": _models,
    "model": _model,
    "gpus": _gpus,
    "score": _score,
    "link": _link,
    "diagnose": _diagnose,
    "claims": _claims,
    "export": _export,
    "search": _search,
    "import": _import,
}


if __name__ == "__main__":
    sys.exit(main())
