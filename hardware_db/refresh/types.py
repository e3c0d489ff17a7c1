"""What a refresh brings: offers, and for every source what was taken, what was kept out and why."""

from dataclasses import dataclass, field
from enum import StrEnum

from planner.prices import Offer

MOST_EXAMPLES = 5
"""Rows kept out for one reason that are listed by name; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawPrice:
    """One price as a source writes it, checked for nothing but its place.

    Attributes:
        provider: As the shipped table calls it.
        instance_type: As the source writes it.
        gpu_name: As the source writes it; empty where it tells none.
        gpu_count: Cards; None where the source does not tell.
        spot: The machine may be taken away.
        price: For the whole machine, whatever stands there.
        currency: Code; empty where the source's documentation says US dollars.
        unit: What the price is for; empty where the documentation says an hour.
    """

    provider: str
    instance_type: str
    region: str
    price: object
    gpu_name: str = ""
    gpu_count: float | None = None
    spot: bool = False
    currency: str = ""
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """Rows of a source that are no price, by reason.

    Attributes:
        code: `not_a_number`, `not_above_zero`, `absurd`, `far_from_known`, `currency`, `unit`, `unknown_card`,
            `short_row` or `changed_row`.
        count: How many.
        examples: The first few: name and what stood there.
    """

    code: str
    count: int
    examples: tuple[tuple[str, str], ...] = ()


class State(StrEnum):
    """How reading a source ended."""

    READ = "read"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """One source.

    Attributes:
        source: Its id.
        url: Where it was read.
        state: How it ended.
        problem: Why it is not whole: a code of `FetchError`, `changed_format`, `not_installed` or
            `package_failed`; empty where it is.
        detail: What the problem is about: a status, a missing column, a size.
        rows: Prices seen.
        taken: Offers made of them.
        kept_out: The rest, by reason.
        passed_over: Rows about something else: other systems, dearer regions of a machine already listed.
        dated: The day the source itself gives its prices; empty where it gives none.
        older: Offers of an earlier refresh that stay, because this one brought none.
    """

    source: str
    url: str
    state: State
    problem: str = ""
    detail: str = ""
    rows: int = 0
    taken: int = 0
    kept_out: tuple[KeptOut, ...] = ()
    passed_over: int = 0
    dated: str = ""
    older: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """All of one refresh.

    Attributes:
        made_at: UTC, ISO 8601 to the second.
        offers: With the day of the refresh, or the source's own, as their date.
        reports: One a source asked.
    """

    made_at: str
    offers: tuple[Offer, ...] = ()
    reports: tuple[SourceReport, ...] = ()


@dataclass(slots=True, kw_only=True)
class Reading:
    """What a parser finds in a source while it reads.

    Attributes:
        prices: In the order found.
        kept_out: Reason, name and what stood there.
        passed_over: Rows about something else.
        dated: The day the source gives its prices.
    """

    prices: list[RawPrice] = field(default_factory=list)
    kept_out: list[tuple[str, str, str]] = field(default_factory=list)
    passed_over: int = 0
    dated: str = ""


class ChangedFormatError(ValueError):
    """A source no longer looks as documented; the text names what is missing."""
