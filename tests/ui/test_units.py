"""Sizes in GiB or in GB: one switch for figures, axes and the words beside them."""

from __future__ import annotations

import contextvars
import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pytest

import run
from tests.ui.conftest import charts, checked, html
from ui.numbers import gib1, gib2, gib_as_typed, signed_gib
from ui.units import Unit, amount, current, use
from ui.words import Words, flatten

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

T = TypeVar("T")

SIZE_BYTES = 42_949_672_960
# Texts that keep GiB whatever the unit: fields filled in in GiB, and figures as somebody published them.
ALWAYS_GIB = (
    "hardware.size",
    "field.device.memory_bytes",
    "field.device.free_bytes",
    "field.device.card.memory_gib",
    "buy.classes.head.memory",
    "buy.classes.chart_note",
    "tools.unit_help",
    "issue.host_memory_short",
    "requests.own.peer_gib",
    "requests.field.tier_gib",
    "report.heading.cards",
    "report.column.gib",
)
"""Fields that are typed in GiB, what is said about them, and the report file."""


def in_gb(work: Callable[[], T]) -> T:
    """What the work gives while sizes are shown in GB."""

    def switched() -> T:
        use(Unit.GB)
        return work()

    return contextvars.copy_context().run(switched)


def test_sizes_are_in_gib_unless_asked_otherwise() -> None:
    assert current() is Unit.GIB
    assert (gib1(SIZE_BYTES), gib2(SIZE_BYTES), signed_gib(-SIZE_BYTES)) == ("40.0", "40.00", "−40.0")


def test_sizes_in_gb_are_rounded_from_bytes() -> None:
    shown = in_gb(lambda: (gib1(SIZE_BYTES), gib2(SIZE_BYTES), signed_gib(SIZE_BYTES, 2), amount(SIZE_BYTES)))
    assert shown == ("42.9", "42.95", "+42.95", SIZE_BYTES / 1e9)
    assert current() is Unit.GIB


def test_a_field_filled_in_in_gib_stays_so() -> None:
    assert in_gb(lambda: gib_as_typed(SIZE_BYTES)) == "40.0"


def test_the_words_follow_the_unit() -> None:
    words = Words("xx", {"a": "{n} {unit}"})
    assert words("a", n=1) == "1 GiB"
    assert in_gb(lambda: (words("a", n=1), words.html("a", n=1))) == ("1 GB", "1 GB")


def test_another_thread_has_a_unit_of_its_own() -> None:
    def seen_elsewhere() -> Unit:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(current).result()

    assert in_gb(seen_elsewhere) is Unit.GIB


def test_no_text_names_a_unit_that_the_switch_would_make_wrong() -> None:
    path = run.ROOT / "ui" / "locales" / "en.toml"
    table = flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    fixed = [key for key, text in table.items() if "GiB" in text and not key.startswith("story.")]
    assert [key for key in fixed if key not in ALWAYS_GIB] == [], "write {unit} in place of GiB"


def test_the_switch_changes_every_figure_and_not_the_question(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    before, link = charts(page)["gpu_bars"], page.query_params.get("s")
    checked(page.segmented_control(key="unit_choice").set_value("GB").run())
    after = charts(page)["gpu_bars"]
    assert "GiB" not in re.sub(r"<a .*?</a>", "", html(page))  # titles of references stay as published
    assert page.query_params.get("s") == link
    ratios = [
        now / was
        for old, new in zip(before["data"], after["data"], strict=True)
        if old["type"] == "bar"
        for was, now in zip(old["x"], new["x"], strict=True)
        if was
    ]
    assert ratios == pytest.approx([2**30 / 1e9] * len(ratios))
    assert after["layout"]["xaxis"]["range"][1] > before["layout"]["xaxis"]["range"][1]


def test_the_switch_outlives_an_edit_and_goes_back(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    first = html(page)
    checked(page.segmented_control(key="unit_choice").set_value("GB").run())
    checked(page.number_input(key="training.micro_batch").set_value(2).run())
    assert page.segmented_control(key="unit_choice").value == "GB"
    checked(page.number_input(key="training.micro_batch").set_value(1).run())
    checked(page.segmented_control(key="unit_choice").set_value("GiB").run())
    assert html(page) == first


@pytest.mark.parametrize("key", ["unit_choice", "language_choice"])
def test_no_choice_from_the_browser_keeps_the_one_that_was_made(
    open_page: Callable[..., AppTest], key: str
) -> None:
    page = open_page()
    before = page.segmented_control(key=key).value
    checked(page.segmented_control(key=key).set_value(None).run())
    assert page.segmented_control(key=key).value == before
