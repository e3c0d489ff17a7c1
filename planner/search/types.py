"""What a search is asked and what it answers. Frozen values; codes for the reasons, worded elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.cost.run_cost import RunCost
from planner.hardware import Gpu
from planner.issues import Issue
from planner.scenario import Scenario
from planner.throughput.types import SpeedBand, Unknown

MOST_CARDS: Final = 64
SEQUENCES: Final = 64
TOKENS: Final = 1e9


class Technique(StrEnum):
    """What a search may change. What it may not stays as asked, but for degrees: those are one then."""

    SHARDING = "sharding"
    TENSOR = "tensor"
    PIPELINE = "pipeline"
    CONTEXT = "context"
    CHECKPOINTING = "checkpointing"
    OFFLOAD = "offload"
    OPTIMIZER_8BIT = "optimizer_8bit"
    STATES_16BIT = "states_16bit"
    FP16 = "fp16"
    LORA = "lora"
    QLORA = "qlora"
    FRAMEWORKS = "frameworks"


SAME_RESULT: Final = frozenset(
    {
        *(Technique.SHARDING, Technique.TENSOR, Technique.PIPELINE, Technique.CONTEXT),
        *(Technique.CHECKPOINTING, Technique.OFFLOAD),
    }
)
"""Techniques that leave what is learned as it is, but for the order of sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The constraints of a search.

    Attributes:
        techniques: What may be changed.
        most_cards: Most devices of a plan.
        deadline_days: Latest end of the run.
        budget_usd: Most it may cost.
        tokens: Training tokens, every epoch counted.
        sequences: Sequences of an optimizer step over all cards; kept whatever the division.
        accept_tight: Plans count that fit by their central figure, but not for sure.
    """

    techniques: frozenset[Technique] = SAME_RESULT
    most_cards: int = MOST_CARDS
    deadline_days: float | None = None
    budget_usd: float | None = None
    tokens: float = TOKENS
    sequences: int = SEQUENCES
    accept_tight: bool = False

    def __post_init__(self) -> None:
        """Refuses numbers that no search can be made from.

        Raises:
            ValueError: A number of zero or less; it names the field.
        """
        for name in ("most_cards", "tokens", "sequences", "deadline_days", "budget_usd"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: {value}; allowed: more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Something to train on: an instance for rent, cards at a price each, or cards that are there.

    Attributes:
        name: Instance type, or the card.
        gpu: Its card.
        devices: Devices of one machine, as the runtime counts them.
        usd_per_hour: Of the whole machine, or of one card with `per_card`; None for cards that are owned.
        per_card: Any number of cards may be had, up to `devices` in a machine.
        most: Most machines; None for as many as the limit allows.
        spot: May be taken away.
        ram_bytes: Host memory of a machine; None where not told.
        network_gbit: Between machines, all of one; None for that of the table's server with this card.
        date: Of the price.
        source: Of the price.
    """

    name: str
    gpu: Gpu
    devices: int
    usd_per_hour: float | None
    per_card: bool = False
    most: int | None = None
    spot: bool = False
    ram_bytes: int | None = None
    network_gbit: float | None = None
    provider: str = ""
    region: str = ""
    date: str | None = None
    source: str = ""


