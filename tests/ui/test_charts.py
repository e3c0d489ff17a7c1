"""Figures as data: what is drawn equals what the plan says."""

from __future__ import annotations

import html
import re
from typing import Any

import plotly.graph_objects as go
import pytest

from planner.ledger import Category
from planner.plan_types import DevicePlan, Verdict
from planner.units import gib
from tests.browser.colors import LEAST_CONTRAST, contrast, rgb
from tests.ui.plans import device, plan
from ui.charts import fit_map, gpu_bars, phases
from ui.charts.base import nice_step, shortened
from ui.charts.fit_map import Cell, FitGrid
from ui.numbers import MINUS, gib2, percent, ranges, short_tokens, signed, signed_gib
from ui.tokens import CLEAR, PARTS, SURFACE, style_sheet
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


def test_a_line_above_a_bar_fits_a_phone() -> None:
    long = device(range(1024), name="H100 SXM5 80GB", weights_gib=7000, usable_gib=79)
    assert "1,024 × H100<" in texts(gpu_bars.gpu_bars(plan(long), WORDS))[0]
    short = device([0, 1], name="H100 SXM5 80GB", weights_gib=60, usable_gib=79)
    assert "2 × H100 SXM5 80GB" in texts(gpu_bars.gpu_bars(plan(short), WORDS))[0]


def test_many_groups_show_the_tightest() -> None:
    groups = [device([i], weights_gib=1 + i % 40 / 4) for i in range(60)]
    shown = gpu_bars.shown_groups(plan(*groups))
    assert len(shown) == gpu_bars.MOST_ROWS
    assert max(g.headroom_bytes or 0 for g in shown) <= sorted(g.headroom_bytes or 0 for g in groups)[23]


def test_the_figure_is_said_in_words() -> None:
    assert gpu_bars.alternative(plan(device([5])), WORDS) == "GPU 5 needs 14.5 of 24.0 GiB."


def reach_at(group: DevicePlan, place: int) -> int:
    """Bytes up to the top of what a panel shows at a place of its axis."""
    return sum(area.size_bytes for area in phases.areas(group) if area.start <= place < area.end)


def test_a_phase_panel_stacks_to_the_bytes_of_each_phase() -> None:
    shown = device([0])
    start = 0
    for phase in shown.ledger.phases:
        assert reach_at(shown, start) == shown.ledger.phase_bytes(phase)
        start += phases.WIDTHS[phase]


def test_areas_of_a_panel_lie_on_one_another() -> None:
    shown = device([0])
    for place in range(sum(phases.WIDTHS[phase] for phase in shown.ledger.phases)):
        level = 0
        for area in (area for area in phases.areas(shown) if area.start <= place < area.end):
            assert area.below_bytes == level
            level += area.size_bytes


def test_what_rests_is_faded_and_what_comes_is_not() -> None:
    drawn = phases.areas(device([0]))
    assert [area.resting for area in drawn] == [True, True, False]
    assert drawn[-1].category is Category.LOGITS
    markup = phases.panels([device([0])], WORDS, top=1.14, wide=False)
    assert markup.count('<i class="rest"') == 2
    assert markup.count("<i style=") == 1


def test_a_panel_is_a_share_of_usable_memory() -> None:
    markup = phases.panels([device([0])], WORDS, top=2.0, wide=True)
    edges = [tuple(map(int, found)) for found in re.findall(r"bottom:(\d+)px;height:(\d+)px", markup)]
    assert max(bottom + height for bottom, height in edges) == round(phases.HEIGHT_PX * 14.5 / 24 / 2)
    assert f'<u class="limit" style="bottom:{phases.HEIGHT_PX // 2}px">' in markup


def test_the_line_is_red_where_a_card_is_over_and_absent_where_its_size_is_not_known() -> None:
    over = device([0], usable_gib=5.0, verdict=Verdict.DOES_NOT_FIT)
    unknown = device([0], usable_gib=None, verdict=Verdict.UNKNOWN)
    assert '<u class="over"' in phases.panels([over], WORDS, top=4.0, wide=True)
    assert "<u " not in phases.panels([unknown], WORDS, top=4.0, wide=True)


def test_a_panel_says_its_numbers_and_names_its_parts() -> None:
    markup = phases.panels([device([3])], WORDS, top=1.14, wide=True)
    label = markup.partition('role="img" aria-label="')[2].partition('"')[0]
    assert html.unescape(label) == phases.alternative(device([3]), WORDS)
    assert "GPU 3" in label
    assert f'title="{WORDS("category.logits_and_loss")} 4.00 GiB"' in markup


def test_panels_share_one_axis_that_holds_the_fullest() -> None:
    shown = plan(device([0]), device([1], usable_gib=5.0, verdict=Verdict.DOES_NOT_FIT))
    assert phases.top_of(shown) == pytest.approx(1.06 * 14.5 / 5)
    assert phases.top_of(plan(device([0]))) == phases.LOWEST_TOP


def test_the_fit_map_shows_every_plan_and_frames_this_one() -> None:
    cells = ((Cell(2**30, Verdict.FITS), Cell(-30 * 2**30, Verdict.DOES_NOT_FIT), Cell(None, None)),)
    markup = fit_map.fit_map(
        FitGrid(columns=(1024, 2048, 4096), rows=(1,), cells=cells, current=(0, 1)), WORDS
    )
    assert re.findall(r'<td class="(\w+)"[^>]*>([^<]+)', markup) == [
        ("ok", "+1.0"),
        ("bad", f"{MINUS}30"),
        ("m", "–"),
    ]
    assert re.findall(r'aria-current="true">([^<]+)', markup) == [f"{MINUS}30"]
    assert re.findall(r'<th scope="col">([^<]+)', markup) == ["1k", "2k", "4k"]


def test_the_fit_map_grows_upwards_and_names_each_row() -> None:
    cells = tuple((Cell(size * 2**30, Verdict.FITS),) for size in (1, 2, 3))
    markup = fit_map.fit_map(FitGrid(columns=(1024,), rows=(1, 2, 4), cells=cells, current=None), WORDS)
    assert re.findall(r'<th scope="row">([^<]+)', markup) == ["4", "2", "1"]
    assert re.findall(r'<td class="ok">([^<]+)', markup) == ["+3.0", "+2.0", "+1.0"]
    assert "aria-current" not in markup


@pytest.mark.parametrize("dark", [False, True])
def test_words_on_tints_can_be_read(*, dark: bool) -> None:
    for token in ("bad", "tight", "ok"):
        tint = rgb(SURFACE[f"{token}-tint"][dark])
        assert contrast(rgb(SURFACE[token][dark]), tint) >= LEAST_CONTRAST


def test_the_style_sheet_swaps_every_light_value() -> None:
    sheet = style_sheet()
    assert "$" not in sheet
    for light, dark in [*SURFACE.values(), *PARTS.values()]:
        assert f"light-dark({light},{dark})" in sheet


def test_figures_hold_nothing_that_plotly_does_not_know() -> None:
    shown = plan(device([0], usable_gib=5.0, verdict=Verdict.DOES_NOT_FIT), device([1]))
    checked = go.Figure(gpu_bars.gpu_bars(shown, WORDS).to_plotly_json())
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
    assert (short_tokens(4096), short_tokens(1 << 20), short_tokens(3000)) == ("4k", "1M", "3,000")
    assert shortened("a" * 10, 5) == "aaaa…"
