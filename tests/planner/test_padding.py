"""Padding and packing by hand, and what always holds (SEEDS B5)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.padding import Batches, Way, ways
from planner.requests.errors import RequestsInputError
from planner.requests.lengths import CHAT, draw


def found(lengths: list[int], batch: int, limit: int) -> dict[Way, Batches]:
    return {one.way: one for one in ways(np.asarray(lengths, dtype=np.int64), batch=batch, limit=limit)}


def test_four_rows_by_hand() -> None:
    told = found([2, 8, 2, 8], batch=2, limit=10)
    assert (told[Way.STATIC].computed_tokens, told[Way.STATIC].wasted_frac) == (40, 0.5)
    assert (told[Way.GROUPED].computed_tokens, told[Way.GROUPED].wasted_frac) == (20, 0.0)
    assert (told[Way.PACKED].computed_tokens, told[Way.PACKED].steps) == (20, 1)
    assert told[Way.DYNAMIC].computed_tokens in {20, 32}
    assert [told[way].longest_row for way in Way] == [10, 8, 8, 10]


def test_b5_chats_waste_most_of_a_static_batch_and_little_of_a_packed_one() -> None:
    told = {one.way: one for one in ways(draw(CHAT, 4000, longest=4096), batch=8, limit=4096)}
    assert told[Way.STATIC].wasted_frac > 0.8
    assert 0.4 < told[Way.DYNAMIC].wasted_frac < 0.75
    assert told[Way.GROUPED].wasted_frac < 0.1
    assert told[Way.PACKED].wasted_frac < 0.02


def test_longer_rows_are_cut() -> None:
    told = found([50, 50], batch=1, limit=10)
    assert {one.real_tokens for one in told.values()} == {20}


@given(st.lists(st.integers(1, 64), min_size=1, max_size=60), st.integers(1, 8), st.integers(8, 64))
def test_no_way_loses_tokens_or_computes_more_than_static(lengths: list[int], batch: int, limit: int) -> None:
    told = found(lengths, batch, limit)
    real = sum(min(length, limit) for length in lengths)
    for one in told.values():
        assert one.real_tokens == real <= one.computed_tokens <= told[Way.STATIC].computed_tokens
        assert one.longest_row <= limit
    assert told[Way.PACKED].computed_tokens - real < told[Way.PACKED].computed_tokens / 2 + limit


@pytest.mark.parametrize(("lengths", "batch", "limit"), [([], 1, 8), ([0], 1, 8), ([4], 0, 8), ([4], 1, 0)])
def test_what_cannot_be_is_refused(lengths: list[int], batch: int, limit: int) -> None:
    with pytest.raises(RequestsInputError):
        found(lengths, batch, limit)
