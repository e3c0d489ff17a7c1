"""Ledger entries of the optimizer's step: its temporaries, and gradients cast or flattened for it."""

from collections.abc import Sequence
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory.inventory import Tensor
from planner.memory.terms import item
from planner.training.groups import Group, divided, shard_of
from planner.training.optimizer_states import own_adafactor
from planner.training.setup import Setup
from planner.training.zero import NO_TEMPORARY, steps_part

STEPPED: Final = ("embedding", "layers", "experts", "head")
"""Places in the order of a model's parameters."""
FLATTENING_YEAR: Final = 2021
OPTIMIZER_PHASES: Final = frozenset({Phase.OPTIMIZER_STEP})
WORKING: Final = frozenset({Phase.FORWARD, Phase.LOSS, Phase.BACKWARD})


def foreach_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The step's own temporary: `foreach` makes one tensor as large as everything it steps, `single` a few tensors.

    DeepSpeed's step has moments of its own (`planner.training.zero`).
    """
    if setup.optimizer.in_backward or setup.parallel.offload.optimizer != "none" or steps_part(setup):
        return []
    kind, e = setup.optimizer.implementation or "foreach", max(setup.train_bytes, setup.master_bytes)
    e = 4 if own_adafactor(setup) else e
    fused = kind == "fused" and setup.optimizer.name != "adafactor"
    if fused or setup.optimizer.name in NO_TEMPORARY or setup.optimizer.paged:
        return []
    entries, alone = [], kind == "single" or setup.optimizer.name in {"adafactor", "muon", "galore"}
    for group in groups:
        params = _single_temporary(setup, group.tensors) if alone else group.params
        held, formula, symbols = divided(params, shard_of(setup, group, setup.shard_states))
        entries.append(
            item(
                Category.OPTIMIZER,
                f"{group.prefix}step_temporary",
                held * e,
                f"{formula}*e",
                {**symbols, "e": e},
                "foreach_temporary",
                phases=OPTIMIZER_PHASES,
            )
        )
    return [max(entries, key=lambda entry: entry.bytes)] if alone and entries else entries


def step_tensors(setup: Setup) -> int:
    """Tensors as large as the parameter that the step of a single one makes: a fused kernel and SGD none."""
    kind, name = setup.optimizer.implementation or "foreach", setup.optimizer.name
    if (kind == "fused" and name != "adafactor") or name in NO_TEMPORARY or setup.optimizer.paged:
        return 0
    return 2 if kind == "single" and name != "adafactor" else 1


def _single_temporary(setup: Setup, tensors: Sequence[Tensor]) -> int:
    """Elements that a loop over parameters has at once: what it makes of one, while the one before is not yet dropped.

    PyTorch's Adam makes two (`_single_tensor_adam`: the root and what is divided of it, then named `denom`), Adafactor
    one (`_single_tensor_adafactor`: `var_estimate`, named `update`). transformers' Adafactor squares the gradient and
    adds to it, which makes two in fp32, beside fp32 copies of a 16-bit parameter and its gradient.
    """
    if setup.optimizer.name in {"muon", "galore"}:
        return max(t.parameter for t in tensors)
    made = 1 if setup.optimizer.name == "adafactor" else 2
    if own_adafactor(setup):
        made = 2 if setup.train_bytes == 4 else 4
    before, most = 0, 0
    for tensor in sorted(
        tensors, key=lambda t: STEPPED.index(t.place) if t.place in STEPPED else len(STEPPED)
    ):
        if not tensor.is_matrix:
            continue
        alike = tensor.count > tensor.stack and tensor.place == "experts" and tensor.stack == 1
        last = tensor.parameter if alike else 0 if tensor.place == "head" else before
        most, before = max(most, made * tensor.parameter + last), tensor.parameter
    return most or max(t.parameter for t in tensors)


def reduces_flat(setup: Setup) -> bool:
    """Whether this is Megatron-LM of 2021, whose own data parallelism has no buffers for gradients."""
    return setup.megatron and bool(setup.version) and setup.version[0] == FLATTENING_YEAR


def flattened_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """Megatron-LM of 2021 flattens all gradients into one tensor to reduce them (`LocalDDP.allreduce_params`).

    Before it does, each parameter's `main_grad` is made to name its gradient, which `zero_grad` does not undo: a step's
    gradients stay until the next step's are reduced, beside those.
    """
    if not reduces_flat(setup):
        return []
    params, e = sum(group.params for group in groups), setup.gradient_bytes
    return [
        item(
            Category.GRADIENTS,
            "last_gradients",
            params * e,
            "P*e",
            {"P": params, "e": e},
            "megatron_main_grad",
            phases=WORKING,
        ),
        item(
            Category.COMMUNICATION,
            "flattened_gradients",
            params * e,
            "P*e",
            {"P": params, "e": e},
            "megatron_local_ddp",
            phases=OPTIMIZER_PHASES,
        ),
    ]
