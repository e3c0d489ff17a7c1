"""Report files: written whole or not at all, and read even where they were cut short or come from a newer version."""

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from profiler.documents import Remark
from profiler.report import MAX_REPORT_BYTES, REPORT_VERSION, Report, ReportError, dump_report, load_report

MOST_DROPPED: Final = 200
"""A document with more unknown values than this is no report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a report went.

    Attributes:
        path: The file, None if it could be written nowhere.
        problem: Why it is not the file that was asked for, empty if it is.
    """

    path: Path | None
    problem: str = ""


def write_report(report: Report, path: Path) -> Written:
    """Write a report whole: to a file beside it, then moved into place, so a full disk leaves no half of one.

    Where that fails, the system's temporary folder is tried, since the measurement may have taken hours.
    """
    text = dump_report(report)
    try:
        _write_whole(text, path)
    except OSError as error:
        problem = f"{type(error).__name__}: {error}"
        spare = Path(tempfile.gettempdir(), f"headroom-{os.getpid()}-{path.name}")
        try:
            _write_whole(text, spare)
        except OSError:
            return Written(path=None, problem=problem)
        return Written(path=spare, problem=problem)
    return Written(path=path)


def _write_whole(text: str, path: Path) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise


def open_report(data: bytes) -> Report:
    """Read a report and keep what is there: of a newer version what this one knows, of a cut file what came before.

    What was left out is said in the report's remarks (`report_newer`, `report_cut`).

    Raises:
        ReportError: As for `profiler.report.load_report`, where nothing of use is left.
    """
    try:
        return load_report(data)
    except ReportError as error:
        if error.code == "not_json":
            return _open_cut(data, error)
        if error.code == "wrong_version":
            return _open_newer(json.loads(data), error)
        raise


def _open_newer(document: dict[str, Any], error: ReportError) -> Report:
    version = document.get("version")
    if type(version) is not int or version <= REPORT_VERSION:
        raise error
    report, dropped = _what_is_known({**document, "version": REPORT_VERSION}, error)
    return _remarked(report, Remark(code="report_newer", params={"version": version, "dropped": dropped}))


def _open_cut(data: bytes, error: ReportError) -> Report:
    document = whole_values(data[:MAX_REPORT_BYTES].decode("utf-8", errors="ignore"))
    if not isinstance(document, dict) or document.get("kind") != "headroom_measurement":
        raise error
    newer = isinstance(document.get("version"), int) and document["version"] > REPORT_VERSION
    report, _ = _what_is_known(document | ({"version": REPORT_VERSION} if newer else {}), error)
    last = list(document)[-1]
    return _remarked(report, Remark(code="report_cut", params={"after": last, "bytes": len(data)}))


def _remarked(report: Report, remark: Remark) -> Report:
    return report.model_copy(update={"remarks": (*report.remarks, remark)})


def _what_is_known(document: dict[str, Any], error: ReportError) -> tuple[Report, int]:
    """The document less what this version has no place for, and how many values that were."""
    dropped = 0
    while True:
        try:
            return Report.model_validate_json(json.dumps(document, allow_nan=False)), dropped
        except ValidationError as problem:
            unknown = [tuple(one["loc"]) for one in problem.errors(include_url=False, include_input=False)]
        except (ValueError, RecursionError) as problem:
            raise error from problem
        for place in sorted(set(unknown), key=lambda loc: tuple(map(str, loc)), reverse=True):
            dropped += 1
            if dropped > MOST_DROPPED or not _drop(document, place):
                raise error


def _drop(document: Any, place: tuple[int | str, ...]) -> bool:
    """Take a value out, or what holds it where it is one of a list or the field is needed. False if it is not there."""
    node = document
    for key in place[:-1]:
        try:
            node = node[key]
        except (KeyError, IndexError, TypeError):
            return len(place) > 1 and _drop(document, place[:1])
    last = place[-1]
    if isinstance(node, dict) and last in node:
        del node[last]
        return True
    return len(place) > 1 and _drop(document, place[:1])


def whole_values(text: str) -> Any:
    """The values of a JSON object or list that were written to their end before the text breaks off.

    Cut at the last comma that stands in the object itself, or in a list right inside it. None if nothing is whole.
    """
    outer, inner = _last_commas(text)
    for cut, close in ((inner, "]}"), (outer, "}")):
        if cut > 0:
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(text[:cut] + close)
    return None


def _last_commas(text: str) -> tuple[int, int]:
    """Positions of the last comma at depth one, and, if later, of the last one in an open list at depth two."""
    stack: list[str] = []
    outer = inner = 0
    in_string = escaped = False
    for place, letter in enumerate(text):
        if in_string:
            in_string = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            in_string = True
        elif letter in "[{":
            stack.append(letter)
        elif letter in "]}" and stack:
            stack.pop()
        elif letter == "," and len(stack) == 1:
            outer, inner = place, 0
        elif letter == "," and stack == ["{", "["]:
            inner = place
    return outer, inner
