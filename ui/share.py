"""The Share menu: the link, and the scenario as a file to keep and to bring back."""

import json
from typing import Final

import streamlit as st

from planner.issues import Issue, Severity
from ui.issue_words import issue_html
from ui.pages.frame import Frame
from ui.state import PARAM, link_text, load
from ui.uploads import MOST_MIB, read_scenario_file

WIDTH_PX: Final = 320
_ISSUES: Final = "file_issues"


def draw_share(frame: Frame) -> None:
    """A popover with the link to copy, a download, and an upload."""
    words = frame.words
    with (
        st.popover(words("share.label"), type="tertiary", icon=":material/ios_share:", key="share"),
        st.container(width=WIDTH_PX),
    ):
        st.html(f'<div class="p">{words.html("share.link")}</div>')
        st.code(_address(), language=None, wrap_lines=True, height=90)
        st.download_button(
            words("share.download"),
            data=json.dumps(frame.desk.document, indent=2, ensure_ascii=False) + "\n",
            file_name="headroom-scenario.json",
            mime="application/json",
            key="scenario_download",
            on_click="ignore",
        )
        st.file_uploader(
            words("share.upload"),
            key="scenario_file",
            on_change=_take,
            max_upload_size=MOST_MIB,
        )
        issues: tuple[Issue, ...] = st.session_state.get(_ISSUES, ())
        for issue in issues:
            tone = "bad" if issue.severity is Severity.ERROR else "tight"
            st.html(f'<div class="msg {tone}" role="alert">{issue_html(issue, words)}</div>')


def _address() -> str:
    base = (st.context.url or "").partition("?")[0]
    text = link_text()
    return f"{base}?{PARAM}={text}" if text else base


def _take() -> None:
    upload = st.session_state["scenario_file"]
    if upload is None:
        return
    document, issues = read_scenario_file(upload.getvalue())
    st.session_state[_ISSUES] = issues
    if document is not None:
        load(document)
