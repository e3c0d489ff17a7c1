"""From a plain document to a checked question, with every problem tied to its field."""

import json

from pydantic import ValidationError

from planner.checks.codes import make
from planner.checks.plain import plain
from planner.checks.schema_errors import allowed_at, schema_issues
from planner.checks.words import shown
from planner.issues import Issue
from planner.scenario import SCHEMA_VERSION, Scenario


def parse_scenario(document: object) -> tuple[Scenario | None, tuple[Issue, ...]]:
    """Read a document as strictly as the published JSON schema says; never raises.

    Args:
        document: What a JSON reader returned, or the same built in Python (tuples and mappings count as lists
            and objects).

    Returns:
        The scenario and no issues, or None and one issue per field at fault.
    """
    values, found = plain(document)
    if found:
        return None, tuple(_with_allowed(issue) for issue in found)
    if not isinstance(values, dict):
        return None, (make("wrong_type", "", given=type(values).__name__, allowed="object"),)
    version = values.get("version")
    if isinstance(version, bool):
        return None, (
            make("wrong_type", "version", given=shown(version), allowed=f"integer {SCHEMA_VERSION}"),
        )
    if isinstance(version, int) and version > SCHEMA_VERSION:
        return None, (make("newer_version", "version", given=version, allowed=SCHEMA_VERSION),)
    try:
        return Scenario.model_validate_json(json.dumps(values), strict=True), ()
    except ValidationError as error:
        return None, schema_issues(error, values)


def _with_allowed(issue: Issue) -> Issue:
    """An issue of the plain walk, told what the schema allows in that place."""
    params = dict(issue.params)
    if params.get("allowed") != "":
        return issue
    path = tuple(int(part) if part.isdecimal() else part for part in issue.field.split("."))
    return make(issue.code, issue.field, **(params | {"allowed": allowed_at(path)}))
