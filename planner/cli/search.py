"""`search` on the command line: the search that its options ask for, and the answer in English."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Final

from planner.cli.search_document import document
from planner.cli.search_job import job_document, job_line, sequences_of
from planner.cli.search_limits import no_plan_text, refuse_strangers, time_text
from planner.cli.search_machines import machines
from planner.cli.servers import server_document, server_lines
from planner.cost.run_cost import tokens_of
from planner.hardware import Tables
from planner.scenario import Scenario
from planner.search.find import search
from planner.search.serving import ServingResult, serving_search
from planner.search.types import SAME_RESULT, Choice, Found, Limits, Other, Rejected, SearchResult, Technique
from planner.units import gib

SETTINGS: Final = {
    "framework": "{}",
    "method": "{}",
    "states": "states in {}",
    "compute": "products in {}",
    "optimizer": "{}",
    "sharding": "{}",
    "data": "data {}",
    "tensor": "tensor {}",
    "pipeline": "pipeline {}",
    "context": "context {}",
    "checkpointing": "checkpointing {}",
    "offload": "{} on the host",
    "micro_batch": "micro-batch {}",
    "accumulation": "accumulation {}",
}
PLAIN: Final = {
    "states": "own",
    "compute": "own",
    "sharding": "none",
    "checkpointing": "none",
    "offload": "none",
}
"""Settings that go without saying."""
REASONS: Final = {
    "no_card": "the offer does not say which card",
    "no_count": "the offer does not say how many cards",
    "share": "a share of a card",
    "own_stack": "the maker's own accelerator",
    "old": "the price is more than a year old",
    "lacks": "no hardware for the format or kernel",
    "size_unknown": "the card's usable memory is not known",
    "layout": "the job cannot be divided so",
    "memory": "too little memory",
    "host": "too little host memory",
    "deadline": "takes longer than the deadline",
    "budget": "costs more than the budget",
    "speed_unknown": "fits, but its speed is not known",
    "most_cards": "has more cards than allowed",
}
TREE: Final = {
    "one_card": "one card in bf16",
    "zero2": "ZeRO-2",
    "checkpointing": "ZeRO-2 with checkpointing",
    "offload": "ZeRO-2 with checkpointing, optimizer states on the host",
}
MOST_ROWS: Final = 12
SERVED_WEIGHTS: Final = ("fp8", "awq4", "int8", "bf16")
MOST_SERVER_CARDS: Final = 8


def answer(options: argparse.Namespace, question: Scenario, tables: Tables, today: date) -> SearchResult:
    """The search that the options ask for.

    Raises:
        ValueError: An option can't be used; the message names it, what was given and what is allowed.
        ScenarioError: The question names no known model.
    """
    return search(question, machines(options, tables, today), tables, limits_of(options, question))


def servers(options: argparse.Namespace, question: Scenario, tables: Tables, today: date) -> ServingResult:
    """The search for machines that serve.

    Raises:
        ValueError: An option can't be used.
        ScenarioError: The question names no known model.
    """
    weights = [name.strip() for name in (options.weights or "").split(",") if name.strip()]
    unknown = [name for name in weights if name not in SERVED_WEIGHTS]
    if unknown:
        raise ValueError(f"weights: {unknown[0]!r}; allowed: {', '.join(SERVED_WEIGHTS)}")
    most = limits_of(options, question).most_cards if options.most_gpus is not None else MOST_SERVER_CARDS
    return serving_search(
        question, machines(options, tables, today), tables,
        weights=weights, accept_tight=options.tight, most_cards=most,
    )  # fmt: skip


def reply_lines(
    options: argparse.Namespace, question: Scenario, tables: Tables, today: date
) -> Iterable[str]:
    """What `search` prints, for a job that trains or serves.

    Raises:
        ValueError: An option can't be used, or belongs to the other kind of task.
        ScenarioError: The question names no known model.
    """
    refuse_strangers(options, question.task, trains=question.is_training)
    if question.is_training:
        found = answer(options, question, tables, today)
        if options.json:
            return [_json({"job": job_document(options, question, found.limits), **document(found)})]
        return [job_line(options, question, found.limits), *search_lines(found)]
    served = servers(options, question, tables, today)
    return [_json(server_document(served))] if options.json else server_lines(served, REASONS)


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def limits_of(options: argparse.Namespace, question: Scenario) -> Limits:
    """The constraints, with what the options leave out taken from the question.

    Raises:
        ValueError: A technique is not known; the message names it and those that are.
    """
    given = {
        "most_cards": options.most_gpus,
        "deadline_days": options.deadline_days,
        "budget_usd": options.budget_usd,
        "tokens": options.tokens or tokens_of(question.workload),
        "sequences": sequences_of(options, question),
    }
    names = frozenset(Technique) if options.allow == "all" else SAME_RESULT
    if options.allow not in (None, "all"):
        asked = [name.strip() for name in options.allow.split(",") if name.strip()]
        unknown = [name for name in asked if name not in list(Technique)]
        if unknown:
            raise ValueError(f"allow: {unknown[0]!r}; allowed: all, {', '.join(Technique)}")
        names = frozenset(Technique(name) for name in asked)
    told = {name: value for name, value in given.items() if value is not None}
    return Limits(techniques=names, accept_tight=options.tight, **told)


def search_lines(result: SearchResult) -> Iterator[str]:
    """The answer as text."""
    counts = result.counts
    yield (
        f"{counts.plans:,} plans on {counts.machines:,} sets of machines ({counts.offer_plans:,} with every price "
        f"apart), {counts.ledgers:,} of them down to the last byte."
    )
    for name, found in (
        ("Cheapest", result.cheapest),
        ("Fastest", result.fastest),
        ("Fewest cards", result.fewest),
    ):
        if found is not None:
            yield f"{name}: {_found(found)}"
    if result.best is None:
        yield no_plan_text(result)
    yield from _frontier(result.frontier)
    yield from _unknown(result.unknown)
    yield from _tree(result)
    yield from _others(result.others)
    yield from _rejected(result.rejected)


def settings_text(choice: Choice) -> str:
    """A plan's settings in one line; what is as the question has it, or goes without saying, is left out."""
    settings = choice.settings
    told = [name for name in SETTINGS if name in settings and name not in choice.unchanged]
    return ", ".join(
        SETTINGS[name].format(settings[name]) for name in told if settings[name] not in (1, PLAIN.get(name))
    )


