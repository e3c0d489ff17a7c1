"""Which short models stand for a full one."""

import pytest

from profiler.trace.repeats import FullModeError, choose


@pytest.mark.parametrize(
    ("kinds", "lengths"),
    [
        (["a"] * 32, (4, 1, 32)),
        (["d"] * 3 + ["a"] * 58, (7, 1, 61)),
        (["sliding", "sliding", "full"] * 8, (9, 3, 24)),
    ],
)
def test_the_smallest_pair_of_models_is_chosen(kinds: list[str], lengths: tuple[int, int, int]) -> None:
    """All alike, the first three dense, every third full."""
    assert choose(kinds) == lengths


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["a"] * 9, "few_layers"),
        (["a", "b"] * 3, "few_layers"),
        (list("abacadaeafag"), "no_repeating_layers"),
    ],
)
def test_where_none_gains_anything_the_model_is_traced_whole(kinds: list[str], code: str) -> None:
    with pytest.raises(FullModeError) as refused:
        choose(kinds)
    assert refused.value.code == code
