"""The Cost page as Streamlit runs it, its figure, its list and its sentences."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import charts, checked, headline, html
from tests.ui.cost_rows_made import TODAY, planned, row
from ui import answers
from ui.charts.cost_frontier import alternative, cost_frontier
from ui.cost import choice, listing, wording
from ui.cost import replans as replans_module
from ui.cost import rows as rows_module
from ui.cost.money import day, short_card, usd
from ui.cost.quotes import Kind
from ui.cost.rows import Row, Status, table_rows
from ui.document import put_all
from ui.examples import STORIES, default_document, story_document
from ui.words import Words, words_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture(autouse=True)
def _fresh_caches() -> Iterator[None]:
    for cached in (replans_module._replans, rows_module._table_rows):
        cached.cache_clear()
    yield
    for cached in (replans_module._replans, rows_module._table_rows):
        cached.cache_clear()


@pytest.fixture
def words() -> Words:
    return words_for("en")


@pytest.fixture
def on_demand() -> Sequence[Row]:
    document = default_document()
    return choice.of_kind(table_rows(document, planned(document)), Kind.ON_DEMAND)


def cost_page() -> None:
    from ui.pages import cost  # noqa: PLC0415

    cost.draw()


def opened(document: dict[str, object] | None = None) -> AppTest:
    page = AppTest.from_function(cost_page, default_timeout=60)
    if document is not None:
        page.session_state["scenario_document"] = document
    return checked(page.run())


def listed(page: AppTest) -> list[float]:
    """Prices of the list, top to bottom."""
    return list(page.dataframe[0].value["usd_per_hour"])


def today() -> date:
    return datetime.now(UTC).date()


# The page


def test_the_default_question_has_a_cheapest_hour() -> None:
    page = opened()
    assert headline(page).startswith("Cheapest hour that fits: $")
    assert "A million tokens cost least on" in html(page)
    assert "nine of ten published runs lie between $" in html(page)
    assert list(charts(page)) == ["cost_frontier"]
    assert listed(page) == sorted(listed(page))
    document = default_document()
    rows = choice.of_kind(table_rows(document, planned(document)), Kind.ON_DEMAND)
    best = choice.cheapest(rows, today())
    assert best is not None
    assert usd(best.usd_per_hour or 0) in headline(page)
    assert best.rented is not None
    if (best.rented.instances or 1) > 1:
        assert f"the job spans {best.rented.instances} machines" in html(page)
    assert f"{sum(r.status is Status.FITS for r in rows)} offers fit" in html(page)


@pytest.mark.parametrize("story", STORIES)
def test_every_story_has_its_prices(story: str) -> None:
    page = opened(story_document(story))
    assert headline(page)
    assert len(page.dataframe) == 1


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_every_kind_is_listed_alone(kind: str) -> None:
    page = opened()
    checked(page.segmented_control(key="cost_kind").set_value(kind).run())
    checked(page.selectbox(key="cost_show").set_value("all").run())
    document = default_document()
    rows = choice.of_kind(table_rows(document, planned(document)), Kind(kind))
    if not rows:
        assert headline(page) == "No prices of your own yet"
        assert not page.dataframe
        return
    shown = page.dataframe[0].value
    assert len(shown) == len(rows)
    assert sorted(shown["source"]) == sorted(found.quote.source for found in rows)


def test_prices_older_than_a_year_are_listed_and_never_called_cheapest() -> None:
    page = opened()
    checked(page.segmented_control(key="cost_kind").set_value("index").run())
    if choice.cheapest(_index_rows(), today()) is None:
        assert headline(page).startswith("Offers fit, but every price index price is more than a year old")
        assert "no line: every price that fits is over a year old" in html(page)
        assert listed(page)


def _index_rows() -> Sequence[Row]:
    document = default_document()
    return choice.of_kind(table_rows(document, planned(document)), Kind.INDEX)


def test_filters_and_search_narrow_the_list() -> None:
    page = opened()
    before = len(listed(page))
    checked(page.text_input(key="cost_search").set_value("runpod").run())
    assert 0 < len(listed(page)) < before
    assert set(page.dataframe[0].value["provider"]) == {"RunPod"}
    checked(page.text_input(key="cost_search").set_value("no such words").run())
    assert not page.dataframe
    assert "No price of this kind passes the filters." in html(page)


def test_prices_that_are_no_answer_are_listed_with_their_reason() -> None:
    page = opened()
    checked(page.selectbox(key="cost_show").set_value("all").run())
    shown = page.dataframe[0].value
    unknown = shown[shown["verdict"] == "price not separable"]
    assert len(unknown) > 0
    assert unknown["usd_per_gpu_hour"].isna().all()
    assert unknown["usd_per_hour"].isna().all()
    assert "the price is not separable" in html(page)


def test_own_prices_rank_in_their_own_kind_and_stay() -> None:
    page = opened()
    before = headline(page)
    checked(page.button(key="own_add").click().run())
    checked(page.selectbox(key="own_0_gpu_id").set_value("h200-sxm-141gb").run())
    checked(page.number_input(key="own_0_cards").set_value(6).run())
    checked(page.number_input(key="own_0_per_hour").set_value(0.5).run())
    assert headline(page) == before
    checked(page.segmented_control(key="cost_kind").set_value("own").run())
    assert headline(page) == "Cheapest hour that fits: $0.50 on 6 × H200"
    checked(page.segmented_control(key="cost_kind").set_value("spot").run())
    checked(page.segmented_control(key="cost_kind").set_value("own").run())
    assert listed(page) == [0.5]
    checked(page.button(key="own_0_remove").click().run())
    assert headline(page) == "No prices of your own yet"


def test_an_own_price_that_cannot_be_is_said_at_its_line() -> None:
    page = opened()
    checked(page.button(key="own_add").click().run())
    assert "Price 1: no price yet." in html(page)
    checked(page.selectbox(key="own_0_gpu_id").set_value("").run())
    checked(page.number_input(key="own_0_per_hour").set_value(2.0).run())
    assert "Price 1: choose the GPU" in html(page)
    checked(page.text_input(key="own_0_name").set_value("p5.48xlarge").run())
    assert "Price 1" not in html(page)


def test_names_are_escaped() -> None:
    page = opened()
    checked(page.button(key="own_add").click().run())
    checked(page.text_input(key="own_0_name").set_value("<img src=x>").run())
    checked(page.selectbox(key="own_0_gpu_id").set_value("h200-sxm-141gb").run())
    checked(page.number_input(key="own_0_per_hour").set_value(2.0).run())
    checked(page.segmented_control(key="cost_kind").set_value("own").run())
    assert "&lt;img src=x&gt;" in html(page)
    assert "<img src=x>" not in html(page)


def test_a_question_with_an_error_keeps_the_last_prices() -> None:
    page = opened()
    before = headline(page)
    checked(page.number_input(key="training.sequence_length").set_value(0).run())
    assert headline(page) == before
    assert "The answer below is the last one that could be worked out" in html(page)


def test_a_question_wrong_from_the_start_says_so() -> None:
    page = opened(put_all(default_document(), {"parallel.pipeline": 7}))
    assert headline(page) == "This question cannot be answered yet"
    assert not page.dataframe


def test_purchase_prices_of_the_open_cards_are_dated_and_sourced() -> None:
    page = opened()
    text = html(page)
    assert "Buying the open cards" in text
    gpu = answers.tables().gpus["rtx-4090-24gb"]
    assert gpu.list_price is not None
    assert f"${gpu.list_price.usd * 4:,.0f}" in text
    assert gpu.list_price.source in text


# Sentences


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        ([], Kind.OWN, "No prices of your own yet"),
        ([], Kind.SPOT, "No price of this kind is listed"),
        ([row(usd=3, used=2)], Kind.ON_DEMAND, "Cheapest hour that fits: $3.00 on 2 × H100"),
        ([row(day="2024")], Kind.SPOT, "Offers fit, but every spot price is more than a year old"),
        (
            [row(status=Status.TIGHT)],
            Kind.ON_DEMAND,
            "Nothing fits with room to spare at on demand prices",
        ),
        (
            [row(status=Status.SHORT, headroom_gib=-2.5, used=4)],
            Kind.ON_DEMAND,
            "Nothing fits; the nearest is 4 × H100 SXM5 80GB, short by 2.5 GiB",
        ),
        ([row(status=Status.UNKNOWN)], Kind.ON_DEMAND, "Whether any on demand offer fits is not known"),
    ],
)
def test_headlines(rows: list[Row], kind: Kind, text: str, words: Words) -> None:
    assert wording.headline(rows, kind, TODAY, words) == text


def test_where_nothing_fits_it_says_what_looks_further(words: Words) -> None:
    assert "Recommend looks" in wording.why([row(status=Status.SHORT)], Kind.ON_DEMAND, TODAY, words)
    assert wording.why([row(day="2024")], Kind.SPOT, TODAY, words) == ""


def test_the_strip_has_at_most_five_figures_of_one_kind(on_demand: Sequence[Row], words: Words) -> None:
    document = default_document()
    everything = table_rows(document, planned(document))
    cells = wording.strip(on_demand, everything, Kind.ON_DEMAND, TODAY, words)
    assert 3 <= len(cells) <= 5
    assert cells[0][0] == "Cheapest hour"


def test_what_is_rented_is_said(words: Words) -> None:
    document = default_document()
    rows = table_rows(document, planned(document))
    idle = next(r for r in rows if r.rented and r.rented.instances == 1 and r.rented.paid == 8)
    assert wording.rent_text(idle, words) == f"{idle.quote.name} of 8 cards, 2 idle"
    several = next(r for r in rows if r.rented and r.rented.instances == 6)
    assert wording.rent_text(several, words) == f"6 × {several.quote.name}"
    single = next(r for r in rows if r.rented and r.rented.instances is None)
    assert wording.rent_text(single, words) == "6 cards at a price per card"


def test_every_other_reason_has_one_line_with_its_count(on_demand: Sequence[Row], words: Words) -> None:
    lines = wording.refusal_lines(on_demand, words)
    without = sum(found.reason is not None for found in on_demand)
    counts = [int(line.partition("<b>")[2].partition(" ")[0].replace(",", "")) for line in lines]
    assert sum(counts) == without


@pytest.mark.parametrize(
    ("text", "said"), [("2026", "2026"), ("2026-10", "Oct 2026"), ("2026-08-03", "3 Aug 2026")]
)
def test_a_date_says_no_more_than_is_known(text: str, said: str, words: Words) -> None:
    assert day(text, words) == said


@pytest.mark.parametrize(
    ("amount", "said"), [(9.994, "$9.99"), (10, "$10"), (1234.4, "$1,234"), (0.5, "$0.50")]
)
def test_dollars(amount: float, said: str) -> None:
    assert usd(amount) == said


@pytest.mark.parametrize(
    ("gpu_id", "name"),
    [
        ("h100-sxm-80gb", "H100"),
        ("a100-sxm-40gb", "A100 40GB"),
        ("mi300x-192gb", "MI300X"),
        ("rtx-4090-24gb", "RTX 4090"),
        ("h100-nvl-94gb", "H100 NVL"),
    ],
)
def test_a_short_name_keeps_the_size_where_it_tells_cards_apart(gpu_id: str, name: str) -> None:
    assert short_card(answers.tables().gpus[gpu_id]) == name


# Figure and list


def test_the_figure_draws_every_fitting_row_once(on_demand: Sequence[Row], words: Words) -> None:
    fitting = [found for found in on_demand if found.status is Status.FITS]
    best = choice.frontier(on_demand, TODAY)
    others = [found for found in fitting if found not in best]
    fig = cost_frontier(others, best, words)
    assert sum(len(trace.x) for trace in fig.data) == len(fitting)
    assert list(fig.data[1].y) == [found.usd_per_hour for found in best]
    assert 0 < len(fig.layout.annotations) <= len(best)
    low, high = (10**edge for edge in fig.layout.yaxis.range)
    assert all(low <= y <= high for trace in fig.data for y in trace.y)
    assert all(low <= tick <= high for tick in fig.layout.yaxis.tickvals)
    assert f"{len(fitting)} offers that fit" in alternative(fitting, best, words)


@pytest.mark.parametrize("prices", [[3.5], [0.08, 900.0], [1.0, 1.0]])
def test_the_figure_takes_any_prices(prices: list[float], words: Words) -> None:
    rows = [row(usd=price, headroom_gib=0.1 + i) for i, price in enumerate(prices)]
    fig = cost_frontier([], rows, words)
    assert len(fig.layout.yaxis.tickvals) >= 2


def test_the_list_has_a_head_for_every_column(on_demand: Sequence[Row], words: Words) -> None:
    made = listing.columns(on_demand, TODAY, words)
    assert tuple(made) == listing.COLUMNS
    assert {len(values) for values in made.values()} == {len(on_demand)}
    assert all(words(f"cost.column.{name}") for name in listing.COLUMNS)
    assert all(made["source"])
    assert all(made["date"])


def test_the_csv_has_whole_bytes_and_published_prices(on_demand: Sequence[Row]) -> None:
    records = list(csv.DictReader(io.StringIO(listing.price_csv(on_demand))))
    assert len(records) == len(on_demand)
    for record, found in zip(records, on_demand, strict=True):
        assert float(record["usd_per_hour_published"]) == found.quote.usd_per_hour
        assert record["headroom_bytes"] == ("" if found.headroom_bytes is None else str(found.headroom_bytes))
