"""The Plan page's section on time: bars, sentences and tables, from the planner's own figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from planner.throughput.network_need import network_need
from planner.throughput.serving_speed import serving_speed
from planner.throughput.training_speed import training_speed
from planner.throughput.types import SpeedBand, Unknown
from tests.planner.throughput.cases import TABLES, made, serving, training
from ui.charts.step_time import KINDS, alternative, shares, step_time
from ui.speed import wording
from ui.speed.panel import concurrency_table, parts_table, serving_bars, training_bars
from ui.words import words_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest

    OpenPage = Callable[..., AppTest]

WORDS = words_for("en")


def test_every_part_has_a_kind_words_and_a_colour_of_its_own() -> None:
    for code in ("en", "zh"):
        words = words_for(code)
        for kind in KINDS.values():
            assert all(words.has(f"speed.part.{name}") for name in kind.parts)
        assert all(words.has(f"speed.{group}.{name}") for name in KINDS for group in ("kind", "inside"))
    trains = {"matrix_products", "attention", "memory_traffic", "recompute", "launches", "communication",
              "pipeline_bubble", "optimizer_step", "host_transfers"}  # fmt: skip
    serves = {"weights_read", "matrix_products", "attention", "kv_read", "memory_traffic", "launches",
              "communication", "engine"}  # fmt: skip
    for job in (trains, serves):
        assert len({(KINDS[name].category, KINDS[name].hatched) for name in job}) == len(job)


def test_a_bar_has_a_box_a_kind_and_they_fill_the_step() -> None:
    found = training_speed(made(training(checkpointing="full")), TABLES)
    bars = training_bars(found, WORDS)
    by_kind = shares(found.parts)
    assert sum(by_kind.values()) == pytest.approx(1)
    html = step_time(bars, WORDS)
    assert html.count('<i class="part') == len(by_kind)
    assert "hatched" in html
    said = alternative(bars[0], WORDS)
    assert WORDS("speed.kind.recompute") in said
    assert str(round(100 * by_kind["recompute"])) in said


def test_a_wide_band_is_drawn_open() -> None:
    found = training_speed(made(training()), TABLES)
    bar = training_bars(found, WORDS)[0]
    wide = SpeedBand(low_s=1, high_s=9, low_frac=0.7, high_frac=4.0, n_rows=5, kind="served_batch")
    assert 'class="open"' in step_time([replace(bar, band=wide)], WORDS)
    assert "<em" not in step_time([replace(bar, band=None)], WORDS)


def test_the_sentence_of_a_step_says_rate_mfu_and_bound() -> None:
    found = training_speed(made(training(checkpointing="full")), TABLES)
    said = wording.training_sentence(found, WORDS)
    assert wording.three_digits(found.tokens_per_s or 0) in said
    assert f"MFU {100 * (found.mfu or 0):.0f}" in said
    assert WORDS("speed.inside.matrix_products") in said


def test_a_server_has_a_bar_for_the_first_token_and_one_for_the_next() -> None:
    plan = made(serving(load={"concurrency": 8, "prompt_tokens": 1024, "output_tokens": 256}))
    found = serving_speed(plan, TABLES)
    first, following = serving_bars(found, WORDS)
    assert sum(part.time_s for part in first.parts) == pytest.approx(found.ttft_s)
    assert sum(part.time_s for part in following.parts) == pytest.approx(found.tpot_s)
    table = concurrency_table(plan, found, WORDS)
    assert table.count("<tr>") == 7
    assert wording.seconds(found.tpot_s or 0, WORDS) in table


def test_a_band_stands_beside_every_time_and_rate() -> None:
    found = training_speed(made(training()), TABLES)
    assert found.band is not None
    text = wording.time_band(found.step_time_s or 0, found.band, WORDS)
    assert wording.seconds(found.band.low_s, WORDS) in text
    assert wording.seconds(found.band.high_s, WORDS) in text
    slow = wording.three_digits((found.tokens_per_s or 0) / found.band.high_frac)
    assert slow in wording.rate_band(found.tokens_per_s or 0, found.band, WORDS)
    assert "460" in wording.foot(found.band, WORDS)
    assert wording.foot(None, WORDS) == WORDS("speed.foot.none")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12.3 ms"),
        (1.25, "1.25 s"),
        (119, "119 s"),
        (150, "2.50 min"),
        (9000, "2.50 h"),
        (1e-5, "0.01 ms"),
    ],
)
def test_times_have_three_digits(value: float, text: str) -> None:
    assert wording.seconds(value, WORDS) == text


def test_the_network_is_held_against_the_nodes_own() -> None:
    job = training(cards=16, parallel={"sharding": "fsdp"})
    job["hardware"]["links"] = {"inter_node_gbit": 25}
    plan = made(job)
    need = network_need(plan, training_speed(plan, TABLES), TABLES)
    assert need is not None
    assert need.own_bytes_per_s == pytest.approx(25e9 / 8)
    assert need.is_enough is False
    assert "25.0" in wording.network_sentence(need, WORDS)
    alone = made(training())
    assert network_need(alone, training_speed(alone, TABLES), TABLES) is None
    unknown = replace(need, own_bytes_per_s=None)
    assert wording.network_sentence(unknown, WORDS) == WORDS(
        "speed.network.unknown", needed=wording.gigabits(need.needed_bytes_per_s)
    )


def test_what_the_tables_lack_is_said() -> None:
    item = Unknown(code="no_peak_rate", gpu_id="no-such-card", params=(("dtype", "fp8"),))
    assert wording.unknown_lines((item,), WORDS) == [
        WORDS("speed.unknown.no_peak_rate", gpu="no-such-card", dtype="fp8")
    ]
    codes = (
        "no_power_limit",
        "no_bandwidth",
        "no_peer_link",
        "no_network_rate",
        "no_host_link",
        "no_disk_rate",
        "no_host_memory_rate",
    )
    assert all(words_for(code).has(f"speed.unknown.{name}") for code in ("en", "zh") for name in codes)


def test_the_table_names_where_each_formula_is_from() -> None:
    found = training_speed(made(training(checkpointing="full")), TABLES)
    table = parts_table(found.parts, WORDS, "x")
    assert "Sublinear Memory" in table
    assert table.count("<tr>") == len(found.parts) + 1


def test_the_section_stands_on_the_plan_page(open_page: OpenPage) -> None:
    page = open_page()
    assert not page.exception
    assert any("falls times" in item.proto.body for item in page.get("html"))
