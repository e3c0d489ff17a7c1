"""Gradients of PyTorch's first FSDP where a unit is one flat parameter (`use_orig_params`), as LitGPT runs it.

A flat parameter that holds anything trained needs a gradient as a whole: the frozen weights beside an adapter get
theirs too. While a loop accumulates (`no_sync`), gradients stay whole on every rank until the last micro-batch.
"""

from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.litgpt import longest_first
from planner.memory.terms import item
from planner.training.gradients import keeps_whole_gradients
from planner.training.setup import Setup
from planner.training.step import BACKWARD, FORWARD_AND_LOSS, Step
from planner.units import ceil_div

OPTIMIZER_STEP: Final = frozenset({Phase.OPTIMIZER_STEP})


def is_flat(setup: Setup) -> bool:
    """Whether units are flat parameters of the first FSDP, trained and frozen together."""
    return setup.runtime == "litgpt" and setup.parallel.sharding == "fsdp" and setup.shard_weights > 1


def flat_params(step: Step) -> int:
    """Elements of the units that hold something trained: all in full training, the layers' with adapters."""
    if step.setup.adapter is None:
        return step.trained_params
    inside = sum(t.params for t in step.held if t.place in {"layers", "experts"})
    return inside + step.trained_params


def root_params(step: Step) -> int:
    """Trained elements outside the layers, which form the root unit."""
    if step.setup.adapter is not None:
        return 0
    return step.trained_params - step.trained_at["layers"] - step.trained_at["experts"]


def flat_gradient_entries(step: Step) -> list[Entry]:
    """Whole gradients while a loop accumulates, and the frozen weights' part of what is left after the exchange."""
    setup = step.setup
    if not is_flat(setup):
        return []
    params, e, n = flat_params(step), setup.gradient_bytes, setup.shard_gradients
    frozen = params - step.trained_params
    entries = []
    if keeps_whole_gradients(setup) and not longest_first(setup):
        entries.append(
            _entry("whole_gradients", params * e, "P*e", {"P": params, "e": e}, FORWARD_AND_LOSS | BACKWARD)
        )
    elif frozen and not longest_first(setup):
        symbols = {"F": frozen, "N": n, "e": e}
        entries.append(_entry("frozen_gradients", ceil_div(frozen, n) * e, "ceil(F/N)*e", symbols, BACKWARD))
    if frozen:
        symbols = {"F": frozen, "N": n, "e": e}
        entries.append(
            _entry("frozen_gradients", ceil_div(frozen, n) * e, "ceil(F/N)*e", symbols, OPTIMIZER_STEP)
        )
    return entries


def growing_gradients(step: Step, params: int) -> list[Entry]:
    """Whole gradients as they come, where the fullest micro-batch is the first: all but one unit's at the first layer.

    Args:
        step: The step.
        params: Trained elements whose gradients have come; 0 means none have, with adapters.
    """
    setup = step.setup
    whole = params if setup.adapter is None else flat_params(step) * bool(params)
    n = 1 if keeps_whole_gradients(setup) else setup.shard_gradients
    held, e = ceil_div(whole, n), setup.gradient_bytes
    symbols = {"P": whole, "N": n, "e": e}
    return [_entry("whole_gradients", held * e, "ceil(P/N)*e", symbols, BACKWARD)]


def root_gradient_entries(step: Step) -> list[Entry]:
    """At the end of the backward pass: the root unit's gradients, and the flat one that they are written into."""
    params, e = root_params(step) if is_flat(step.setup) else 0, step.setup.compute_bytes
    if not params:
        return []
    return [_entry("unit_gradients", 2 * params * e, "2*R*e", {"R": params, "e": e}, BACKWARD)]


def _entry(name: str, amount: int, formula: str, symbols: dict[str, int], phases: frozenset[Phase]) -> Entry:
    return item(Category.GRADIENTS, name, amount, formula, symbols, "fsdp_flat", phases=phases)
