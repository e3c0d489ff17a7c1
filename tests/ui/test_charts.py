"""Figures as data: what is drawn equals what the plan says."""

from __future__ import annotations

import html
from typing import Any

import plotly.graph_objects as go
import pytest

from planner.ledger import Category, Phase
from planner.plan_types import Verdict
from planner.units import gib
from tests.browser.colors import LEAST_CONTRAST, contrast, rgb
from tests.ui.plans import device, plan
from ui.charts import fit_map, gpu_bars, phases
from ui.charts.base import nice_step, shortened
from ui.charts.fit_map import Cell, FitGrid
from ui.numbers import MINUS, gib2, percent, ranges, short_count, short_tokens, signed, signed_gib
from ui.tokens import CLEAR, PARTS, SURFACE, TINTS, style_sheet
from ui.words import words_for

WORDS = words_for("en")


def bars(figure: Any) -> list[Any]:
    return [trace for trace in figure.data if trace.type == "bar"]


def texts(figure: Any) -> list[str]:
    return [annotation.text for annotation in figure.layout.annotations]


def test_bars_sum_to_the_peak_of_each_group() -> None:
    shown = plan(device([0]), device([1, 2], weights_gib=3))
    figure = gpu_bars.gpu_bars(shown, WORDS)
    for place, group in enumerate(reversed(shown.devices)):
        total = sum(trace.x[list(trace.y).index(place)] for trace in bars(figure))
        assert total == pytest.approx(gib(group.peak_bytes))


def test_each_card_has_its_own_capacity_mark() -> None:
    figure = gpu_bars.gpu_bars(plan(device([0]), device([1], usable_gib=40.0)), WORDS)
    marks = [trace for trace in figure.data if trace.type == "scatter" and trace.marker.symbol == "line-ns"]
    assert [list(mark.x) for mark in marks] == [[24.0, 40.0], [24.0, 40.0]]


def test_the_part_over_capacity_is_marked_from_capacity_to_total() -> None:
    figure = gpu_bars.gpu_bars(plan(device([0], usable_gib=12.0, verdict=Verdict.DOES_NOT_FIT)), WORDS)
    over = [shape for shape in figure.layout.shapes if shape.fillcolor == SURFACE["bad"][0]]
    assert [(shape.x0, shape.x1) for shape in over] == [(12.0, pytest.approx(14.5))]


def test_a_card_of_unknown_size_has_neither_mark_nor_track() -> None:
    figure = gpu_bars.gpu_bars(plan(device([0], usable_gib=None, verdict=Verdict.UNKNOWN)), WORDS)
    assert not figure.layout.shapes
    assert "/" not in texts(figure)[1].replace("</", "")


def test_estimates_are_hatched_and_closed_forms_are_not() -> None:
    figure = gpu_bars.gpu_bars(plan(device([0])), WORDS)
    shapes = {trace.name: trace.marker.pattern.shape for trace in bars(figure)}
    assert shapes[WORDS("category.allocator_cache")] == ("/",)
    assert not shapes[WORDS("category.weights")]


def test_empty_categories_are_not_drawn() -> None:
    names = {trace.name for trace in bars(gpu_bars.gpu_bars(plan(device([0])), WORDS))}
    assert names == {WORDS(f"category.{c}") for c in ("weights", "logits_and_loss", "allocator_cache")}


def test_equal_cards_share_a_bar() -> None:
    figure = gpu_bars.gpu_bars(plan(device([1, 2, 3, 4])), WORDS)
    assert "GPU 1–4" in texts(figure)[0]
    assert "4 × RTX 4090" in texts(figure)[0]


def test_a_name_is_escaped_and_cut() -> None:
    figure = gpu_bars.gpu_bars(plan(device([0], name="<b>evil</b>" + "x" * 50)), WORDS)
    assert "&lt;b&gt;evil" in texts(figure)[0]
    assert len(html.unescape(texts(figure)[0])) < 120


def test_many_groups_show_the_tightest() -> None:
    groups = [device([i], weights_gib=1 + i % 40 / 4) for i in range(60)]
    shown = gpu_bars.shown_groups(plan(*groups))
    assert len(shown) == gpu_bars.MOST_ROWS
    assert max(g.headroom_bytes or 0 for g in shown) <= sorted(g.headroom_bytes or 0 for g in groups)[23]


def test_the_figure_is_said_in_words() -> None:
    assert gpu_bars.alternative(plan(device([5])), WORDS) == "GPU 5 needs 14.5 of 24.0 GiB."


