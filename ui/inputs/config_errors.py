"""Whether a config describes a model."""

from typing import Any, Final

from planner.issues import Issue, Severity
from ui.answers import answer
from ui.document import Document

ISSUES: Final = "config_issues"
"""Session key of what the last pasted config was refused for."""


def config_errors(config: dict[str, Any]) -> tuple[Issue, ...]:
    """What keeps a config from being a model: the errors of its own fields."""
    probe: Document = {
        "version": 1,
        "task": "pretrain",
        "model": {"config": config},
        "hardware": {"devices": [{"gpu": "unknown"}]},
    }
    return tuple(
        issue
        for issue in answer(probe).issues
        if issue.severity is Severity.ERROR and issue.field.startswith("model")
    )
