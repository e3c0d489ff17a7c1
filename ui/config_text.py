"""A config.json that somebody pasted or uploaded, read as text."""

import json
from typing import Any, Final

from planner.checks.codes import make
from planner.issues import Issue
from planner.units import MIB

MOST_BYTES: Final = MIB
"""Far above any model's config.json; a larger file is something else."""

FIELD: Final = "model.config"


def read_config(text: str | bytes) -> tuple[dict[str, Any] | None, tuple[Issue, ...]]:
    """The config as a dict, or why it is none. Never raises.

    Args:
        text: The pasted text or the uploaded bytes.
    """
    if len(text) > MOST_BYTES:
        return None, (make("too_large", FIELD, given=len(text), allowed=MOST_BYTES),)
    try:
        config = json.loads(text)
    except json.JSONDecodeError as problem:
        return None, (make("not_json", FIELD, line=problem.lineno, column=problem.colno),)
    except (UnicodeDecodeError, RecursionError, ValueError):
        return None, (make("not_json", FIELD, line=1, column=1),)
    if not isinstance(config, dict):
        return None, (make("wrong_type", FIELD, given=type(config).__name__, allowed="object"),)
    return config, ()
