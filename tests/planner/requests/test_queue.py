"""Queues in front of a model, by hand and as they must behave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.requests.errors import RequestsInputError
from planner.requests.queue import arrivals, capacity_per_s, continuous, dynamic, linear_step

STEP = linear_step(0.02, 0.001)


def test_a_batch_waits_for_its_delay_by_hand() -> None:
    # One second a step, one token. Requests at 0, 0.1 and 5; up to 0.5 s for a batch of four.
    found = dynamic(
        [0.0, 0.1, 5.0], linear_step(1.0, 0.0), answer_tokens=1, most=4, max_delay_s=0.5, preferred=(4,)
    )
    # The first two begin at 0.5 and end at 1.5; the third begins at 5.5 and ends at 6.5.
    assert found.mean_batch == pytest.approx(1.5)
    assert found.mean_wait_s == pytest.approx((0.5 + 0.4 + 0.5) / 3)
    assert found.mean_latency_s == pytest.approx((1.5 + 1.4 + 1.5) / 3)
    assert found.throughput_per_s == pytest.approx(3 / 6.5)
    assert found.busy_frac == pytest.approx(2 / 6.5)


def test_a_preferred_size_goes_at_once_by_hand() -> None:
    found = dynamic(
        [0.0, 0.1, 0.2], linear_step(1.0, 0.0), answer_tokens=1, most=4, max_delay_s=9, preferred=(2,)
    )
    # Two go at 0.1; the third waits for the model until 1.1 and for a second request until 9.2.
    assert found.mean_wait_s == pytest.approx((0.1 + 0.0 + 9.0) / 3)


def test_joining_between_steps_by_hand() -> None:
    # Two tokens each, a second a step. The second request joins after the first step.
    found = continuous([0.0, 0.5], linear_step(1.0, 0.0), answer_tokens=2, most=2)
    assert found.mean_wait_s == pytest.approx((0.0 + 0.5) / 2)
    assert found.mean_latency_s == pytest.approx((2.0 + 2.5) / 2)
    assert found.mean_batch == pytest.approx(4 / 3)


def test_without_a_delay_and_alone_both_are_one_queue() -> None:
    times = arrivals(10, 200)
    one = dynamic(times, STEP, answer_tokens=4, most=1, max_delay_s=0)
    other = continuous(times, STEP, answer_tokens=4, most=1)
    assert one.mean_wait_s == pytest.approx(other.mean_wait_s)
    assert one.throughput_per_s == pytest.approx(other.throughput_per_s)


def test_batches_carry_what_one_at_a_time_cannot() -> None:
    times = arrivals(100, 600)
    alone = dynamic(times, STEP, answer_tokens=2, most=1, max_delay_s=0)
    batched = dynamic(times, STEP, answer_tokens=2, most=16, max_delay_s=0.01)
    joined = continuous(times, STEP, answer_tokens=2, most=16)
    assert alone.throughput_per_s == pytest.approx(capacity_per_s(STEP, 1, 2), rel=0.02)
    assert batched.throughput_per_s > 3 * alone.throughput_per_s
    assert joined.p95_wait_s < batched.p95_wait_s < alone.p95_wait_s


def test_a_longer_delay_trades_waiting_for_larger_batches() -> None:
    times = arrivals(50, 500)
    short = dynamic(times, STEP, answer_tokens=1, most=32, max_delay_s=0.0, preferred=(32,))
    long = dynamic(times, STEP, answer_tokens=1, most=32, max_delay_s=0.2, preferred=(32,))
    assert long.mean_batch > short.mean_batch
    assert long.mean_wait_s > short.mean_wait_s


@given(
    rate=st.floats(0.5, 200),
    number=st.integers(1, 60),
    most=st.integers(1, 9),
    tokens=st.integers(1, 9),
    delay=st.floats(0, 1),
    preferred=st.lists(st.integers(1, 12), max_size=3),
    seed=st.integers(0, 3),
)
def test_nobody_is_lost_and_no_time_is_negative(
    rate: float, number: int, most: int, tokens: int, delay: float, preferred: list[int], seed: int
) -> None:
    times = arrivals(rate, number, seed)
    for found in (
        dynamic(times, STEP, answer_tokens=tokens, most=most, max_delay_s=delay, preferred=preferred),
        continuous(times, STEP, answer_tokens=tokens, most=most),
    ):
        assert 0 <= found.mean_wait_s <= found.mean_latency_s - tokens * STEP(1) + 1e-9
        assert 1 <= found.mean_batch <= most
        assert 0 < found.busy_frac <= 1 + 1e-9
        assert found.throughput_per_s <= capacity_per_s(STEP, most, tokens) * (1 + 1e-9) or number < most


def test_bad_values_are_refused() -> None:
    for call, field in (
        (lambda: arrivals(0, 5), "requests_per_s"),
        (lambda: linear_step(0, 1), "alone_s"),
        (lambda: linear_step(1, -1), "each_further_s"),
        (lambda: dynamic([0.0], STEP, answer_tokens=0, most=1, max_delay_s=0), "output_tokens"),
        (lambda: dynamic([0.0], STEP, answer_tokens=1, most=0, max_delay_s=0), "max_sequences"),
        (lambda: dynamic([0.0], STEP, answer_tokens=1, most=1, max_delay_s=-1), "max_delay_ms"),
    ):
        with pytest.raises(RequestsInputError, match=field):
            call()
