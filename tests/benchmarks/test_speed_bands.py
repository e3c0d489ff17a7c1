"""Bands of times: sources are the unit, and a source says nothing about a band that it is tested with."""

import numpy as np
import pytest

from benchmarks.speed_bands import band, held_out, votes

ERROR = np.log(np.array([1.1, 0.9, 1.2, 0.8, 1.05, 3.0]))
FAMILIES = np.array(["a", "a", "b", "b", "c", "d"])
KINDS = np.array(["full", "full", "full", "full", "full", "offline"])


def test_votes_are_logarithms_of_observed_over_predicted() -> None:
    found = votes(ERROR, FAMILIES, KINDS == "full")
    assert sorted(found) == ["a", "b", "c"]
    assert found["c"][0] == pytest.approx(-np.log(1.05))


def test_a_source_weighs_alike_however_many_runs_it_has() -> None:
    once = band(ERROR, FAMILIES, KINDS, "full")
    a = FAMILIES == "a"
    error, families, kinds = (
        np.concatenate([array, np.repeat(array[a], 20)]) for array in (ERROR, FAMILIES, KINDS)
    )
    assert band(error, families, kinds, "full") == once
    assert once[0] < 1 < once[1]


def test_fewer_sources_make_a_wider_band() -> None:
    two = FAMILIES != "c"
    low, high = band(ERROR[two], FAMILIES[two], KINDS[two], "full")
    assert low < band(ERROR, FAMILIES, KINDS, "full")[0]
    assert high > band(ERROR, FAMILIES, KINDS, "full")[1]


def test_a_kind_of_one_source_has_that_of_others_beside_it() -> None:
    low, high = band(ERROR, FAMILIES, KINDS, "offline")
    assert low <= 1 / 3
    assert high > 1
    assert band(ERROR, FAMILIES, KINDS, "nothing of it")[0] < 1


def test_the_band_of_a_source_is_made_without_it() -> None:
    found = dict(held_out(ERROR, FAMILIES, KINDS, np.ones(len(ERROR), bool)))
    assert {name: len(inside) for name, inside in found.items()} == {"a": 2, "b": 2, "c": 1, "d": 1}
    assert not found["d"][0]
    others = FAMILIES != "a"
    low, high = band(ERROR[others], FAMILIES[others], KINDS[others], "full")
    assert list(found["a"]) == [low <= value <= high for value in np.exp(-ERROR[:2])]
