"""Layers that are one object: a model's equal layers are, so that sums go over kinds of layers, not over layers."""

from collections.abc import Sequence
from typing import TypeVar

One = TypeVar("One")


def distinct(layers: Sequence[One]) -> list[tuple[One, int]]:
    """Layers that are not the same object, with how often each occurs, in order of first appearance."""
    keys = [*map(id, layers)]
    return [(layer, keys.count(key)) for key, layer in dict(zip(keys, layers, strict=True)).items()]
