"""A card that the user describes, in the form of the Plan page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ui.conftest import checked, html

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

ROW = "hardware.devices.0"


def test_a_described_card_is_planned_and_taken_out_again(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    before = page.session_state["scenario_document"]["hardware"]["devices"][0]["gpu"]
    page.selectbox(key=f"{ROW}.gpu").set_value("own")
    checked(page.run())
    row = page.session_state["scenario_document"]["hardware"]["devices"][0]
    assert (row["gpu"], row["card"]["like"]) == ("My card", before)
    page.text_input(key=f"{ROW}.name").set_value("HBM3e 288")
    page.number_input(key=f"{ROW}.card.memory_gib").set_value(288.0)
    page.number_input(key=f"{ROW}.card.link_gb_per_s").set_value(1800.0)
    checked(page.run())
    row = page.session_state["scenario_document"]["hardware"]["devices"][0]
    assert row["card"] == {"memory_gib": 288.0, "like": before, "link_gb_per_s": 1800.0}
    assert "HBM3e 288" in html(page)
    page.selectbox(key=f"{ROW}.gpu").set_value("l4-24gb")
    checked(page.run())
    assert "card" not in page.session_state["scenario_document"]["hardware"]["devices"][0]


def test_a_name_of_the_table_is_refused_at_the_card(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    page.selectbox(key=f"{ROW}.gpu").set_value("own")
    checked(page.run())
    page.text_input(key=f"{ROW}.name").set_value("l4-24gb")
    checked(page.run())
    assert "give the card you describe another name" in html(page)
