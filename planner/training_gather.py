"""Ledger entries of FSDP's whole units: parameters gathered for use, gradients before they are scattered."""

from collections.abc import Sequence
from dataclasses import dataclass

from planner.ledger import Category, Entry, Phase
from planner.memory.formats import packed_bits
from planner.memory.inventory import Tensor
from planner.memory.terms import item, whole
from planner.training_setup import Setup
from planner.training_step import Step
from planner.units import ceil_div


@dataclass(frozen=True, slots=True)
class Units:
    """Elements per unit: all outside the layers (root), and an average layer's, packed ones apart."""

    root: int
    layer: int
    packed: int


def units(step: Step, tensors: Sequence[Tensor]) -> Units:
    """The root unit and an average layer."""
    setup = step.setup
    inside = [t for t in tensors if t.place in {"layers", "experts"}]
    packed = sum(t.params for t in inside if setup.quantized_base and t.quantizable)
    plain = sum(t.params for t in inside) - packed
    layers = max(1, step.num_layers)
    root = sum(t.params for t in tensors) - plain - packed
    return Units(root, ceil_div(plain, layers), ceil_div(packed, layers))


def is_gathered(setup: Setup) -> bool:
    """Whether parameters are gathered unit by unit."""
    return setup.parallel.sharding == "fsdp" and setup.shard_weights > 1


def gathered_entries(step: Step, alive: int, phases: frozenset[Phase]) -> list[Entry]:
    """The root unit, which stays gathered, and `alive` layers (the current one, and the prefetched one)."""
    if not is_gathered(step.setup):
        return []
    setup, size, e = step.setup, units(step, step.held), step.setup.compute_bytes
    root = item(
        Category.COMMUNICATION,
        "gathered_root",
        size.root * e,
        "R*e",
        {"R": size.root, "e": e},
        "fsdp_gather",
        phases=phases,
    )
    if not alive:
        return [root]
    if not size.packed:
        amount, formula = alive * size.layer * e, "k*U*e"
        symbols: dict[str, int | float] = {"k": alive, "U": size.layer, "e": e}
    else:
        bits = packed_bits(setup.base)
        amount = whole(alive * (size.layer * e + size.packed * bits / 8))
        formula = "ceil(k*(U*e + Q*bits/8))"
        symbols = {"k": alive, "U": size.layer, "e": e, "Q": size.packed, "bits": bits}
    layers = item(
        Category.COMMUNICATION, "gathered_layers", amount, formula, symbols, "fsdp_gather", phases=phases
    )
    return [root, layers]


def unit_gradient_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Whole gradients of one unit before reduce-scatter; frozen units have none."""
    setup = step.setup
    if not is_gathered(setup) or setup.adapter is not None:
        return []
    unit, e = units(step, step.held).layer, setup.compute_bytes
    return [
        item(
            Category.COMMUNICATION,
            "unit_gradients",
            unit * e,
            "U*e",
            {"U": unit, "e": e},
            "fsdp_scatter",
            phases=phases,
        )
    ]