class Fails(StrEnum):
    """Why there is no plan on a machine."""

    NO_CARD = "no_card"
    NO_COUNT = "no_count"
    SHARE = "share"
    OWN_STACK = "own_stack"
    LACKS = "lacks"
    SIZE_UNKNOWN = "size_unknown"
    LAYOUT = "layout"
    MEMORY = "memory"
    HOST = "host"
    DEADLINE = "deadline"
    BUDGET = "budget"
    SPEED_UNKNOWN = "speed_unknown"
    MOST_CARDS = "most_cards"
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A plan: what of the question is changed.

    Attributes:
        settings: Values by dimension (`tensor`, `sharding`, ...), for a table.
        unchanged: Dimensions that are as the question has them, its division apart.
        scenario: The question with everything put in; planning it gives the figures below.
    """

    settings: Mapping[str, str | int]
    unchanged: frozenset[str] = frozenset()
    scenario: Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The fastest plan that fits on some number of machines of one kind.

    Attributes:
        count: Machines; for a price per card, cards.
        devices: Devices of the job.
        step_time_s: An optimizer step; None where the speed is not known.
        band: Around it.
        tokens_per_s: Of the whole job.
        cost: Days and dollars with their ends; None where the speed is not known.
        usd_per_hour: All machines; None for cards that are owned.
        peak_bytes: Fullest moment of the fullest card.
        usable_bytes: What the card offers.
        missing: What the tables lack, where the speed is not known.
    """

    machine: Machine
    count: int
    devices: int
    choice: Choice
    step_time_s: float | None
    band: SpeedBand | None
    tokens_per_s: float | None
    cost: RunCost | None
    usd_per_hour: float | None
    peak_bytes: int
    usable_bytes: int
    missing: tuple[Unknown, ...] = ()

    @property
    def days(self) -> float | None:
        """Of the run."""
        return None if self.cost is None else self.cost.days

    @property
    def usd(self) -> float | None:
        """Of the run."""
        return None if self.cost is None else self.cost.usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A machine without a plan, and why.

    Attributes:
        reason: The last thing that stood in the way.
        short_bytes: Missing on the fullest card with the plan that came nearest (`memory`).
        nearest: That plan; or the best one, where a deadline or a budget refuses it.
        devices: Cards of `nearest`.
        value: Days with `deadline`, dollars with `budget`.
        issue: The planner's own reason (`lacks`).
        missing: What the tables lack (`speed_unknown`).
    """

    machine: Machine
    reason: Fails
    short_bytes: int | None = None
    nearest: Choice | None = None
    devices: int | None = None
    value: float | None = None
    issue: Issue | None = None
    missing: tuple[Unknown, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """The best plan's machines with one thing otherwise; how the job is divided is chosen anew.

    Attributes:
        dimension: What is otherwise.
        value: How.
        reason: `memory`, `lacks`, `layout` (cannot be divided so) or None where it fits.
        short_bytes: Missing on the fullest card of the plan that comes nearest; None where one fits.
        slower_frac: Time over that of the best plan, less 1; None where none fits.
        choice: The fastest such plan, or the nearest.
    """

    dimension: str
    value: str | int
    reason: Fails | None
    short_bytes: int | None = None
    slower_frac: float | None = None
    choice: Choice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeAnswer:
    """What the articles' decision tree says.

    Attributes:
        step: Where it ends: `one_card`, `zero2`, `checkpointing`, `offload`, or `nothing`.
        found: Its cheapest plan (fastest, without prices) over the machines that the search had; None if none fits.
        framework: That it turns to and the search may not; None where both have the same to choose from.
    """

    step: str
    found: Found | None
    framework: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was looked at.

    Attributes:
        plans: Plans of the whole space: division, techniques, micro-batch, on every distinct machine and number.
        offer_plans: The same for every price apart.
        timed: Plans that a lower bound of their memory lets pass; the time of each was worked out.
        by_bound: Plans without a ledger: too large by that bound, or slower than one that fits.
        ledgers: Plans whose every byte was counted.
        machines: Distinct machines and numbers of them.
        offers: Prices.
    """

    plans: int = 0
    offer_plans: int = 0
    timed: int = 0
    by_bound: int = 0
    ledgers: int = 0
    machines: int = 0
    offers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found.

    Attributes:
        found: The fastest plan on every machine and number of them, within the limits; cheapest first.
        rejected: Machines without any, with the reason.
        cheapest: Least dollars; None where there is no price.
        fastest: Least days.
        fewest: Fewest cards, the cheapest (fastest, without prices) of those.
        frontier: Plans than which none is both cheaper and faster, cheapest first.
        unknown: Plans that fit and whose speed is not known, fewest cards first.
        others: The best plan's machines with one thing otherwise.
        counts: What was looked at.
        tree: What the articles' decision tree says.
        limits: What was asked.
    """

    found: tuple[Found, ...]
    rejected: tuple[Rejected, ...]
    cheapest: Found | None
    fastest: Found | None
    fewest: Found | None
    frontier: tuple[Found, ...]
    unknown: tuple[Found, ...]
    others: tuple[Other, ...]
    counts: Counts
    tree: TreeAnswer | None = None
    limits: Limits = Limits()

    @property
    def best(self) -> Found | None:
        """The cheapest; the fastest where nothing has a price."""
        return self.cheapest or self.fastest

    @property
    def over(self) -> Rejected | None:
        """Where no plan of known time keeps to budget and deadline: the one that comes nearest.

        The cheapest that is done by the deadline; else the fastest.
        """
        if self.best is not None:
            return None
        limited = [one for one in self.rejected if one.reason in (Fails.BUDGET, Fails.DEADLINE)]
        return min(limited, key=lambda one: (one.reason.value, one.value or 0.0), default=None)
