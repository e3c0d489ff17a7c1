"""Ledger entries of the optimizer between steps: its master copy of the weights, and its states."""

from collections.abc import Sequence
from typing import Final

from planner.ledger import Category, Entry
from planner.memory import optimizer
from planner.memory.terms import item
from planner.training.groups import Group, divided, shard_of, total
from planner.training.setup import STATE_OPTIMIZERS_8BIT, Setup

TRAINER_LOOPS: Final = frozenset({"hf_trainer", "unsloth"})
"""Runtimes around transformers' Trainer, which has an Adafactor of its own (`transformers.optimization.Adafactor`)."""


def master_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The optimizer's own copy of the parameters."""
    entries = []
    for group in groups if setup.master_bytes and setup.parallel.offload.optimizer == "none" else ():
        held, formula, symbols = divided(group.params, shard_of(setup, group, setup.shard_states))
        e = setup.master_bytes
        entries.append(
            item(
                Category.OPTIMIZER,
                f"{group.prefix}master_weights",
                held * e,
                f"{formula}*e",
                {**symbols, "e": e},
                "mixed_precision",
            )
        )
    return entries


def state_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The optimizer's states on the device."""
    if setup.parallel.offload.optimizer != "none" or setup.optimizer.paged:
        return []
    return [entry for group in groups for entry in _states(setup, group)]


def _states(setup: Setup, group: Group) -> list[Entry]:
    name, ranks = setup.optimizer.name, shard_of(setup, group, setup.shard_states)
    label, e = f"{group.prefix}optimizer_states", setup.state_bytes
    if name in STATE_OPTIMIZERS_8BIT or (name in optimizer.MOMENTS and e < 2):
        return _states_8bit(setup, group, ranks, label)
    match name:
        case "adafactor":
            return [_adafactor(setup, group, ranks, label)]
        case "muon":
            return [_muon(setup, group, ranks, label)]
        case "galore":
            return _galore(setup, group, ranks, label)
    moments = optimizer.MOMENTS[name]
    held, formula, symbols = divided(group.params, ranks)
    text = f"{moments}*{formula}*e" if moments != 1 else f"{formula}*e"
    return [
        item(Category.OPTIMIZER, label, moments * held * e, text, {**symbols, "e": e}, f"optimizer_{name}")
    ]


def _states_8bit(setup: Setup, group: Group, ranks: int, label: str) -> list[Entry]:
    name = setup.optimizer.name
    moments = optimizer.MOMENTS.get(name, 2)
    small = total(t for t in group.tensors if optimizer.is_small(t))
    large, formula, symbols = divided(group.params - small, ranks)
    rest, rest_formula, rest_symbols = divided(small, ranks, "S")
    return [
        item(
            Category.OPTIMIZER,
            label,
            optimizer.state_8bit_bytes(large, moments) + 4 * moments * rest,
            f"{moments}*({formula} + 4*ceil({formula}/256)) + {4 * moments}*{rest_formula}",
            {**symbols, **rest_symbols},
            "optimizer_8bit",
        )
    ]


def own_adafactor(setup: Setup) -> bool:
    """Whether the step is transformers' own Adafactor, which works in fp32; PyTorch's states are like the gradient."""
    return setup.optimizer.name == "adafactor" and setup.runtime in TRAINER_LOOPS


def _adafactor(setup: Setup, group: Group, ranks: int, label: str) -> Entry:
    own = own_adafactor(setup) and setup.training.precision.optimizer is None
    e = 4 if own else setup.state_bytes
    factored, vectors = optimizer.adafactor_factored(group.tensors), optimizer.vector_params(group.tensors)
    held, formula, symbols = divided(factored + vectors, ranks, "(R + V)")
    shown: dict[str, int | float] = {"R": factored, "V": vectors, "e": e}
    if ranks > 1:
        shown["N"] = symbols["N"]
    return item(Category.OPTIMIZER, label, held * e, f"{formula}*e", shown, "optimizer_adafactor")


def _muon(setup: Setup, group: Group, ranks: int, label: str) -> Entry:
    matrices = total(t for t in group.tensors if optimizer.takes_muon(t))
    rest, e = group.params - matrices, setup.state_bytes
    held, formula, _ = divided(matrices + 2 * rest, ranks, "(M + 2*A)")
    symbols: dict[str, int | float] = {"M": matrices, "A": rest, "e": e}
    if ranks > 1:
        symbols["N"] = ranks
    return item(Category.OPTIMIZER, label, held * e, f"{formula}*e", symbols, "optimizer_muon")


def _galore(setup: Setup, group: Group, ranks: int, label: str) -> list[Entry]:
    rank, e = setup.optimizer.rank or 128, setup.state_bytes
    projected = [t for t in group.tensors if optimizer.takes_muon(t)]
    states = sum(optimizer.galore_states(t.rows, t.columns, rank) * t.count for t in projected)
    bases = sum(optimizer.galore_projector(t.rows, t.columns, rank) * t.count for t in projected)
    rest = group.params - total(projected)
    held, formula, _ = divided(states + 2 * rest, ranks, "(G + 2*A)")
    symbols: dict[str, int | float] = {"G": states, "A": rest, "e": e}
    base_held, base_formula, base_symbols = divided(bases, ranks, "J")
    if ranks > 1:
        symbols["N"] = ranks
    width = setup.train_bytes
    return [
        item(Category.OPTIMIZER, label, held * e, f"{formula}*e", symbols, "optimizer_galore"),
        item(
            Category.OPTIMIZER,
            f"{group.prefix}projections",
            base_held * width,
            f"{base_formula}*e",
            {**base_symbols, "e": width},
            "optimizer_galore",
        ),
    ]
