"""The Method page as Streamlit runs it: every tab and folded table, lazily; its figures; every story."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import charts, checked, headline, html
from ui.charts import method_scatter, method_spread
from ui.document import put
from ui.examples import STORIES, default_document, story_document
from ui.method import accuracy, formulas, gaps, published, verified
from ui.method.accuracy import SIDES, families, points_of, with_own_band
from ui.pages import method
from ui.tokens import LIGHT, PART_LIGHT
from ui.units import Unit, use
from ui.words import Words, words_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ui.document import Document

FOLDED = ("cells", "held", "coverage", "own")


@pytest.fixture
def words() -> Words:
    return words_for("en")


@pytest.fixture
def _gib_after() -> Iterator[None]:
    yield
    use(Unit.GIB)


def method_page() -> None:
    from ui.pages import method as page  # noqa: PLC0415

    page.draw()


def opened(document: Document | None = None, tab: str = "accuracy") -> AppTest:
    page = AppTest.from_function(method_page, default_timeout=60)
    if document is not None:
        page.session_state["scenario_document"] = document
    page.session_state["method_tabs"] = words_for("en")(f"method.tab.{tab}")
    return checked(page.run())


def test_the_first_tab_says_how_right_it_is() -> None:
    page = AppTest.from_function(method_page, default_timeout=60)
    checked(page.run())
    assert headline(page).startswith("Half of ")
    assert set(charts(page)) == {"method_training", "method_serving", "method_spread"}
    assert "Bands are fitted on these rows" in html(page)
    assert "Balanced accuracy" in html(page)


@pytest.mark.parametrize("tab", method.TABS)
@pytest.mark.parametrize("story", [STORIES[1], STORIES[3]])
def test_every_tab_opens_for_every_story(story: str, tab: str) -> None:
    page = opened(story_document(story), tab)
    assert headline(page)
    assert 'class="foot"' in html(page)


@pytest.mark.parametrize("tab", method.TABS)
def test_only_the_open_tab_is_worked_out(monkeypatch: pytest.MonkeyPatch, tab: str) -> None:
    called: Counter[str] = Counter()

    def watched(name: str, module: Any, attribute: str) -> None:
        original = getattr(module, attribute)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            called[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(module, attribute, wrapper)

    watched("accuracy", method_spread, "spread")
    watched("formulas", method, "by_category")
    watched("verified", verified, "table")
    watched("data", method, "data_files")
    watched("gaps", gaps, "of_plan")
    opened(tab=tab)
    assert dict(called) == {tab: 1}


@pytest.mark.parametrize("name", FOLDED)
def test_a_folded_table_is_made_when_it_is_opened(name: str) -> None:
    page = opened()
    before = html(page).count("<table")
    page.session_state[f"method_{name}"] = True
    checked(page.run())
    assert html(page).count("<table") == before + 1


def test_a_rerun_reads_no_file_and_makes_no_figure_again(monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened()
    before = published.published.cache_info().misses
    monkeypatch.setattr(method_scatter, "_ends", lambda _: pytest.fail("a figure was made again"))
    checked(page.run())
    assert published.published.cache_info().misses == before


def test_the_page_reads_no_measurement_file(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path  # noqa: PLC0415

    read: list[str] = []
    original = Path.read_text

    def watched(self: Path, *args: Any, **kwargs: Any) -> str:
        read.append(self.as_posix())
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", watched)
    published.published.cache_clear()
    for tab in method.TABS:
        opened(tab=tab)
    assert not [name for name in read if "/truth/" in name]
    assert sum(name.endswith("score.json") for name in read) == 1


def test_formulas_follow_the_question() -> None:
    training = html(opened(tab="formulas"))
    served = html(opened(story_document("llama-70b-awq-two-l40s"), "formulas"))
    assert "optimizer" in training
    assert "KV cache" in served
    assert "fitted or rule of thumb" in served


def test_an_error_keeps_the_last_formulas_and_says_so() -> None:
    page = opened(tab="formulas")
    page.session_state["scenario_document"] = put(default_document(), "parallel.tensor", 5)
    checked(page.run())
    assert 'role="alert"' in html(page)
    assert page.get_by_key("stale") is not None


def test_a_first_question_with_errors_is_told() -> None:
    page = opened(put(default_document(), "parallel.tensor", 5))
    assert "cannot be answered yet" in headline(page)


def test_what_a_user_wrote_is_shown_as_text() -> None:
    evil = "<img src=x onerror=alert(1)>"
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
    }
    document = put(story_document("llama-7b-full-four-3090"), "model", {"id": evil, "config": config})
    for tab in method.TABS:
        assert "<img" not in html(opened(document, tab))


# Figures


@pytest.mark.parametrize("side", SIDES)
def test_every_point_is_drawn_with_its_record_and_source(side: str, words: Words) -> None:
    score = published.published()
    figure = method_scatter.scatter(score, side, words)
    points = points_of(score, side)
    drawn = [trace for trace in figure.data if trace.mode == "markers"]
    assert [len(trace.x) for trace in drawn] == [len(members) for members in families(points).values()]
    text = "".join(line for trace in drawn for line in trace.text).replace("<br>", "").replace("</b><b>", "")
    for point in points[:: len(points) // 20]:
        assert point.id in text
        assert point.source.replace(" ", "")[:40] in text.replace(" ", "").replace("&amp;", "&")


@pytest.mark.parametrize("side", SIDES)
def test_points_lie_where_they_were_predicted_and_measured(side: str, words: Words) -> None:
    score = published.published()
    figure = method_scatter.scatter(score, side, words)
    first = points_of(score, side)[0]
    trace = next(trace for trace in figure.data if trace.mode == "markers")
    assert trace.x[0] == pytest.approx(float(first.observed or 0) / 2**30)
    assert trace.y[0] == pytest.approx(float(first.predicted or 0) / 2**30)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.range == figure.layout.yaxis.range


def test_points_outside_their_band_are_hollow(words: Words) -> None:
    score = published.published()
    figure = method_scatter.scatter(score, "training", words)
    hollow = sum(
        color == LIGHT["background"] for t in figure.data if t.mode == "markers" for color in t.marker.color
    )
    assert hollow == sum(point.inside_band is False for point in points_of(score, "training")) > 0


def test_every_colour_is_one_that_the_style_sheet_swaps(words: Words) -> None:
    score = published.published()
    known = {*LIGHT.values(), *PART_LIGHT.values()}
    for side in SIDES:
        for trace in method_scatter.scatter(score, side, words).data:
            if trace.mode == "markers":
                assert {*trace.marker.color, *trace.marker.line.color} <= known
            else:
                assert trace.line.color in known
    for trace in method_spread.spread(score, words).data:
        assert (trace.line.color or trace.marker.line.color) in known


@pytest.mark.usefixtures("_gib_after")
def test_the_figure_follows_the_unit(words: Words) -> None:
    score = published.published()
    in_gib = method_scatter.scatter(score, "training", words).data[2].x[0]
    use(Unit.GB)
    in_gb = method_scatter.scatter(score, "training", words).data[2].x[0]
    assert in_gb / in_gib == pytest.approx(2**30 / 1e9)


def test_a_row_of_the_spread_is_a_runtime_with_its_own_band(words: Words) -> None:
    score = published.published()
    rows = with_own_band(score.runs)
    figure = method_spread.spread(score, words)
    assert len(figure.data[-1].x) == len(rows)
    bands = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert len(bands) == len(rows)
    low, high = method_spread.band_errors(rows[0])
    assert low <= 0 <= high
    assert (bands[0].x0, bands[0].x1) == (method_spread.clipped(low), method_spread.clipped(high))
    for row in rows:
        assert words(f"runtime.{row.runtime}") in method_spread.alternative(score, words)


def test_alternatives_are_made_of_the_figures(words: Words) -> None:
    score = published.published()
    for side in SIDES:
        text = method_scatter.alternative(score, side, words)
        assert f"{len(points_of(score, side)):,} measured" in text


def test_modules_of_the_method_know_no_streamlit() -> None:
    for module in (accuracy, formulas, published, verified):
        assert "streamlit" not in vars(module)
