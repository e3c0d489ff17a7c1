"""Figures of the Requests section: what is drawn is what was worked out, and is said in words."""

from __future__ import annotations

import pytest

from planner.requests.queue import Waited
from planner.requests.replicas import Rules, day, run
from ui.charts import replicas_day, shares, waiting
from ui.words import words_for

WORDS = words_for("en")


def waited(throughput: float, latency: float) -> Waited:
    """One point."""
    return Waited(
        throughput_per_s=throughput,
        mean_wait_s=1,
        p95_wait_s=2,
        mean_latency_s=latency,
        mean_batch=3,
        busy_frac=0.5,
    )


def test_bars_are_shares_of_one() -> None:
    bars = [("Blocks", 0.97, True), ("Longest", 0.1, False)]
    figure = shares.shares(bars, WORDS)
    track, filled = figure.data
    assert list(track.x) == [1.0, 1.0]
    assert list(filled.x) == [0.97, 0.1]
    assert filled.marker.color[0] != filled.marker.color[1]
    assert shares.alternative(bars, WORDS) == "Blocks: 97\u00a0%; Longest: 10\u00a0%"


def test_each_way_is_a_line_and_its_most_is_said() -> None:
    curves = {
        "alone": [waited(0.1, 10), waited(0.2, 90)],
        "dynamic": [waited(0.5, 12), waited(1.5, 14)],
        "continuous": [waited(0.5, 9), waited(1.6, 11)],
    }
    figure = waiting.waiting(curves, WORDS)
    assert [list(trace.x) for trace in figure.data] == [[0.1, 0.2], [0.5, 1.5], [0.5, 1.6]]
    assert len({trace.line.dash for trace in figure.data}) == 3
    low, high = figure.layout.yaxis.range
    assert 10**low < 9
    assert 10**high > 90
    assert "joining between steps: at most 1.60 requests a second, 11.00 s" in waiting.alternative(
        curves, WORDS
    )


def test_a_line_at_one_height_still_has_ticks() -> None:
    figure = waiting.waiting({"alone": [waited(1, 5)]}, WORDS)
    assert list(figure.layout.yaxis.tickvals) == [5]


def test_a_day_is_traffic_and_replicas_in_one_unit() -> None:
    moments = run(day(8.0, steps=288), step_s=300.0, capacity_per_s=2.0, rules=Rules())
    load, there = replicas_day.replicas_day(moments, 2.0, WORDS).data
    assert max(load.y) == pytest.approx(4.0)
    assert list(there.y) == [moment.replicas for moment in moments]
    assert there.line.shape == "hv"
    text = replicas_day.alternative(moments, 2.0, WORDS)
    assert text.startswith("Traffic for at most 4.0 replicas.")
    assert str(max(moment.replicas for moment in moments)) in text
