"""What the groups of the form share: the document, its answer, the words, and what was said where."""

from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from planner.issues import Issue, Severity
from planner.plan_types import Plan
from ui.answers import Answer
from ui.document import Document, get
from ui.issue_words import issue_html
from ui.words import Words

TONE = {Severity.ERROR: "bad", Severity.WARNING: "tight", Severity.NOTE: "m"}


@dataclass(slots=True, kw_only=True)
class Desk:
    """One run of the form.

    Attributes:
        document: The question as it stands, edits of this run included.
        answer: Its answer.
        good: The newest answer without errors, None before there was one.
        words: The words of the user's language.
        shown: Issues that stand beside their field already.
    """

    document: Document
    answer: Answer
    good: Plan | None
    words: Words
    shown: set[Issue] = field(default_factory=set)

    @property
    def task(self) -> str:
        """The task, a word of the schema; `full` where the document has none."""
        return str(get(self.document, "task", "full"))

    @property
    def is_training(self) -> bool:
        """Whether the task trains."""
        return self.task != "serve"

    def get(self, path: str, default: Any = None) -> Any:
        """The document's value at a path."""
        return get(self.document, path, default)

    def effective(self, path: str, default: Any = None) -> Any:
        """The value in force: the document's, else what the runtime filled in, else the default."""
        given = self.get(path)
        if given is not None:
            return given
        return default if self.good is None else _attribute(self.good.resolved, path, default)

    def default_value(self, path: str) -> str | None:
        """What the runtime filled in for an absent field, None where it filled in nothing."""
        return None if self.good is None else dict(self.good.defaults).get(path)

    def issues_at(self, *fields: str) -> tuple[Issue, ...]:
        """Issues of these fields and of what lies inside them."""
        return tuple(
            issue for issue in self.answer.issues if any(_within(issue.field, name) for name in fields)
        )

    def has_error(self, *fields: str) -> bool:
        """Whether one of these fields stops the plan."""
        return any(issue.severity is Severity.ERROR for issue in self.issues_at(*fields))

    def messages(self, *fields: str) -> None:
        """Show the issues of these fields here, once; notes are left to the answer."""
        for issue in self.issues_at(*fields):
            if issue in self.shown or issue.severity is Severity.NOTE:
                continue
            self.shown.add(issue)
            self.say(issue)

    def say(self, issue: Issue) -> None:
        """Show one issue beside the widget above."""
        role = ' role="alert"' if issue.severity is Severity.ERROR else ""
        text = issue_html(issue, self.words)
        st.html(f'<div class="msg {TONE[issue.severity]}"{role}>{text}</div>')


def _within(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def _attribute(node: Any, path: str, default: Any) -> Any:
    for part in path.split("."):
        node = getattr(node, part, None)
        if node is None:
            return default
    return node
