"""Files of other programs on the Plan page: made once opened, brought in by pasting, remarked on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hardware_db import load_tables
from planner.cli.files import REFUSED_EXPORTS, REFUSED_IMPORTS, REMARKS
from planner.exports.catalog import TARGETS, offered
from planner.exports.report import COLUMNS, HEADINGS, report
from planner.imports import FORMATS, REASONS, ImportRefusedError, Remark, import_text
from tests.planner.exports.cases import CASES, planned
from tests.ui.conftest import checked, html
from ui import bring, files
from ui.examples import default_document
from ui.words import Words, words_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest


@pytest.fixture(scope="module")
def words() -> Words:
    return words_for("en")


def document_of(page: AppTest) -> dict[str, object]:
    found: dict[str, object] = page.session_state["scenario_document"]
    return found


def test_nothing_is_made_before_the_section_is_opened(
    open_page: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise AssertionError("made too early")

    monkeypatch.setattr(files, "_files", refuse)
    page = open_page()
    assert not page.exception
    assert any(box.label == words_for("en")("export.title") for box in page.expander)


def test_opened_it_offers_what_the_plan_can_have(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    page.session_state["export"] = True
    page = checked(page.run())
    menu = page.selectbox(key=files.CHOICE)
    assert "Report (Markdown)" in menu.options
    assert any("TrainingArguments" in option for option in menu.options)
    page = checked(menu.select_index(menu.options.index("Report (Markdown)")).run())
    assert any("```mermaid" in block.value for block in page.code)


def test_a_pasted_config_becomes_the_question(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    text = (
        "TrainingArguments(per_device_train_batch_size=7, bf16=True, gradient_checkpointing=True, bananas=1)"
    )
    page = checked(page.text_area(key="import_text").set_value(text).run())
    made = document_of(page)
    assert made["training"]["micro_batch"] == 7  # type: ignore[index]
    assert made["model"] == default_document()["model"]
    assert "<code>bananas</code>" in html(page)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: &x 1\nb: *x", "Aliases"),
        ("base_model: m\nmicro_batch_size: 99999999", "1000000"),
        ('{"zero_optimization": {"stage": 2}, "offload_params_path": "/x"}', "nvme_path"),
        ("base_model: m\nrelora: <script>alert(1)</script>", "&lt;script&gt;"),
    ],
)
def test_what_is_wrong_is_said(open_page: Callable[..., AppTest], text: str, wanted: str) -> None:
    page = checked(open_page().text_area(key="import_text").set_value(text).run())
    assert wanted in html(page).replace(",", "")
    assert "<script>" not in html(page)


def test_a_refused_text_changes_nothing(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    before = document_of(page)
    page = checked(page.text_area(key="import_text").set_value("a: &x 1\nb: *x").run())
    assert document_of(page) == before


def test_every_code_has_its_words(words: Words) -> None:
    keys = [f"export.target.{target}" for target in TARGETS]
    keys += [f"export.refused.{code}" for code in REFUSED_EXPORTS if code != "target_unknown"]
    keys += [f"import.refused.{code}" for code in REFUSED_IMPORTS]
    keys += [f"import.reason.{reason}" for reason in REASONS]
    keys += [f"import.source.{source}" for source in FORMATS]
    keys += [f"report.heading.{name}" for name in HEADINGS]
    keys += [f"report.column.{name}" for name in COLUMNS]
    assert [key for key in keys if not words.has(key)] == []
    assert [
        c for c in REMARKS if not (words.has(f"export.remark.{c}") or words.has(f"flags.remark.{c}"))
    ] == []


def test_every_remark_and_refusal_of_every_case_is_worded(words: Words) -> None:
    for name in CASES:
        made, refused = offered(planned(name), load_tables())
        assert all(files.remark(code, value, words) for file in made for code, value in file.remarks)
        assert all(files.refusals(refused, words))
        assert len(files.refusals(refused, words)) <= len(refused)
        assert report(planned(name), files.report_words(planned(name), words)).text


def test_every_reason_is_worded_with_and_without_its_parameters(words: Words) -> None:
    for reason, params in REASONS.items():
        for values in (tuple((name, "7") for name in params), tuple((name, None) for name in params)):
            assert bring.remark(Remark(key="k", value="v", reason=reason, params=values), words)


def test_every_refusal_is_worded(words: Words) -> None:
    for text in ("", "- 1", "a: [", "{", "a: 1\na: 2", "vllm serve 'x"):
        with pytest.raises(ImportRefusedError) as refused:
            import_text(text, default_document())
        assert words.html(f"import.refused.{refused.value.code}", **refused.value.params)
