"""The Buy page as Streamlit runs it, and its figures."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import charts, checked, headline, html
from ui import answers
from ui.buy.builds import Build, first_builds
from ui.buy.classes import dots
from ui.buy.columns import columns
from ui.buy.listing import build_csv
from ui.buy.money import Terms
from ui.buy.wording import headline as headline_of
from ui.buy.wording import table_head, table_rows, trouble, why
from ui.charts import buy_use
from ui.charts.buy_lines import Line, alternative, buy_lines
from ui.charts.buy_use import Curve
from ui.charts.card_classes import card_classes
from ui.cost.quotes import quotes
from ui.document import put
from ui.examples import default_document
from ui.numbers import DASH
from ui.words import words_for

if TYPE_CHECKING:
    from pathlib import Path

WORDS = words_for("en")


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))


def buy_page() -> None:
    from ui.pages import buy  # noqa: PLC0415

    buy.draw()


def opened(document: dict[str, Any] | None = None) -> AppTest:
    page = AppTest.from_function(buy_page, default_timeout=60)
    if document is not None:
        page.session_state["scenario_document"] = document
    return checked(page.run())


def test_three_builds_stand_side_by_side() -> None:
    page = opened()
    assert headline(page).startswith("Cheapest tokens if bought: ")
    text = html(page)
    for said in (
        "8 × H100",
        "4 × RTX PRO 6000",
        "HGX H100 8-GPU server, 31 Jan 2025",
        "sharded over all",
        "kW",
    ):
        assert said in text
    assert set(charts(page)) == {"buy_lines", "buy_use", "buy_classes"}


def test_a_fourth_build_is_the_last_one_and_can_go_again() -> None:
    page = opened()
    page.button(key="buy_add").click()
    checked(page.run())
    assert not [button for button in page.button if button.key == "buy_add"]
    page.button(key="buy_3_remove").click()
    page.button(key="buy_1_remove").click()
    assert "8 × H100" not in html(checked(page.run()))


def test_what_is_typed_counts() -> None:
    page = opened()
    page.number_input(key="buy_1_price").set_value(1000.0)
    page.number_input(key="buy_1_power_w").set_value(1.0)
    text = html(checked(page.run()))
    assert "as typed" in text
    assert "Cheapest tokens if bought: 8 × H100" in headline(page)
    page.selectbox(key="buy_1_gpu_id").set_value("l4-24gb")
    assert "as typed" not in html(checked(page.run()))


def _bought(gpu_id: str, count: int, price: float | None = None) -> Build:
    return Build(gpu_id=gpu_id, count=count, price=price)


@pytest.mark.parametrize(
    ("price", "owned", "told"),
    [(None, "least, cards alone", True), (1000.0, "best", False)],
)
def test_cards_alone_are_not_called_best_beside_a_whole_machine(
    price: float | None, owned: str, *, told: bool
) -> None:
    """Four workstation cards are cheaper than a server, but without a machine; with a typed price they are like it."""
    cards = replace(_bought("rtx-pro-6000-blackwell-workstation-96gb", 4, price), power_w=price)
    builds = {0: cards, 1: _bought("h100-sxm-80gb", 8)}
    today = date(2026, 11, 30)
    found = columns(builds, default_document(), Terms(), quotes(answers.tables().offers), today)
    rows = {row[0]: row[1:] for row in table_rows(found, WORDS)}
    bought, prices = rows["A million tokens, bought"], rows["Price"]
    assert owned in bought[0]
    assert ("cards alone" in rows["Power and hosting, a month"][0]) == (price is None)
    assert "cards alone" not in bought[1]
    assert (">best<" in prices[0]) == (price is not None)
    assert headline_of(found, WORDS, "cost", "USD").endswith(" a million")
    assert ("price is that of the cards alone" in why(found, 0.6, WORDS, "cost")) == told


def test_where_the_job_fits_on_no_build_more_cards_are_asked_for() -> None:
    document = put(default_document(), "model.id", "deepseek-ai/DeepSeek-V3")
    found = columns({0: _bought("l4-24gb", 1)}, document, Terms(), [], date(2026, 11, 30))
    assert "more or larger cards" in why(found, 0.6, WORDS, "cost")


def test_the_longest_sequence_says_at_how_many() -> None:
    serves = {
        "version": 1, "task": "serve", "model": {"id": "meta-llama/Llama-3.1-8B"}, "runtime": {"name": "vllm"},
        "hardware": {"devices": [{"gpu": "l4-24gb", "count": 1}]}, "serving": {"max_model_len": 8192},
    }  # fmt: skip
    today = date(2026, 11, 30)
    for concurrency, said in ((None, "1 at once"), (8, "8 of that length at once")):
        document = serves if concurrency is None else {**serves, "workload": {"concurrency": concurrency}}
        found = columns({0: Build()}, document, Terms(), (), today)
        assert table_rows(found, WORDS)[-1][0] == f"Longest sequence that fits, {said}"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"price": -5.0}, "Price: \u22125; allowed: 0 to 1,000,000,000,000."),
        ({"price": 1e30}, "Price: 1e+30; allowed: 0 to 1,000,000,000,000."),
        ({"count": 0}, "Count: 0; allowed: a whole number from 1 to 100,000."),
        ({"count": None}, "Count: empty; allowed: a whole number from 1 to 100,000."),
        ({"count": 100_001}, "Count: 100,001; allowed: a whole number from 1 to 100,000."),
        ({"gpu_id": "gone"}, "Cards: gone; not in the table."),
    ],
)
def test_a_build_that_cannot_be_stays_listed_with_its_value(wrong: dict[str, Any], said: str) -> None:
    typed = replace(Build(gpu_id="l4-24gb", count=1), **wrong)
    found = columns({0: typed}, default_document(), Terms(), (), date(2026, 11, 30))
    head, (fits, *others) = table_head(found, WORDS), table_rows(found, WORDS)
    assert ("gone" if "gpu_id" in wrong else "L4") in head[1]
    assert "not counted" in fits[1]
    assert said in fits[1]
    assert {row[1] for row in others} == {DASH}
    assert trouble(found, WORDS) == []
    assert next(csv.DictReader(io.StringIO(build_csv(found))))["verdict"] == "not_counted"


def test_a_wrong_build_is_still_one_of_three() -> None:
    page = opened()
    page.number_input(key="buy_1_price").set_value(-5.0)
    text = html(checked(page.run()))
    assert "of 3 builds fit" in text
    assert "B is not counted. Price: \u22125" in text
    assert not [button for button in page.button if button.key == "buy_1_plan"]


def test_more_use_brings_the_pay_back_nearer() -> None:
    page = opened()

    def month() -> int:
        text = html(page)
        return int(text.partition("has paid for itself by month ")[2].partition(" ")[0])

    first = month()
    page.number_input(key="buy_term_use_percent").set_value(100.0)
    checked(page.run())
    assert month() < first


def test_a_term_out_of_range_is_said_and_no_line_is_drawn() -> None:
    page = opened()
    page.number_input(key="buy_term_resale_percent").set_value(130.0)
    text = html(checked(page.run()))
    assert "Resale at the end, %: 130; allowed: 0 to 100." in text
    assert set(charts(page)) == {"buy_classes"}


def test_a_described_card_can_be_bought() -> None:
    card = {
        "memory_gib": 288, "bandwidth_gb_per_s": 8000, "bf16_tflops": 2500, "link_gb_per_s": 1800, "power_w": 1200,
    }  # fmt: skip
    rows = [{"gpu": "next card", "count": 4, "card": card}]
    page = opened(put(put(default_document(), "hardware.devices", rows), "parallel", {"sharding": "fsdp"}))
    page.selectbox(key="buy_1_gpu_id").set_value("next card")
    page.number_input(key="buy_1_count").set_value(2)
    text = html(checked(page.run()))
    assert "4 × next card" in text
    assert "8 × next card" in text or "2 × next card" in text
    assert "4.8 kW" in text
    assert "no purchase price is known of all its cards" in text
    page.number_input(key="buy_0_price").set_value(200_000.0)
    page.number_input(key="buy_0_rent_per_hour").set_value(30.0)
    assert "$200,000" in html(checked(page.run()))


def test_a_build_becomes_the_open_question() -> None:
    page = opened()
    page.button(key="buy_1_plan").click()
    document = checked(page.run()).session_state["scenario_document"]
    assert document["hardware"]["devices"] == [{"gpu": "h100-sxm-80gb", "count": 8}]
    assert document["parallel"]["sharding"] == "fsdp"
    assert "2 of 3 builds fit" not in html(page)


def test_a_question_with_errors_keeps_the_page_standing() -> None:
    page = opened(put(default_document(), "hardware.devices", [{"gpu": "nothing"}]))
    assert "nothing" in html(page)


def test_the_figure_marks_where_lines_cross() -> None:
    lines = [
        Line(letter="A", name="one", more_usd=(5e3, 1e3, -2e3), crossing=3, best=True),
        Line(letter="B", name="other", more_usd=(5e3, 6e3, 7e3), crossing=None),
    ]
    fig = buy_lines(lines, 3, WORDS)
    assert [trace.mode for trace in fig.data] == ["lines", "markers", "lines"]
    assert (list(fig.data[1].x), list(fig.data[1].y)) == ([3], [-2])
    assert fig.layout.yaxis.range[0] < -2 < 7 < fig.layout.yaxis.range[1]
    said = alternative(lines, WORDS)
    assert "A, one, costs the same in month 3" in said
    assert "B, other, does not come to cost the same within ten years" in said


def test_the_figure_by_use_leaves_out_what_never_pays_back() -> None:
    curves = [
        Curve(letter="A", name="one", months=((0.2, 70), (0.4, 30), (1.0, 10)), best=True),
        Curve(letter="B", name="other", months=()),
    ]
    fig = buy_use.buy_use(curves, 0.6, WORDS)
    assert [(list(trace.x), list(trace.y)) for trace in fig.data] == [([40, 100], [30, 10])]
    said = [(shape.y0, shape.y1) for shape in fig.layout.shapes if shape.type == "rect"]
    assert said == [(12, 18)]
    words = buy_use.alternative(curves, WORDS)
    assert "A, one, pays back within ten years from 20\u00a0% use on, at full use by month 10" in words
    assert "B, other, does not come to cost the same within ten years" in words


def test_the_csv_has_a_line_a_build_with_whole_figures() -> None:
    document = default_document()
    prices = quotes(answers.tables().offers)
    found = columns(dict(enumerate(first_builds())), document, Terms(), prices, date(2026, 11, 30))
    records = list(csv.DictReader(io.StringIO(build_csv(found))))
    assert [record["build"] for record in records] == ["A", "B", "C"]
    server = records[1]
    assert (server["cards"], server["verdict"], float(server["price_usd"])) == (
        "8 x h100-sxm-80gb",
        "fits",
        255_237,
    )
    assert (
        float(server["tokens_per_s_low"]) < float(server["tokens_per_s"]) < float(server["tokens_per_s_high"])
    )
    assert int(server["headroom_bytes"]) > 0
    assert records[0]["rent_usd_per_hour"] == records[0]["pay_back_month"] == ""


def test_labels_of_lines_that_end_together_are_pushed_apart() -> None:
    lines = [Line(letter=x, name=x, more_usd=(1e3, 1e3), crossing=None) for x in "ABCD"]
    fig = buy_lines(lines, 2, WORDS)
    heights = sorted(note.y for note in fig.layout.annotations if note.xanchor == "left")
    low, high = fig.layout.yaxis.range
    gaps = [(b - a) / (high - low) * 260 for a, b in pairwise(heights)]
    assert min(gaps) > 18
    assert heights[-1] <= high


def test_every_priced_card_of_a_class_is_a_point() -> None:
    found = dots(WORDS)
    fig = card_classes(found, WORDS)
    assert sum(len(trace.x) for trace in fig.data) == len(found) > 50
    assert len({trace.marker.symbol for trace in fig.data}) == 3
