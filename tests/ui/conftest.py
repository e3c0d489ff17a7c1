"""The page in a test: a fixed band, so that verdicts stay when the band table moves, and helpers to look."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

import run
from hardware_db import load_tables
from planner.hardware import Band
from ui import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from planner.hardware import Tables


@pytest.fixture(scope="session")
def banded() -> Tables:
    """The project's tables with one band for all training and one for all serving."""
    train, serve = (
        Band(
            runtime="*",
            task=task,
            layer="device",
            n_rows=40,
            low_frac=0.93,
            high_frac=1.06,
            made_on="2026-11-29",
            source="a test",
        )
        for task in ("train", "serve")
    )
    return replace(load_tables(), bands=(train, serve))


@pytest.fixture(autouse=True)
def _fixed_band(banded: Tables, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(answers, "tables", lambda: banded)
    answers._answer.cache_clear()
    yield
    answers._answer.cache_clear()


@pytest.fixture
def open_page() -> Callable[..., AppTest]:
    """Open the page, with query parameters."""

    def start(**params: str) -> AppTest:
        page = AppTest.from_file(str(run.ROOT / "app.py"), default_timeout=60)
        for name, value in params.items():
            page.query_params[name] = value
        return checked(page.run())

    return start


def checked(page: AppTest) -> AppTest:
    """The page, if it ran without an exception."""
    assert not page.exception, page.exception[0].message
    return page


def html(page: AppTest) -> str:
    """All HTML of the page, main part and sidebar."""
    return "\n".join(element.proto.body for element in page.get("html"))


def headline(page: AppTest) -> str:
    """The verdict sentence."""
    found = html(page).partition('<h1 class="v">')[2].partition("</h1>")[0]
    return re.sub(r'<span class="nb">(.*?)</span>', r"\1", found)


def charts(page: AppTest) -> dict[str, Any]:
    """Every figure as JSON by its key."""
    found = {}
    for element in page.get("plotly_chart"):
        key = element.proto.id.rpartition("-")[2] or element.proto.id
        found[key] = json.loads(element.proto.spec)
    return found
