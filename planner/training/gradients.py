"""Ledger entries of whole gradients, outside the backward pass, and when they are there."""

from collections.abc import Sequence

from planner.lazy import once
from planner.ledger import ALWAYS, Category, Entry, Phase
from planner.memory.terms import item
from planner.training.groups import Group, divided, shard_of
from planner.training.optimizer_step import OPTIMIZER_PHASES, WORKING, reduces_flat
from planner.training.setup import Setup
from planner.training.zero import BUCKETED, BUFFERS_SINCE, since, steps_part


def persistent_gradients(setup: Setup) -> bool:
    """Gradients that stay between steps: Megatron's main gradients, DeepSpeed's flat partition buffer of stage 3."""
    return setup.megatron or (setup.parallel.sharding == "zero3" and zero3_keeps_buffers(setup))


def zero3_keeps_buffers(setup: Setup) -> bool:
    """Whether stage 3 holds its gradient partitions and its reduce bucket from the start, as it does from 0.6 on.

    Before, both were made in the backward pass.
    """
    return since(setup, BUFFERS_SINCE)


def keeps_whole_gradients(setup: Setup) -> bool:
    """Whether gradients are left whole on every rank until the last micro-batch (LitGPT: FSDP's `no_sync`)."""
    sharded = setup.parallel.sharding == "fsdp" and setup.shard_gradients > 1
    return sharded and setup.runtime == "litgpt" and setup.training.gradient_accumulation > 1


@once
def gradient_phases(setup: Setup) -> frozenset[Phase]:
    """When all of a device's gradients are there; without `BACKWARD`, they build up during it.

    What DeepSpeed has of them in its step belongs to that step's moments (`planner.training.zero`).
    """
    if reduces_flat(setup):
        accumulates = setup.training.gradient_accumulation > 1
        return ALWAYS - (WORKING - {Phase.BACKWARD} if accumulates else WORKING)
    if persistent_gradients(setup):
        return ALWAYS
    stepped_apart = steps_part(setup) and setup.parallel.sharding in BUCKETED
    phases = set() if stepped_apart else {Phase.OPTIMIZER_STEP}
    if setup.training.gradient_accumulation > 1 and not keeps_whole_gradients(setup):
        phases |= {Phase.FORWARD, Phase.LOSS, Phase.BACKWARD}
    if setup.parallel.sharding == "fsdp" and setup.runtime == "hf_trainer" and setup.shard_gradients > 1:
        phases.add(Phase.REST)
    return frozenset(phases)


def gradient_entries(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """Gradients outside the backward pass, and their second copy."""
    if setup.optimizer.in_backward:
        return []
    entries, phases = [], gradient_phases(setup)
    for group in groups:
        ranks = shard_of(setup, group, setup.shard_gradients)
        held, formula, symbols = divided(group.params, ranks)
        e = setup.gradient_bytes
        if setup.parallel.offload.gradients == "none" and phases:
            entries.append(
                item(
                    Category.GRADIENTS,
                    f"{group.prefix}gradients",
                    held * e,
                    f"{formula}*e",
                    {**symbols, "e": e},
                    "gradients",
                    phases=phases,
                )
            )
        if setup.gradient_copy_bytes:
            entries.append(_gradient_copy(setup, group))
    return entries


def _gradient_copy(setup: Setup, group: Group) -> Entry:
    """Their copy in the format of the step; Megatron-LM of 2021 never drops it (`zero_grad` of 16-bit groups)."""
    held, formula, symbols = divided(group.params, shard_of(setup, group, setup.shard_states))
    e = setup.gradient_copy_bytes
    between = {Phase.OPTIMIZER_STEP, Phase.REST} if setup.megatron else OPTIMIZER_PHASES
    return item(
        Category.GRADIENTS,
        f"{group.prefix}gradient_copy",
        held * e,
        f"{formula}*e",
        {**symbols, "e": e},
        "gradient_copy",
        phases=ALWAYS if reduces_flat(setup) else between,
    )
