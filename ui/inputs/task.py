"""The task."""

from typing import Any

import streamlit as st

from ui.document import Document, get
from ui.inputs.chosen import settled
from ui.inputs.desk import Desk
from ui.pictures import fitted
from ui.state import bind, stash
from ui.tasks import TASKS, with_task


def draw(desk: Desk) -> None:
    """One of five tasks."""
    words = desk.words
    with st.container(key="task"):
        st.segmented_control(
            words("field.task.label"),
            TASKS,
            required=True,
            format_func=lambda task: words(f"task.{task}.short"),
            key=bind("task_choice", desk.task, _write),
        )
    desk.messages("task")


def _write(document: Document, task: Any) -> Document:
    serves = get(document, "task") == "serve"
    return settled(fitted(with_task(document, task, stash()), sized=serves != (task == "serve")))
