"""Which of a layer's gradients are there at its fullest moment."""

from typing import Final

from planner.memory.adapters import layer_sites
from planner.model.spec import Linear, Part, Split
from planner.training.inside_layer import at_scores
from planner.training.step import Kind, Step, once_a_layer
from planner.units import ceil_div

FEED_FORWARD: Final = frozenset({Part.MLP, Part.EXPERTS, Part.SHARED_EXPERTS, Part.ROUTER})


def trained_in(step: Step, kind: Kind) -> int:
    """Elements of a layer that get gradients."""
    adapter = step.setup.adapter
    if adapter is None:
        return kind.layer.params
    return step.trained_at["adapter"] // max(1, step.num_layers)


def arrived(step: Step, kind: Kind) -> int:
    """Elements of a layer whose gradients are there at its fullest moment."""
    come, whole = _come(step, kind)
    if step.setup.adapter is None:
        return come
    return trained_in(step, kind) * come // whole if whole else 0


@once_a_layer
def _come(step: Step, kind: Kind) -> tuple[int, int]:
    """Elements whose gradients have come, of all; of adapters, by the widths that they join.

    The down projection's comes with that of the product before it; at the softmax all the feed-forward part's and the
    output projection's have.
    """
    scores, adapter = at_scores(step, kind), step.setup.adapter

    def has(x: Linear) -> bool:
        if scores:
            return x.part in FEED_FORWARD or (x.part is Part.ATTENTION and x.split is Split.ROW)
        return x.part is Part.MLP and x.split is Split.ROW

    if adapter is None:
        ranks = step.setup.division.tensor
        return sum(ceil_div(x.params, ranks) for x in kind.layer.linears if has(x)), kind.layer.params
    sites = [x for x in layer_sites(kind.layer, adapter) if x.copies == 1]
    sizes = {True: 0, False: 0}
    for x in sites:
        sizes[has(x)] += x.in_features + x.out_features
    return sizes[True], sizes[True] + sizes[False]
