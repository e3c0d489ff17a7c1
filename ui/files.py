"""The open plan as files of other programs: chosen, looked at, copied, downloaded."""

import json
import re
from functools import lru_cache
from html import unescape
from typing import Final

import streamlit as st

from planner.exports.catalog import REPORT, offered
from planner.exports.report import COLUMNS, HEADINGS, ReportWords, report
from planner.exports.types import Export, ExportRefusedError
from planner.ledger import Category
from planner.plan_types import Plan
from planner.scenario import to_document
from ui import parts, verdict
from ui.answers import answer, tables
from ui.document import Document, canonical
from ui.folded import folded
from ui.issue_words import field_name, issue_text
from ui.numbers import DASH
from ui.words import Safe, Words

CHOICE: Final = "export_choice"
TAG: Final = re.compile(r"<[^>]+>")
LANGUAGES: Final = {
    ".json": "json", ".yaml": "yaml", ".py": "python", ".sh": "bash", ".md": "markdown", ".pbtxt": None,
}  # fmt: skip
Refusal = tuple[str, ExportRefusedError]


def draw_files(document: Document, plan: Plan, words: Words) -> None:
    """A closed section; the files are made once it is opened."""
    box = folded("export", words)
    if box is None:
        return
    with box:
        made, refused = _files(canonical(document))
        files = {file.target: file for file in (*made, report(plan, report_words(plan, words)))}
        st.html(f'<div class="p m">{words.html("export.note")}</div>')
        chosen = st.selectbox(
            words("export.choose"),
            list(files),
            format_func=lambda target: words(f"export.target.{target}"),
            key=CHOICE,
            width=340,
        )
        _file(files[chosen if chosen in files else REPORT], words)
        if refused:
            items = parts.bullets(refusals(refused, words))
            st.html(f'<div class="p m">{words.html("export.others")}{items}</div>')


@lru_cache(maxsize=64)
def _files(text: str) -> tuple[tuple[Export, ...], tuple[Refusal, ...]]:
    found = answer(json.loads(text)).plan
    return ((), ()) if found is None else offered(found, tables())


def _file(file: Export, words: Words) -> None:
    st.code(file.text, language=LANGUAGES.get(file.file_name[file.file_name.rfind(".") :]), height=360)
    if file.remarks:
        items = parts.bullets(remark(code, value, words) for code, value in file.remarks)
        st.html(f'<div class="p m">{items}</div>')
    st.download_button(
        words("export.download", name=file.file_name),
        data=file.text,
        file_name=file.file_name,
        mime=file.mime,
        key="export_download",
        icon=":material/download:",
        on_click="ignore",
    )


def remark(code: str, value: str, words: Words) -> Safe:
    """What to see to in a file."""
    named = words(f"format.{value}") if words.has(f"format.{value}") else value
    if code == "no_flag":
        named = field_name(value, words)
    key = f"export.remark.{code}" if words.has(f"export.remark.{code}") else f"flags.remark.{code}"
    return words.html(key, value=named)


def refusals(refused: tuple[Refusal, ...], words: Words) -> list[Safe]:
    """Why a plan has no such files; those of other frameworks in one line."""
    others = [target for target, problem in refused if problem.code == "runtime"]
    lines = [refusal(target, problem, words) for target, problem in refused if problem.code != "runtime"]
    for _, problem in refused:
        if problem.code == "runtime":
            names = words.listed(words(f"export.target.{target}") for target in others)
            given = _named(problem.given, words)
            return [*lines, words.html("export.refused.runtime", target=names, given=given)]
    return lines


def refusal(target: str, problem: ExportRefusedError, words: Words) -> Safe:
    """Why a plan has no such file."""
    code = f"{problem.code}_open" if problem.code == "field" and not problem.allowed else problem.code
    return words.html(
        f"export.refused.{code}",
        target=words(f"export.target.{target}"),
        field=field_name(problem.field, words),
        given=_named(problem.given, words),
        allowed=problem.allowed,
    )


def _named(value: str, words: Words) -> str:
    return words(f"runtime.{value}") if words.has(f"runtime.{value}") else value or DASH


def _plain(markup: str) -> str:
    return unescape(TAG.sub("", markup))


def report_words(plan: Plan, words: Words) -> ReportWords:
    """The report in the page's language."""
    return ReportWords(
        title=plan.scenario.name or _plain(verdict.scenario_sentence(plan, words)),
        verdict=_plain(verdict.headline(plan, words)),
        headings={name: words(f"report.heading.{name}") for name in HEADINGS},
        columns={name: words(f"report.column.{name}") for name in COLUMNS},
        category=lambda category: words(f"category.{Category(category).value}"),
        entry=lambda name: words(f"entry.{name}"),
        remarks=tuple(issue_text(issue, words) for issue in plan.issues),
        question=json.dumps(to_document(plan.scenario), indent=2, ensure_ascii=False),
    )