def _found(found: Found) -> str:
    where = f"{found.machine.provider} {found.machine.name}".strip()
    cards = f"{found.count} x {where} ({found.devices} x {found.machine.gpu.id})"
    return f"{cards}: {_money(found)}{_time(found)}; {settings_text(found.choice)}"


def _money(found: Found) -> str:
    cost = found.cost
    if cost is None or cost.usd is None:
        return ""
    band = "" if cost.low_usd is None else f" ({cost.low_usd:,.0f} to {cost.high_usd:,.0f})"
    return f"{cost.usd:,.0f} USD{band}, "


def _time(found: Found) -> str:
    cost = found.cost
    if cost is None:
        lacks = ", ".join(sorted({item.code for item in found.missing}))
        return f"speed not known ({lacks})"
    return time_text(cost.days, cost.low_days, cost.high_days)


def _frontier(found: tuple[Found, ...]) -> Iterator[str]:
    if len(found) > 1:
        yield ""
        yield "None is both cheaper and faster than:"
        yield from (f"  {_found(one)}" for one in found[:MOST_ROWS])


def _unknown(found: tuple[Found, ...]) -> Iterator[str]:
    if found:
        yield ""
        yield "Fit, ranked by number of cards, as their speed is not known:"
        yield from (f"  {_found(one)}" for one in found[:MOST_ROWS])


def _tree(result: SearchResult) -> Iterator[str]:
    if result.tree is None:
        return
    yield ""
    if result.tree.found is None:
        yield "The articles' decision tree: no step of it fits."
    else:
        with_other = (
            ""
            if result.tree.framework is None
            else f" with {result.tree.framework}, which is not allowed here (--allow frameworks,... lets it in)"
        )
        step = f"{TREE[result.tree.step]}{with_other}"
        yield f"The articles' decision tree ends at {step}: {_found(result.tree.found)}"


def _others(others: tuple[Other, ...]) -> Iterator[str]:
    if others:
        yield ""
        yield "On the best plan's machines, with one thing otherwise:"
    for one in others:
        if one.slower_frac is not None:
            result = f"{one.slower_frac:+.1%} time"
        elif one.short_bytes:
            result = f"{gib(one.short_bytes):,.1f} GiB a card short"
        else:
            result = REASONS[one.reason or "layout"]
        yield f"  {one.dimension} {one.value}: {result}"


def _rejected(rejected: tuple[Rejected, ...]) -> Iterator[str]:
    if not rejected:
        return
    yield ""
    yield "Rejected:"
    for reason, number in Counter(one.reason for one in rejected).most_common():
        yield f"  {number} offers: {REASONS[reason]}"
    short = [one for one in rejected if one.short_bytes]
    seen: set[tuple[str, int | None]] = set()
    for one in sorted(short, key=lambda one: one.short_bytes or 0):
        key = one.machine.gpu.id, one.devices
        if key in seen or len(seen) == MOST_ROWS:
            continue
        seen.add(key)
        plan = "" if one.nearest is None else settings_text(one.nearest)
        yield f"  {one.devices} x {one.machine.gpu.id}: {gib(one.short_bytes or 0):,.1f} GiB a card short with {plan}"
