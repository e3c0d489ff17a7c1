"""What a draft brings, by the share of its tokens that is accepted: nobody can tell that share beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.hardware import Tables
from planner.memory.serving_draft import NAME, draft_of, draft_tokens
from planner.plan_types import Plan
from planner.throughput import serving_work as sw
from planner.throughput.processors import pace, unit_cycles_per_s
from planner.throughput.serving_load import load_of
from planner.throughput.serving_time import serving_rates, token_parts
from planner.throughput.speculative import expected_tokens, speculative_token_s

ACCEPTED: Final = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Chances of a drafted token to be accepted that are shown; Leviathan et al. 2022, table 3, measured 0.5 to 0.9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftSpeed:
    """Decoding with a draft, at one chance of acceptance.

    Attributes:
        accepted_frac: That chance.
        drafted: Tokens drafted before each check.
        tokens: Tokens that a check yields, mean.
        token_s: Mean time between two tokens of one answer.
        gain: Time without the draft over that; below 1 the draft slows.
    """

    accepted_frac: float
    drafted: int
    tokens: float
    token_s: float
    gain: float


def draft_speeds(plan: Plan, tables: Tables, accepted: Sequence[float] = ACCEPTED) -> tuple[DraftSpeed, ...]:
    """Decoding with the plan's draft, under its own load.

    A check reads the model's weights and caches once for all drafted tokens; its products are of every one of them.

    Args:
        plan: A plan of a server.
        tables: Cards and the constants `speed_serve_*`.
        accepted: Chances of acceptance.

    Returns:
        A row a chance; none where no draft is held or the tables lack a figure.
    """
    server, drafted = sw.server_of(plan, tables), draft_tokens(plan.resolved)
    held = server.stages[-1].ledger.total(NAME)
    if not drafted or not held or sw.missing(server, prefill=False):
        return ()
    load, rates = load_of(plan), serving_rates(tables)
    plain = sw.token_work(server, load.running, load.context_tokens)
    many = sw.token_work(server, load.running * (drafted + 1), load.context_tokens)
    check_s = token_parts(replace(many, kv_s=plain.kv_s, batch=plain.batch), rates).total
    draft_s = token_parts(_draft_work(server, plain, held), rates).total
    step_s = token_parts(plain, rates).total
    found = []
    for chance in accepted:
        token_s = speculative_token_s(check_s, draft_s, chance, drafted)
        found.append(
            DraftSpeed(
                accepted_frac=chance,
                drafted=drafted,
                tokens=expected_tokens(chance, drafted),
                token_s=token_s,
                gain=step_s / token_s,
            )
        )
    return tuple(found)


def _draft_work(server: sw.Server, plain: sw.TokenWork, held: float) -> sw.TokenWork:
    """One token of the draft for every running sequence; it stands on the last stage, in a format of its own."""
    gpu, draft = server.gpus[-1], draft_of(server.scenario)
    layers = draft.num_layers if draft is not None else 1
    read = held * (1.0 if draft is not None else _visited_frac(server, plain.batch))
    part = layers / max(plain.layers, 1.0)
    rate = gpu.bandwidth_bytes_per_s or 1.0
    return replace(
        plain,
        weight_s=read / rate,
        port_s=read / (unit_cycles_per_s(gpu) or float("inf")),
        kv_s=plain.kv_s * part,
        product_s=plain.product_s * part,
        unpack_s=0.0,
        layers=layers,
        paced_layers=layers * pace(gpu),
        reduce_s=plain.reduce_s * part,
        reduce_hops=plain.reduce_hops * part,
        is_packed=0.0,
        is_scripted=0.0,
    )


def _visited_frac(server: sw.Server, tokens: float) -> float:
    """Share of a prediction layer's weights that some tokens visit: it is built as the last layer."""
    layer = server.model.layers[-1]
    load, mlp = server.loads[id(layer)], layer.mlp
    visited = sw.touched_frac(mlp.num_experts, mlp.experts_per_token, tokens)
    return (load.weights + load.held_experts * visited) / (load.weights + load.held_experts or 1.0)
