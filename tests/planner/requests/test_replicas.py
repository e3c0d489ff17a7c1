"""Replicas by rules: a worked example by hand, and what no profile may do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.requests.errors import RequestsInputError
from planner.requests.replicas import Rules, day, fixed_replicas, replica_hours, rules_of, run
from planner.scenario import Autoscale

MINUTE_S = 60.0


def test_the_articles_rules_by_hand() -> None:
    # One replica carries 10 a second, so 600 a minute. Steps of a minute.
    traffic = [5, 8, 8, 35, 35, 40, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    moments = run(traffic, step_s=MINUTE_S, capacity_per_s=10, rules=Rules(busy_frac=0.75))
    seen = [moment.replicas for moment in moments]
    # 50 %: stay. 80 % > 75 %: +2. 8 of 30: stay. 35 of 30: 300 requests wait: busy, +2.
    # (300 + 2100) of 3000 = 80 %: +2. 2400 of 4200: stay. Then idle: one goes after more than five minutes.
    assert seen[:7] == [1, 1, 3, 3, 5, 7, 7]
    assert moments[3].utilisation_frac == 1.0
    assert moments[3].queue_s == pytest.approx(300 / 30)
    assert moments[4].utilisation_frac == pytest.approx(0.8)
    # Six would carry 40 below 75 %, so the seventh is idle from minute 5 on: one goes once that is more than
    # five minutes, and the next after as long again.
    assert seen[7:] == [7] * 4 + [6] * 6 + [5]


def test_a_queue_adds_one() -> None:
    # Utilisation may reach 100 % without a rule for it, so only the wait of 1 s adds a replica.
    rules = Rules(busy_frac=1.0)
    moments = run([11, 11], step_s=10.0, capacity_per_s=10, rules=rules)
    assert moments[0].queue_s == pytest.approx(1.0)
    assert [moment.replicas for moment in moments] == [1, 2]


def test_a_starting_replica_is_paid_for_and_does_not_answer() -> None:
    moments = run([9] * 6, step_s=60.0, capacity_per_s=10, rules=Rules(start_s=120.0))
    assert [(moment.replicas, moment.ready) for moment in moments] == [
        (1, 1), (3, 1), (3, 1), (3, 3), (3, 3), (3, 3),
    ]  # fmt: skip
    assert replica_hours(moments, 60.0) == pytest.approx(16 / 60)


def test_a_scenario_gives_the_rules_and_the_article_the_rest() -> None:
    assert rules_of(None) == Rules()
    given_rules = rules_of(Autoscale(queue_ms_up=500, step_up=4, idle_s_down=60), most=9)
    assert given_rules == Rules(queue_s=0.5, many_up=4, idle_s=60, most=9)
    assert (Rules().busy_frac, Rules().many_up, Rules().queue_s, Rules().few_up) == (0.75, 2, 0.2, 1)
    assert (Rules().idle_s, Rules().down) == (300, 1)


def test_a_day_has_its_quietest_and_fullest_hours() -> None:
    traffic = day(100, steps=24, quiet_frac=0.2)
    assert traffic[4] == pytest.approx(20)
    assert traffic[16] == pytest.approx(100)
    assert len(traffic) == 24


def test_replicas_that_come_and_go_cost_less_than_the_peaks_number() -> None:
    traffic = day(100)
    moments = run(traffic, step_s=300.0, capacity_per_s=10, rules=Rules())
    fixed = fixed_replicas(traffic, capacity_per_s=10, busy_frac=0.75)
    assert fixed == 14
    assert replica_hours(moments, 300.0) < fixed * 24


@given(
    traffic=st.lists(st.floats(0, 500), min_size=1, max_size=80),
    capacity=st.floats(0.5, 50),
    most=st.integers(1, 12),
    start=st.floats(0, 500),
)
def test_replicas_stay_between_least_and_most_and_requests_are_kept(
    traffic: list[float], capacity: float, most: int, start: float
) -> None:
    rules = Rules(most=most, start_s=start)
    moments = run(traffic, step_s=60.0, capacity_per_s=capacity, rules=rules)
    assert len(moments) == len(traffic)
    for moment in moments:
        assert rules.least <= moment.ready <= moment.replicas <= max(most, rules.least)
        assert 0 <= moment.utilisation_frac <= 1
        assert moment.queue_s >= 0
    last = moments[-1]
    waiting = last.queue_s * last.ready * capacity
    done = sum(each.utilisation_frac * each.ready * capacity * 60 for each in moments)
    assert done + waiting == pytest.approx(sum(traffic) * 60, rel=1e-6, abs=1e-6)


def test_bad_values_are_refused() -> None:
    with pytest.raises(RequestsInputError, match="capacity_per_s"):
        run([1], step_s=1, capacity_per_s=0, rules=Rules())
    with pytest.raises(RequestsInputError, match="step_s"):
        run([1], step_s=0, capacity_per_s=1, rules=Rules())
    with pytest.raises(RequestsInputError, match="gpu_utilisation_up"):
        run([1], step_s=1, capacity_per_s=1, rules=Rules(busy_frac=2))
    with pytest.raises(RequestsInputError, match="requests_per_s"):
        day(0)
