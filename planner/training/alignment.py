"""Models beside the one that is trained, where a job learns from preferences or rewards, and what it writes itself.

A reference is a frozen copy of the policy; where an adapter can be switched off, the base below it is one. PPO has a
reward model, frozen, and a value model that is trained as the policy is; both count as models of the policy's shape.
Completions are written between steps, when there are neither activations nor gradients.
"""

from collections.abc import Sequence
from typing import Final

from planner.ledger import Category, Entry, Phase
from planner.memory import optimizer
from planner.memory.inventory import Tensor
from planner.memory.kv_cache import GROWING, WINDOWED
from planner.memory.terms import item
from planner.model.spec import Attention, AttentionKind
from planner.scenario import Scenario
from planner.training.groups import divided, total
from planner.training.setup import Setup
from planner.training.step import Step

REFERS: Final = frozenset({"dpo", "kto", "ppo"})
"""Methods that compare with a reference unless told otherwise; TRL's GRPO does without since its `beta` is 0."""
WRITES: Final = frozenset({"grpo", "ppo"})
BETWEEN: Final = frozenset({Phase.REST})


def reference_of(scenario: Scenario) -> str:
    """`copy`, `shared` with the base below an adapter, or `none`."""
    alignment = scenario.training.alignment
    if alignment is None:
        return "none"
    if alignment.reference is not None:
        return "copy" if alignment.reference == "shared" and scenario.adapter is None else alignment.reference
    if alignment.method not in REFERS:
        return "none"
    return "copy" if scenario.adapter is None else "shared"


def alignment_entries(step: Step, scenario: Scenario, held: Sequence[Tensor]) -> list[Entry]:
    """Every further model, and the cache of rollouts."""
    alignment = scenario.training.alignment
    if alignment is None:
        return []
    entries = []
    if reference_of(scenario) == "copy":
        entries.append(_weights(step.setup, held, "reference_weights", "reference_model"))
    if alignment.method == "ppo":
        entries += _reward_and_value(step.setup, held)
    if alignment.method in WRITES:
        entries += _rollouts(step, alignment.generations or scenario.training.micro_batch)
    return entries


def _weights(setup: Setup, held: Sequence[Tensor], name: str, reference: str) -> Entry:
    count, formula, symbols = divided(total(held), setup.shard_weights)
    e = setup.param_bytes
    return item(Category.WEIGHTS, name, count * e, f"{formula}*e", {**symbols, "e": e}, reference)


def _reward_and_value(setup: Setup, held: Sequence[Tensor]) -> list[Entry]:
    """The value model has gradients until its step, and states of its own."""
    params, reference = total(held), "reward_and_value"
    found = [
        _weights(setup, held, "reward_weights", reference),
        _weights(setup, held, "value_weights", reference),
    ]
    count, formula, symbols = divided(params, setup.shard_gradients)
    e = setup.param_bytes
    phases = frozenset({Phase.BACKWARD, Phase.OPTIMIZER_STEP})
    found.append(
        item(
            Category.GRADIENTS,
            "value_gradients",
            count * e,
            f"{formula}*e",
            {**symbols, "e": e},
            reference,
            phases=phases,
        )
    )
    moments = optimizer.MOMENTS.get(setup.optimizer.name, 2)
    if not moments:
        return found
    count, formula, symbols = divided(params, setup.shard_states)
    symbols = {"k": moments, **symbols, "e": setup.state_bytes}
    amount = moments * count * setup.state_bytes
    return [
        *found,
        item(Category.OPTIMIZER, "value_states", int(amount), f"k*{formula}*e", symbols, reference),
    ]


def _rollouts(step: Step, sequences: int) -> list[Entry]:
    """Keys and values of every completion at its full length."""
    setup = step.setup
    by_length: dict[int, int] = {}
    for layer in step.share.layers:
        length, width = _cached(layer.attention, setup.sequence, setup.division.tensor)
        if width:
            by_length[length] = by_length.get(length, 0) + width
    e = setup.compute_bytes
    return [
        item(
            Category.KV_CACHE,
            "rollout_cache",
            sequences * length * width * e,
            "n*s*w*e",
            {"n": sequences, "s": length, "w": width, "e": e},
            "rollouts",
            phases=BETWEEN,
        )
        for length, width in sorted(by_length.items())
    ]


def _cached(shape: Attention, sequence: int, ranks: int) -> tuple[int, int]:
    """Tokens that a layer keeps, and elements for each, as transformers' cache holds them."""
    if shape.kind not in GROWING or shape.shares_kv:
        return 0, 0
    windowed = shape.kind in WINDOWED and shape.window is not None
    length = min(sequence, shape.window) if windowed and shape.window is not None else sequence
    if shape.kind is AttentionKind.MLA:
        return length, shape.num_heads * (shape.head_dim + shape.v_head_dim) // max(1, ranks)
    return length, shape.num_kv_heads * (shape.head_dim + shape.v_head_dim) // max(
        1, min(ranks, shape.num_kv_heads)
    )
