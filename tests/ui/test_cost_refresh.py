"""The panel that fetches prices: nothing before a click; after it, what was taken, and why not the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.hardware_db.refresh.cases import Answers, recorded
from tests.ui.conftest import checked, html
from tests.ui.test_cost_page import opened
from ui.cost import refreshed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))


@pytest.fixture
def verda(monkeypatch: pytest.MonkeyPatch) -> Answers:
    answers = Answers({"/verda/": recorded("verda.csv")})
    monkeypatch.setattr(refreshed, "network", lambda: answers)
    return answers


def test_nothing_is_asked_before_the_click(verda: Answers) -> None:
    page = opened()
    assert verda.asked == []
    assert "Fetched on" not in html(page)


def test_fetched_prices_stand_beside_the_shipped_ones(verda: Answers) -> None:
    page = opened()
    page.selectbox(key="cost_show").set_value("all")
    before = checked(page.run()).dataframe[0].value
    page.button(key="refresh_now").click()
    after = checked(page.run()).dataframe[0].value
    assert len(verda.asked) == 5
    assert len(after["name"]) == len(before["name"]) + 2
    fresh = [
        row
        for row in after.to_dict("records")
        if "skypilot-catalog" in row["source"] and "(20" in row["source"]
    ]
    assert {row["name"] for row in fresh} == {"2H200.141S.88V", "8H200.X"}
    text = html(page)
    assert "the network or the site cannot be reached (gaierror)" in text
    assert "card not in the table: 1 (1Q900.X, FIN-02: Q900)" in text


@pytest.mark.usefixtures("verda")
def test_the_next_session_has_them_until_they_are_forgotten() -> None:
    page = opened()
    page.button(key="refresh_now").click()
    checked(page.run())
    again = opened()
    assert "Fetched on" in html(again)
    again.button(key="refresh_forget").click()
    assert "Fetched on" not in html(checked(again.run()))
    assert "Fetched on" not in html(opened())


@pytest.mark.usefixtures("verda")
def test_a_network_that_goes_down_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened()
    page.button(key="refresh_now").click()
    checked(page.run())
    monkeypatch.setattr(refreshed, "network", lambda: Answers({}))
    page.button(key="refresh_now").click()
    text = html(checked(page.run()))
    assert "2 offers beside the shipped ones" in text
    assert "cannot be reached (gaierror); 2 offers fetched earlier stay" in text


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{", encoding="utf-8")
    assert "could not be read and is left aside" in html(opened())
