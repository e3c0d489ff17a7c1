"""Shared blocks: by hand, and more sharing never needs more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.requests.errors import RequestsInputError
from planner.requests.sharing import beams, common_beginning, parallel_samples, prefill_saved_tokens

SIZES = {
    "prompt_tokens": st.integers(0, 300),
    "answer_tokens": st.integers(1, 120),
    "block_tokens": st.sampled_from([1, 4, 16, 64]),
}


def test_two_samples_by_hand() -> None:
    # Blocks of 4; a prompt of 10 is two whole blocks and a half, the answer of 6 fills up to 16: four blocks.
    found = parallel_samples(prompt_tokens=10, answer_tokens=6, samples=2, block_tokens=4)
    assert (found.separate, found.shared) == (8, 2 + 2 * 2)
    assert found.saved_frac == pytest.approx(0.25)


@given(samples=st.integers(1, 8), **SIZES)
def test_sharing_a_prompt_never_needs_more(
    samples: int, prompt_tokens: int, answer_tokens: int, block_tokens: int
) -> None:
    found = parallel_samples(
        prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, samples=samples, block_tokens=block_tokens
    )
    assert found.shared <= found.separate
    assert (samples > 1) or found.shared == found.separate


@given(width=st.integers(1, 8), seed=st.integers(0, 5), **SIZES)
def test_beams_need_no_more_than_samples(
    width: int, seed: int, prompt_tokens: int, answer_tokens: int, block_tokens: int
) -> None:
    sizes = {"prompt_tokens": prompt_tokens, "answer_tokens": answer_tokens, "block_tokens": block_tokens}
    found = beams(**sizes, width=width, seed=seed)
    apart = parallel_samples(**sizes, samples=width)
    one = parallel_samples(**sizes, samples=1)
    assert found.separate == apart.separate
    assert one.shared <= found.shared <= apart.shared


def test_one_beam_is_one_sequence() -> None:
    found = beams(prompt_tokens=10, answer_tokens=23, width=1, block_tokens=4)
    assert found.shared == found.separate == 9


def test_survivors_share_what_their_parent_wrote() -> None:
    found = beams(prompt_tokens=100, answer_tokens=400, width=6, block_tokens=16)
    apart = parallel_samples(prompt_tokens=100, answer_tokens=400, samples=6, block_tokens=16)
    assert found.shared < apart.shared
    assert found == beams(prompt_tokens=100, answer_tokens=400, width=6, block_tokens=16)


def test_a_common_beginning_by_hand() -> None:
    # 10 requests of 8 blocks; 5 blocks in common for the 6 that hit: 5 x 5 blocks are not held again.
    found = common_beginning(prefix_tokens=81, request_tokens=128, requests=10, hit_frac=0.6, block_tokens=16)
    assert (found.separate, found.shared) == (80, 80 - 25)
    saved = prefill_saved_tokens(prefix_tokens=81, requests=10, hit_frac=0.6, block_tokens=16)
    assert saved == 25 * 16


@given(
    prefix=st.integers(0, 500),
    rest=st.integers(1, 500),
    requests=st.integers(1, 50),
    hits=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    block=st.sampled_from([1, 16, 64]),
)
def test_more_hits_and_a_longer_beginning_never_need_more(
    prefix: int, rest: int, requests: int, hits: tuple[float, float], block: int
) -> None:
    low, high = sorted(hits)

    def need(tokens: int, hit_frac: float) -> int:
        return common_beginning(
            prefix_tokens=tokens,
            request_tokens=prefix + rest,
            requests=requests,
            hit_frac=hit_frac,
            block_tokens=block,
        ).shared

    assert need(prefix, high) <= need(prefix, low)
    assert need(prefix, high) <= need(prefix // 2, high)


def test_g32_prefix_caching_saves_60_percent_only_for_long_beginnings() -> None:
    def saved(prefix: int, hit_frac: float) -> float:
        return common_beginning(
            prefix_tokens=prefix, request_tokens=1024, requests=100, hit_frac=hit_frac, block_tokens=16
        ).saved_frac

    assert saved(800, 1.0) > 0.6
    assert saved(800, 0.5) < 0.4
    assert saved(200, 1.0) < 0.2


def test_bad_values_name_their_field() -> None:
    with pytest.raises(RequestsInputError, match="shared_prefix_tokens"):
        common_beginning(prefix_tokens=9, request_tokens=8, requests=1, hit_frac=1, block_tokens=1)
    with pytest.raises(RequestsInputError, match="prefix_hit_frac"):
        common_beginning(prefix_tokens=1, request_tokens=8, requests=1, hit_frac=1.5, block_tokens=1)
    with pytest.raises(RequestsInputError, match="beam_width"):
        beams(prompt_tokens=1, answer_tokens=1, width=0, block_tokens=1)
    with pytest.raises(RequestsInputError, match="output_tokens"):
        beams(prompt_tokens=1, answer_tokens=5000, width=2, block_tokens=1)
    with pytest.raises(RequestsInputError, match="block_size"):
        parallel_samples(prompt_tokens=1, answer_tokens=1, samples=1, block_tokens=0)
    with pytest.raises(RequestsInputError, match="prompt_tokens"):
        parallel_samples(prompt_tokens=-1, answer_tokens=1, samples=1, block_tokens=1)
