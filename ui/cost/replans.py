"""The open job planned again on other cards, once for each different card and number of cards."""

from dataclasses import dataclass
from functools import lru_cache
from json import loads
from typing import Final

from planner.estimate import plan
from planner.hardware import Gpu
from planner.issues import Issue, ScenarioError, Severity
from planner.ledger import Category
from planner.plan_types import Plan, Verdict
from planner.scenario import Scenario
from planner.throughput.serving_speed import serving_speed
from planner.throughput.training_speed import training_speed
from planner.validation import parse_scenario
from ui import answers
from ui.catalog import described_cards, described_gpus
from ui.document import Document, canonical, get, put_all

CARD_LACKS: Final = frozenset({"dtype_unsupported", "attention_unsupported"})
"""Warnings of a plan that say a card has no hardware for what the job computes in."""
REMEMBERED: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast the job runs on these cards.

    Attributes:
        tokens_per_s: Trained, or written as answers, by all cards together.
        low_frac: Fast end of the time's band over its centre.
        high_frac: Slow end.
    """

    tokens_per_s: float
    low_frac: float
    high_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The job on so many equal cards, seen from the fullest one.

    Attributes:
        headroom_bytes: Usable less needed; None where usable is not known.
        largest: The part that takes most of the peak there.
        lacks: What the card has no hardware for, if anything.
        rate: Tokens a second; None where the tables lack a figure of the card.
        joined: Whether anything is known of the network between its machines; without it there is no rate.
    """

    verdict: Verdict
    peak_bytes: int
    headroom_bytes: int | None
    largest: Category
    lacks: Issue | None = None
    rate: Rate | None = None
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The job cannot be laid out on so many of these cards; the planner says why."""

    issue: Issue


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What a number of cards sit in.

    Attributes:
        devices: Of one machine; None where all are in one.
        network_gbit: Between machines, all of one; None for that of the table's server with such cards.
        joined: Whether anything is known of the way from one to another; without it a job over several has no speed.
    """

    devices: int | None = None
    network_gbit: float | None = None
    joined: bool = True


ONE_MACHINE: Final = Machines()


class Replans:
    """One question on any cards. Answers are remembered, so equal cards in equal number are planned once.

    Attributes:
        planned: How many plans were worked out.
    """

    def __init__(self, text: str) -> None:
        self._document: Document = loads(text)
        self._known: dict[tuple[str, int, Machines], Fit | Refusal] = {}
        self.planned = 0

    @property
    def described(self) -> dict[str, Gpu]:
        """Cards that the question describes."""
        return described_gpus(self._document)

    def on(self, gpu_id: str, devices: int, machines: Machines = ONE_MACHINE) -> Fit | Refusal:
        """The job on `devices` of one card, as the runtime counts them.

        Args:
            gpu_id: The card.
            devices: How many.
            machines: What they sit in.
        """
        several = machines.devices is not None and machines.devices < devices
        key = (gpu_id, devices, machines if several else ONE_MACHINE)
        if key not in self._known:
            self._known[key] = _planned(on_cards(self._document, *key), key[2])
            self.planned += 1
        return self._known[key]


def replans(document: Document) -> Replans:
    """The plans of a question on other cards; those of the newest questions are kept."""
    return _replans(canonical(document))


@lru_cache(maxsize=REMEMBERED)
def _replans(text: str) -> Replans:
    return Replans(text)


def on_cards(document: Document, gpu_id: str, devices: int, machines: Machines = ONE_MACHINE) -> Document:
    """The question on equal cards: divided as it is, in as many copies as there is room for.

    What belongs to the cards of the open question (readings of their memory, links, nodes, host) is left out;
    the share to keep free stays.
    """
    margin = get(document, "hardware.margin_frac")
    card = described_cards(document).get(gpu_id)
    row = {"gpu": gpu_id, "count": devices} | ({} if card is None else {"card": card})
    hardware: Document = {"devices": [row]}
    if machines.devices is not None:
        hardware["devices_per_node"] = machines.devices
    if machines.network_gbit is not None:
        hardware["links"] = {"inter_node_gbit": machines.network_gbit}
    kept = {} if margin is None else {"margin_frac": margin}
    return put_all(document, {"hardware": hardware | kept, "parallel.data": None})


def _planned(document: Document, machines: Machines) -> Fit | Refusal:
    scenario, issues = parse_scenario(document)
    if scenario is None:
        return Refusal(issue=issues[0])
    try:
        return _fit(_plan(scenario), joined=machines.joined)
    except ScenarioError as error:
        errors = [issue for issue in error.issues if issue.severity is Severity.ERROR]
        return Refusal(issue=(errors or list(error.issues))[0])


def rate_of(answer: Plan) -> Rate | None:
    """Tokens a second of a plan with the band of its time; None where the tables lack a figure."""
    if answer.scenario.is_training:
        trained = training_speed(answer, answers.tables())
        tokens_per_s, band = trained.tokens_per_s, trained.band
    else:
        served = serving_speed(answer, answers.tables())
        tokens_per_s, band = served.output_tokens_per_s, served.tokens_band
    if tokens_per_s is None or band is None:
        return None
    return Rate(tokens_per_s=tokens_per_s, low_frac=band.low_frac, high_frac=band.high_frac)


def _plan(scenario: Scenario) -> Plan:
    return plan(scenario, answers.tables())


def _fit(answer: Plan, *, joined: bool) -> Fit:
    worst = answer.worst
    sizes = worst.ledger.by_category(worst.peak_phase)
    return Fit(
        verdict=answer.verdict,
        peak_bytes=worst.peak_bytes,
        headroom_bytes=worst.headroom_bytes,
        largest=max(sizes, key=lambda category: sizes[category], default=Category.WEIGHTS),
        lacks=next((issue for issue in answer.issues if issue.code in CARD_LACKS), None),
        rate=rate_of(answer) if joined else None,
        joined=joined,
    )