def test_a_phase_panel_is_the_share_of_usable_memory() -> None:
    figure = phases.phase_panel(device([0]), WORDS, top=1.14, wide=True)
    loss = list(device([0]).ledger.phases).index(Phase.LOSS)
    at_loss = sum(trace.y[2 * loss] for trace in figure.data)
    at_rest = sum(trace.y[0] for trace in figure.data)
    assert at_loss == pytest.approx(14.5 / 24)
    assert at_rest == pytest.approx(10.5 / 24)


def test_what_rests_is_faded_and_what_comes_is_not() -> None:
    figure = phases.phase_panel(device([0]), WORDS, top=1.14, wide=False)
    assert sum(trace.fillcolor.startswith("rgba") for trace in figure.data) == 2
    assert figure.data[-1].fillcolor == PARTS[Category.LOGITS][0]


def test_panels_share_one_axis_that_holds_the_fullest() -> None:
    shown = plan(device([0]), device([1], usable_gib=5.0, verdict=Verdict.DOES_NOT_FIT))
    assert phases.top_of(shown) == pytest.approx(1.06 * 14.5 / 5)
    assert phases.top_of(plan(device([0]))) == phases.LOWEST_TOP


def test_the_fit_map_shows_every_plan_and_frames_this_one() -> None:
    cells = ((Cell(2**30, Verdict.FITS), Cell(-30 * 2**30, Verdict.DOES_NOT_FIT), Cell(None, None)),)
    figure = fit_map.fit_map(FitGrid(columns=(1024, 2048, 4096), rows=(1,), cells=cells, current=(0, 1)))
    assert texts(figure) == ["+1.0", f"{MINUS}30", "–"]
    assert [list(row) for row in figure.data[0].z] == [[1, -1, None]]
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (0.5, 1.5)


@pytest.mark.parametrize("dark", [False, True])
def test_words_on_the_tints_of_the_fit_map_can_be_read(*, dark: bool) -> None:
    ground = rgb(SURFACE["background"][dark])
    for tint, token in zip(TINTS, ("bad", "tight", "ok"), strict=True):
        red, green, blue, alpha = rgb(tint)
        mixed = [v * alpha + g * (1 - alpha) for v, g in zip((red, green, blue), ground, strict=True)]
        assert contrast(rgb(SURFACE[token][dark]), mixed) >= LEAST_CONTRAST


def test_the_style_sheet_swaps_every_light_value() -> None:
    sheet = style_sheet()
    assert "$" not in sheet
    for light, dark in [*SURFACE.values(), *PARTS.values()]:
        assert f"light-dark({light},{dark})" in sheet


def test_figures_hold_nothing_that_plotly_does_not_know() -> None:
    shown = plan(device([0], usable_gib=5.0, verdict=Verdict.DOES_NOT_FIT), device([1]))
    grid = FitGrid(columns=(1024,), rows=(1,), cells=((Cell(1, Verdict.FITS),),), current=(0, 0))
    for figure in (
        gpu_bars.gpu_bars(shown, WORDS),
        phases.phase_panel(shown.devices[0], WORDS, top=2.0, wide=True),
        fit_map.fit_map(grid),
    ):
        checked = go.Figure(figure.to_plotly_json())
        assert checked.layout.paper_bgcolor == checked.layout.plot_bgcolor == CLEAR
        assert checked.layout.xaxis.fixedrange
        assert checked.layout.showlegend is False


@pytest.mark.parametrize(("span", "step"), [(44, 10), (24, 5), (7, 2), (0.8, 0.2), (3000, 1000), (0, 1)])
def test_ticks_are_round(span: float, step: float) -> None:
    assert nice_step(span) == pytest.approx(step)


def test_numbers_as_text() -> None:
    assert ranges((0, 1, 2, 5, 7, 8)) == "0–2, 5, 7–8"
    assert signed(-0.04) == "0.0"
    assert signed(-2.88, 2) == f"{MINUS}2.88"
    assert signed_gib(2**30) == "+1.0"
    assert gib2(0) == "–"
    assert percent(1.07) == "107\u00a0%"
    assert (short_count(8_030_261_248), short_count(124_439_808)) == ("8.03\u00a0B", "124\u00a0M")
    assert (short_tokens(4096), short_tokens(1 << 20), short_tokens(3000)) == ("4k", "1M", "3,000")
    assert shortened("a" * 10, 5) == "aaaa…"
