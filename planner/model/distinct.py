"""Layers that are one object: a model's equal layers are, so that sums go over kinds of layers, not over layers."""

from collections import Counter
from collections.abc import Sequence

from planner.model.spec import Layer


def distinct(layers: Sequence[Layer]) -> list[tuple[Layer, int]]:
    """Layers that are not the same object, with how often each occurs, in order of first appearance."""
    first: dict[int, Layer] = {}
    for layer in layers:
        first.setdefault(id(layer), layer)
    counts = Counter(map(id, layers))
    return [(layer, counts[key]) for key, layer in first.items()]
