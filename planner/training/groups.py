"""Tensors that are divided over the same ranks, and what of them one rank holds."""

from collections.abc import Iterable
from typing import NamedTuple

from planner.memory.inventory import Tensor
from planner.training.setup import Setup
from planner.units import ceil_div


class Group(NamedTuple):
    """Tensors sharded over the same ranks.

    Attributes:
        prefix: `""`, or `expert_` for routed experts (their own data-parallel group).
        tensors: The tensors.
        params: Their elements.
    """

    prefix: str
    tensors: tuple[Tensor, ...]
    params: int


def grouped(tensors: Iterable[Tensor]) -> tuple[Group, ...]:
    """Dense tensors and routed experts apart; empty groups left out."""
    dense: list[Tensor] = []
    experts: list[Tensor] = []
    for tensor in tensors:
        (experts if tensor.place == "experts" else dense).append(tensor)
    parts = (("", dense, total(dense)), ("expert_", experts, total(experts)))
    return tuple([Group(prefix, tuple(of), params) for prefix, of, params in parts if params])


def total(tensors: Iterable[Tensor]) -> int:
    """Elements of all tensors."""
    return sum([tensor.params for tensor in tensors])


def divided(params: int, ranks: int, symbol: str = "P") -> tuple[int, str, dict[str, int | float]]:
    """Elements on one rank, the formula, and its symbols."""
    if ranks == 1:
        return params, symbol, {symbol: params}
    return ceil_div(params, ranks), f"ceil({symbol}/N)", {symbol: params, "N": ranks}


def shard_of(setup: Setup, group: Group, ranks: int) -> int:
    """Ranks a group's share is divided over, where `ranks` is what dense tensors are divided over."""
    return setup.shard_experts if group.prefix and ranks > 1 else ranks
