"""The curve of recomputation on the Plan page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from planner.recompute import SHARES, curve
from tests.ui.conftest import charts, checked, html
from ui.answers import answer, tables
from ui.charts.recompute_curve import alternative, recompute_curve
from ui.document import put_all
from ui.examples import default_document
from ui.recompute import row
from ui.words import words_for

if TYPE_CHECKING:
    from ui.document import Document


def _section() -> None:
    import streamlit as st  # noqa: PLC0415

    from ui.recompute import draw_recompute  # noqa: PLC0415

    draw_recompute(st.session_state["asked"])


def opened(document: Document, *, is_open: bool = True) -> AppTest:
    page = AppTest.from_function(_section, default_timeout=60)
    page.session_state["asked"] = document
    page.session_state["recompute"] = is_open
    return checked(page.run())


def test_closed_it_works_nothing_out() -> None:
    assert not charts(opened(default_document(), is_open=False))


def test_open_it_shows_a_line_a_way_and_a_row_a_point() -> None:
    page = opened(default_document())
    figure = charts(page)["recompute_curve"]
    assert [len(trace["x"]) for trace in figure["data"]] == [len(SHARES), 5]
    text = html(page)
    assert "Budget of 40\u00a0%" in text


def test_a_card_without_rates_has_bytes_and_no_times() -> None:
    devices = [{"gpu": "generic-24gb", "count": 1}]
    document = put_all(default_document(), {"hardware.devices": devices, "parallel": None})
    page = opened(document)
    assert not charts(page)
    assert "no time can be told" in html(page)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_point_has_its_words(language: str) -> None:
    plan = answer(default_document()).plan
    assert plan is not None
    points = curve(plan, tables())
    words = words_for(language)
    assert all(all(row(point, words)) for point in points)
    assert alternative(points, words)
    assert recompute_curve(points, None, words)
