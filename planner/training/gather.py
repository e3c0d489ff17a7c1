"""Ledger entries of FSDP's whole units: parameters gathered for use, gradients before they are scattered."""

from dataclasses import dataclass
from typing import Final

from planner.lazy import once
from planner.ledger import Category, Entry, Phase
from planner.memory.formats import packed_bits
from planner.memory.terms import item, whole
from planner.training.fsdp1_flat import is_flat
from planner.training.setup import Setup
from planner.training.step import Step
from planner.units import ceil_div

COMPOSER_TRAINS: Final = frozenset({"mpt"})
"""Model types whose published FSDP runs are Composer's (LLM Foundry), which uses the first FSDP."""


@dataclass(frozen=True, slots=True)
class Units:
    """Elements per unit: all outside the layers (root), and an average layer's, packed ones apart."""

    root: int
    layer: int
    packed: int


@once
def units(step: Step) -> Units:
    """The root unit and an average layer."""
    setup = step.setup
    inside = [t for t in step.held if t.place in {"layers", "experts"}]
    packed = sum(t.params for t in inside if setup.quantized_base and t.quantizable)
    plain = sum(t.params for t in inside) - packed
    layers = max(1, step.num_layers)
    root = sum(t.params for t in step.held) - plain - packed
    return Units(root, ceil_div(plain, layers), ceil_div(packed, layers))


def is_gathered(setup: Setup) -> bool:
    """Whether parameters come unit by unit: from the other ranks, or from the host where they are kept there."""
    away = setup.shard_weights > 1 or setup.parallel.offload.parameters != "none"
    return setup.parallel.sharding == "fsdp" and away


FSDP2_RUNTIMES: Final = frozenset({"generic", "torchtitan", "torchtune"})
"""Runtimes that call `fully_shard`, PyTorch's second FSDP. accelerate (hf_trainer, unless told otherwise), Lightning
Fabric (litgpt) and Composer wrap modules in the first."""
TORCHTUNE_FSDP2_SINCE: Final = (0, 3)
TORCHTUNE_FSDP2_DATE: Final = (2024, 9)
FIRST_YEAR: Final = 2019


def uses_fsdp2(step: Step) -> bool:
    """Whether units are those of PyTorch's second FSDP, without a pipeline's habits; a U-Net's are not described.

    torchtune's recipes changed to it with 0.3 of September 2024. The model types with their own fused loss are trained
    by Composer, on the first.
    """
    setup = step.setup
    if not is_gathered(setup) or setup.runtime not in FSDP2_RUNTIMES or step.share.num_stages > 1:
        return False
    if step.model.unet is not None:
        return False
    if setup.runtime == "torchtune" and setup.version:
        dated = setup.version[0] >= FIRST_YEAR
        return setup.version >= (TORCHTUNE_FSDP2_DATE if dated else TORCHTUNE_FSDP2_SINCE)
    return setup.runtime != "generic" or step.model.model_type not in COMPOSER_TRAINS


def stays_gathered(setup: Setup, num_stages: int) -> bool:
    """Whether units stay whole from their first use to the end of the step.

    As asked for (`reshard_after_forward`); if not said, FSDP2 under a pipeline does (torchtitan
    `reshard_after_forward_policy="default"`: gathering again for every micro-batch would cost too much). In its graph
    trainer a gathered unit is an activation like others: kept where nothing is made again.
    """
    given = setup.parallel.reshard_after_forward
    if given is not None:
        return not given
    kept = setup.whole_graph and setup.training.checkpointing in {None, "none"}
    return num_stages > 1 or kept


def gathered_entries(step: Step, alive: int, phases: frozenset[Phase]) -> list[Entry]:
    """The root unit, which stays gathered, and `alive` layers (the current one, and the prefetched one)."""
    if not is_gathered(step.setup):
        return []
    if stays_gathered(step.setup, step.share.num_stages):
        alive = step.num_layers
    return whole_units(step, alive, phases)


def whole_units(step: Step, alive: int, phases: frozenset[Phase]) -> list[Entry]:
    """The root unit and `alive` layers."""
    return [root_unit(step, units(step).root, phases), *whole_layers(step, alive, phases)]


def root_unit(step: Step, params: int, phases: frozenset[Phase]) -> Entry:
    """Gathered parameters outside the layers."""
    e = step.setup.compute_bytes
    symbols = {"R": params, "e": e}
    return item(
        Category.COMMUNICATION, "gathered_root", params * e, "R*e", symbols, "fsdp_gather", phases=phases
    )


def whole_layers(step: Step, alive: int, phases: frozenset[Phase]) -> list[Entry]:
    """Gathered parameters of `alive` layers."""
    setup, size, e = step.setup, units(step), step.setup.compute_bytes
    if not alive:
        return []
    if not size.packed:
        amount, formula = alive * size.layer * e, "k*U*e"
        symbols: dict[str, int | float] = {"k": alive, "U": size.layer, "e": e}
    else:
        bits = packed_bits(setup.base)
        amount = whole(alive * (size.layer * e + size.packed * bits / 8))
        formula = "ceil(k*(U*e + Q*bits/8))"
        symbols = {"k": alive, "U": size.layer, "e": e, "Q": size.packed, "bits": bits}
    return [
        item(
            Category.COMMUNICATION, "gathered_layers", amount, formula, symbols, "fsdp_gather", phases=phases
        )
    ]


def unit_gradient_entries(step: Step, phases: frozenset[Phase]) -> list[Entry]:
    """Whole gradients of one unit before reduce-scatter; frozen units have none.

    A flat parameter's gradient is put together from its parts', which are there until it is.
    Under a pipeline they are summed over micro-batches before they are scattered, so all of the stage's are whole.
    """
    setup, flat = step.setup, is_flat(step.setup)
    if not is_gathered(setup) or (setup.adapter is not None and not flat):
        return []
    unit, e = units(step).layer, setup.compute_bytes
    if flat:
        return [_unit_gradients(2 * unit * e, "2*U*e", {"U": unit, "e": e}, "fsdp_flat", phases)]
    if step.share.num_stages > 1:
        whole, kept = step.trained_params, setup.gradient_bytes
        return [
            _unit_gradients(whole * kept, "U*e", {"U": whole, "e": kept}, "fsdp_scatter", phases),
            _scatter_input(unit, e, kept, phases),
        ]
    return [_unit_gradients(unit * e, "U*e", {"U": unit, "e": e}, "fsdp_scatter", phases)]


def _scatter_input(unit: int, e: int, kept: int, phases: frozenset[Phase]) -> Entry:
    """The last micro-batch's own gradients of one unit, and their sum copied for the reduce-scatter."""
    symbols = {"U": unit, "e": e, "r": kept}
    return item(
        Category.COMMUNICATION,
        "scatter_input",
        unit * (e + kept),
        "U*(e + r)",
        symbols,
        "fsdp_reduce",
        phases=phases,
    )


def _unit_gradients(
    amount: int, formula: str, symbols: dict[str, int], reference: str, phases: frozenset[Phase]
) -> Entry:
    return item(Category.COMMUNICATION, "unit_gradients", amount, formula, symbols, reference, phases=phases)
