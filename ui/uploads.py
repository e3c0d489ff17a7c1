"""What somebody pasted or uploaded, read as JSON; a config.json or a scenario file."""

from typing import Any, Final

from planner.checks.codes import make
from planner.issues import Issue
from planner.link import tolerant
from planner.scenario import to_document
from planner.validation import document_from_text
from ui.document import Document

MOST_MIB: Final = 5
"""Largest config.json or scenario file. The server takes larger files, for memory snapshots alone."""

CONFIG_FIELD = "model.config"


def read_json(raw: str | bytes, field: str) -> tuple[Any, tuple[Issue, ...]]:
    """The values of a JSON text, or why it has none. Never raises.

    Args:
        raw: Text, or the bytes of a file.
        field: The field that an issue belongs to.
    """
    try:
        text = raw if isinstance(raw, str) else raw.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        before = wrong.object[: wrong.start]
        line, column = before.count(b"\n") + 1, wrong.start - before.rfind(b"\n")
        return None, (make("not_json", field, line=line, column=column),)
    return document_from_text(text, field)


def read_config(raw: str | bytes) -> tuple[dict[str, Any] | None, tuple[Issue, ...]]:
    """A config.json as a dict, or why it is none."""
    values, issues = read_json(raw, CONFIG_FIELD)
    if issues:
        return None, issues
    if not isinstance(values, dict):
        return None, (make("wrong_type", CONFIG_FIELD, given=type(values).__name__, allowed="object"),)
    return values, ()


def read_scenario_file(raw: str | bytes) -> tuple[Document | None, tuple[Issue, ...]]:
    """The document of a scenario file, unreadable fields left out and named; None where none can be used."""
    values, issues = read_json(raw, "")
    if issues:
        return None, issues
    scenario, issues = tolerant(values)
    return (None if scenario is None else to_document(scenario)), issues
