"""Padding and packing on the Plan page: closed at first, then a row a way, following its fields and the question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from planner.padding import Way
from tests.ui.conftest import checked, html
from ui.answers import answer
from ui.document import put
from ui.examples import default_document
from ui.padding import batches, row
from ui.words import words_for

if TYPE_CHECKING:
    from ui.document import Document


def _section() -> None:
    import streamlit as st  # noqa: PLC0415

    from ui.padding import draw_padding  # noqa: PLC0415

    draw_padding(st.session_state["asked"])


def opened(document: Document, *, is_open: bool = True) -> AppTest:
    page = AppTest.from_function(_section, default_timeout=60)
    page.session_state["asked"] = document
    page.session_state["padding"] = is_open
    return checked(page.run())


def test_closed_it_works_nothing_out() -> None:
    assert "Padded to the limit" not in html(opened(default_document(), is_open=False))


def test_every_way_is_a_row_that_follows_the_mean() -> None:
    page = opened(put(default_document(), "training.micro_batch", 4))
    words = words_for("en")
    before = html(page)
    assert all(words(f"padding.way.{way.value}") in before for way in Way)
    page = checked(page.number_input(key="padding_mean_4096").set_value(2000).run())
    assert html(page) != before


def test_the_longest_batch_needs_what_its_length_needs() -> None:
    document = put(default_document(), "training.micro_batch", 4)
    plan = answer(document).plan
    assert plan is not None
    found = batches(300, 0.3, plan)
    cells = {one.way: row(one, found[0], document, words_for("en")) for one in found}
    assert cells[Way.STATIC][3] == "4,096"
    assert float(cells[Way.DYNAMIC][4]) < float(cells[Way.STATIC][4])
    assert cells[Way.PACKED][4] == cells[Way.STATIC][4]


@pytest.mark.parametrize("spread", [0.0, 3.0])
def test_odd_spreads_are_answered(spread: float) -> None:
    plan = answer(default_document()).plan
    assert plan is not None
    assert len(batches(1, spread, plan)) == len(Way)
