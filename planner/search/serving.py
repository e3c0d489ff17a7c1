"""Which machine serves a model: every machine by itself, its cards as one tensor-parallel group, weights by format.

Small enough to be tried one by one: a plan and its speed for each card, number of cards and format. Several machines,
and several copies on one, are not tried; cards that one copy does not use stay idle and are paid.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from planner.cost.run_cost import HOUR_S
from planner.estimate import plan
from planner.hardware import Gpu, Tables
from planner.issues import Issue, ScenarioError, Severity
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import Plan, Verdict
from planner.scenario import Device, Hardware, Parallel, Scenario
from planner.search.engine import LACKS
from planner.search.refusals import refuse_runtime
from planner.search.rigs import COUNTS
from planner.search.types import Choice, Fails, Machine, Rejected
from planner.throughput.serving_speed import ServingSpeed, serving_speed
from planner.throughput.types import SpeedBand, Unknown
from planner.validation import model_for

LATENCY: Final = "fp8"
THROUGHPUT: Final = "awq4"
"""The articles' tree: fp8 where latency comes first, 4-bit weights and a paged cache where throughput does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A machine that serves the load.

    Attributes:
        devices: Devices used.
        usd_per_hour: Whole machine (with a price per card, the cards used); None for cards that are owned.
        tokens_per_s: Output of the server under its load; None where the speed is not known.
        tpot_s: Between two tokens of an answer.
        ttft_s: To the first token, without a queue.
        band: Around the time of an answer.
        concurrency: Sequences of the asked length that fit at once.
        missing: What the tables lack, where the speed is not known.
    """

    machine: Machine
    devices: int
    choice: Choice
    usd_per_hour: float | None
    tokens_per_s: float | None
    tpot_s: float | None
    ttft_s: float | None
    band: SpeedBand | None
    concurrency: float
    peak_bytes: int
    usable_bytes: int
    missing: tuple[Unknown, ...] = ()

    @property
    def usd_per_million_tokens(self) -> float | None:
        """Of output; None without a price or a speed."""
        if self.usd_per_hour is None or self.tokens_per_s is None:
            return None
        return self.usd_per_hour / (self.tokens_per_s * HOUR_S) * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingResult:
    """What was found.

    Attributes:
        found: The cheapest million tokens (else the fewest cards) on every machine, cheapest hour first.
        rejected: Machines that don't serve it, with the reason.
        cheapest: Least dollars an hour.
        cheapest_tokens: Least dollars a million output tokens.
        fastest: Least time between two tokens.
        latency: The articles' answer where latency comes first: fp8, on the cheapest machine that holds it.
        throughput: Where throughput does: 4-bit weights.
        plans: Plans that were made.
    """

    found: tuple[Served, ...]
    rejected: tuple[Rejected, ...]
    cheapest: Served | None
    cheapest_tokens: Served | None
    fastest: Served | None
    latency: Served | None
    throughput: Served | None
    plans: int


@dataclass(frozen=True, slots=True)
class _Try:
    """One plan: what came of it."""

    devices: int
    scenario: Scenario
    weights: str
    answer: Plan | None
    speed: ServingSpeed | None
    issue: Issue | None
    short_bytes: int | None

    @property
    def serves(self) -> bool:
        return self.speed is not None


class _Server:
    """One question on any card, each number of cards and format planned once."""

    def __init__(self, question: Scenario, tables: Tables, *, accept_tight: bool) -> None:
        self.question, self.tables = question, tables
        self.accepted = {Verdict.FITS, Verdict.TIGHT} if accept_tight else {Verdict.FITS}
        self.known: dict[tuple[str, int, str], _Try] = {}

    def on(self, gpu: Gpu, devices: int, weights: str | None) -> _Try:
        key = gpu.id, devices, weights or ""
        if key not in self.known:
            self.known[key] = self._tried(gpu, devices, weights)
        return self.known[key]

    def _tried(self, gpu: Gpu, devices: int, weights: str | None) -> _Try:
        scenario = _on_cards(self.question, gpu, devices, weights)
        name = weights or "own"
        try:
            found = plan(scenario, self.tables)
        except ScenarioError as refusal:
            issue = next((i for i in refusal.issues if i.severity is Severity.ERROR), None)
            return _Try(devices, scenario, name, None, None, issue, None)
        lacks = next((issue for issue in found.issues if issue.code in LACKS), None)
        if lacks is not None:
            return _Try(devices, scenario, name, found, None, lacks, None)
        if found.verdict not in self.accepted:
            return _Try(devices, scenario, name, found, None, None, _short(found))
        return _Try(devices, scenario, name, found, serving_speed(found, self.tables), None, None)


def _on_cards(question: Scenario, gpu: Gpu, devices: int, weights: str | None) -> Scenario:
    hardware = Hardware(
        devices=(Device(gpu=gpu.id, count=devices),),
        margin_frac=question.hardware.margin_frac,
        links=question.hardware.links,
    )
    tensor = 1 if question.runtime.name in LLAMA_FAMILY else devices
    serving = question.serving
    if weights is not None:
        serving = serving.model_copy(update={"weights": weights, "weights_file_bytes": None})
    return question.model_copy(
        update={"hardware": hardware, "parallel": Parallel(tensor=tensor), "serving": serving}
    )


def _short(found: Plan) -> int:
    """Bytes that are missing to hold model and load for sure."""
    worst = found.worst
    if worst.band is None or worst.usable_bytes is None:
        return 0
    room = int(worst.usable_bytes * (1 - found.resolved.hardware.margin_frac))
    return max(0, worst.band.high_bytes - room)


def serving_search(
    question: Scenario,
    machines: Iterable[Machine],
    tables: Tables,
    *,
    weights: Iterable[str] = (),
    accept_tight: bool = False,
    most_cards: int = 8,
) -> ServingResult:
    """The machines that serve a load, with the best number of cards and weight format on each.

    Args:
        question: A job that serves; its cards and their division don't matter.
        machines: What can be had; prices of one kind.
        tables: Cards, constants, bands.
        weights: Formats of weights that may stand in for the question's own.
        accept_tight: Machines count that may not hold it.
        most_cards: Most devices of a server.

    Raises:
        ValueError: The question trains.
        ScenarioError: It names no model that is known, or a framework that does not serve.
    """
    if question.is_training:
        raise ValueError(f"task: {question.task}; a search for servers needs the task serve")
    refuse_runtime(question, model_for(question, tables), tables)
    server = _Server(question, tables, accept_tight=accept_tight)
    formats: tuple[str | None, ...] = (None, *weights)
    listed = [machine for machine in machines if machine.gpu.usable_bytes is not None]
    found, rejected = [], []
    for machine in listed:
        tries = [server.on(machine.gpu, n, w) for n in _sizes(machine, most_cards) for w in formats]
        served = [_served(machine, one) for one in tries if one.serves]
        if served:
            found.append(min(served, key=_on_one_machine))
        else:
            rejected.append(_rejected(machine, tries))
    found.sort(key=_by_hour)
    priced = [one for one in found if one.usd_per_million_tokens is not None]
    timed = [one for one in found if one.tpot_s is not None]
    return ServingResult(
        found=tuple(found),
        rejected=tuple(rejected),
        cheapest=min((one for one in found if one.usd_per_hour is not None), key=_by_hour, default=None),
        cheapest_tokens=min(priced, key=lambda one: one.usd_per_million_tokens or 0.0, default=None),
        fastest=min(timed, key=lambda one: (one.tpot_s or 0.0, one.devices), default=None),
        latency=_tree(server, listed, LATENCY, most_cards),
        throughput=_tree(server, listed, THROUGHPUT, most_cards),
        plans=len(server.known),
    )


def _sizes(machine: Machine, most_cards: int) -> Iterator[int]:
    return (count for count in COUNTS if count <= min(machine.devices, most_cards))


def _served(machine: Machine, one: _Try) -> Served:
    found, speed = one.answer, one.speed
    if found is None or speed is None:
        raise ValueError("a plan that does not serve")
    usd = machine.usd_per_hour
    if usd is not None and machine.per_card:
        usd *= one.devices / machine.gpu.devices_per_card
    settings: dict[str, str | int] = {"tensor": one.scenario.parallel.tensor, "weights": one.weights}
    return Served(
        machine=machine, devices=one.devices, choice=Choice(settings=settings, scenario=one.scenario),
        usd_per_hour=usd, tokens_per_s=speed.output_tokens_per_s, tpot_s=speed.tpot_s, ttft_s=speed.ttft_s,
        band=speed.tokens_band, concurrency=0.0 if found.serving is None else found.serving.concurrency,
        peak_bytes=found.worst.peak_bytes, usable_bytes=found.worst.usable_bytes or 0, missing=speed.missing,
    )  # fmt: skip


def _on_one_machine(one: Served) -> tuple[bool, float, int]:
    """Cheapest tokens; without a speed the fewest cards."""
    per_token = one.usd_per_million_tokens
    if per_token is None and one.tokens_per_s:
        per_token = 1 / one.tokens_per_s
    return per_token is None, per_token or 0.0, one.devices


def _by_hour(one: Served) -> tuple[float, float, int]:
    return one.usd_per_hour or 0.0, one.usd_per_million_tokens or float("inf"), one.devices


def _rejected(machine: Machine, tries: list[_Try]) -> Rejected:
    """The nearest plan in memory; else what the card has no hardware for, or why it cannot be laid out."""
    short = [one for one in tries if one.short_bytes is not None]
    if not tries:
        return Rejected(machine=machine, reason=Fails.MOST_CARDS, devices=machine.devices)
    if short:
        near = min(short, key=lambda one: one.short_bytes or 0)
        settings: dict[str, str | int] = {"tensor": near.scenario.parallel.tensor, "weights": near.weights}
        choice = Choice(settings=settings, scenario=near.scenario)
        return Rejected(
            machine=machine,
            reason=Fails.MEMORY,
            short_bytes=near.short_bytes,
            nearest=choice,
            devices=near.devices,
        )
    issue = next((one.issue for one in tries if one.issue is not None), None)
    reason = Fails.LACKS if issue is not None and issue.code in LACKS else Fails.LAYOUT
    return Rejected(machine=machine, reason=reason, issue=issue)


def _tree(server: _Server, machines: list[Machine], weights: str, most_cards: int) -> Served | None:
    """The cheapest hour (fewest cards, without prices) on which the tree's format serves the load."""
    if server.question.runtime.name in LLAMA_FAMILY:
        return None
    found = [
        _served(machine, one)
        for machine in machines
        for count in _sizes(machine, most_cards)
        for one in [server.on(machine.gpu, count, weights)]
        if one.serves
    ]
    return min(found, key=lambda one: (one.usd_per_hour or 0.0, one.devices), default=None)
