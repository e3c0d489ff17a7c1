"""Every price with what it would buy the open job: how many machines, whether it fits, what an hour costs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from json import loads
from typing import Final

from planner.cost.run_cost import usd_per_million_tokens
from planner.hardware import Gpu
from planner.issues import Issue
from planner.plan_types import Plan, Verdict
from planner.scenario import Links
from planner.search.rigs import IN_ONE_MACHINE
from planner.throughput import links
from planner.units import ceil_div
from ui import answers
from ui.cost.layout import Layout, Rented, as_asked, layout_of, ways_to_rent
from ui.cost.quotes import Quote, quotes
from ui.cost.replans import Fit, Machines, Refusal, Replans, replans
from ui.document import Document, canonical

OWN_STACK: Final = frozenset({"AWS", "Google"})
"""Makers whose accelerators run neither CUDA nor ROCm, which every runtime here is planned for."""
REMEMBERED: Final = 16


class Status(StrEnum):
    """What a price is to the open job."""

    FITS = "fits"
    TIGHT = "tight"
    SHORT = "does_not_fit"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    NOT_COMPARABLE = "not_comparable"


class Reason(StrEnum):
    """Why a price is no answer. Words are `cost.reason.<value>`."""

    NO_CARD = "no_card"
    NO_COUNT = "no_count"
    SHARE = "share"
    OWN_STACK = "own_stack"
    TENSOR = "tensor"
    LACKS = "lacks"
    LAYOUT = "layout"


STATUS: Final[Mapping[Verdict, Status]] = {
    Verdict.FITS: Status.FITS,
    Verdict.TIGHT: Status.TIGHT,
    Verdict.DOES_NOT_FIT: Status.SHORT,
    Verdict.UNKNOWN: Status.UNKNOWN,
}
BEST_FIRST: Final = (Status.FITS, Status.TIGHT, Status.UNKNOWN, Status.SHORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One price put to the open job.

    Attributes:
        gpu: The card of the table; None where the offer does not say which.
        reason: Set where the price is refused or cannot be compared.
        issue: The planner's own reason, with `Reason.LACKS` and `Reason.LAYOUT`.
        needs: Tensor-parallel degree, with `Reason.TENSOR`.
        rented: Machines and cards; None where none can be had.
        fit: The plan on these cards.
    """

    quote: Quote
    status: Status
    gpu: Gpu | None = None
    reason: Reason | None = None
    issue: Issue | None = None
    needs: int | None = None
    rented: Rented | None = None
    fit: Fit | None = None

    @property
    def usd_per_hour(self) -> float | None:
        """All machines or cards that have to be rented, for an hour."""
        if self.rented is None:
            return None
        if self.rented.instances is not None:
            return self.quote.usd_per_hour * self.rented.instances
        per_card = 1 if self.gpu is None else self.gpu.devices_per_card
        return self.quote.usd_per_hour * ceil_div(self.rented.paid, per_card)

    @property
    def usd_per_million_tokens(self) -> float | None:
        """A million tokens trained or answered; None without a price or a speed."""
        rate = None if self.fit is None else self.fit.rate
        if rate is None or self.usd_per_hour is None:
            return None
        return usd_per_million_tokens(self.usd_per_hour, rate.tokens_per_s)

    @property
    def headroom_bytes(self) -> int | None:
        """On the fullest card."""
        return None if self.fit is None else self.fit.headroom_bytes


def table_rows(document: Document, plan: Plan) -> tuple[Row, ...]:
    """Every price of the table of offers put to a question.

    Args:
        document: The question.
        plan: Its answer.
    """
    return _table_rows(canonical(document), layout_of(plan))


@lru_cache(maxsize=REMEMBERED)
def _table_rows(text: str, layout: Layout) -> tuple[Row, ...]:
    document: Document = loads(text)
    return rows_of(quotes(answers.tables().offers), layout, replans(document))


def rows_of(given: Iterable[Quote], layout: Layout, planned: Replans) -> tuple[Row, ...]:
    """Prices put to a question, in the order given."""
    gpus = dict(answers.tables().gpus) | planned.described
    return tuple(row_of(quote, gpus.get(quote.gpu_id or ""), layout, planned) for quote in given)


def row_of(quote: Quote, gpu: Gpu | None, layout: Layout, planned: Replans) -> Row:
    """One price put to a question; never a guess about a card or a count that is not told."""
    if gpu is None:
        return Row(quote=quote, status=Status.NOT_COMPARABLE, reason=Reason.NO_CARD)
    if quote.cards is None:
        return Row(quote=quote, gpu=gpu, status=Status.NOT_COMPARABLE, reason=Reason.NO_COUNT)
    if quote.cards < 1:
        return Row(quote=quote, gpu=gpu, status=Status.NOT_COMPARABLE, reason=Reason.SHARE)
    if gpu.vendor in OWN_STACK:
        return Row(quote=quote, gpu=gpu, status=Status.REFUSED, reason=Reason.OWN_STACK)
    devices = round(quote.cards) * gpu.devices_per_card
    ways = (as_asked(layout),) if quote.per_card else ways_to_rent(layout, devices)
    if not ways:
        return Row(quote=quote, gpu=gpu, status=Status.REFUSED, reason=Reason.TENSOR, needs=layout.tensor)
    found = [_on(quote, gpu, way, planned, layout) for way in ways]
    judged = [row for row in found if row.status in BEST_FIRST]
    return min(judged, key=_badness) if judged else found[0]


def _badness(row: Row) -> tuple[int, int]:
    """Fits before tight before short; of two ways that are short, the less short one."""
    short = row.headroom_bytes if row.status is Status.SHORT else None
    return BEST_FIRST.index(row.status), -(short or 0)


def _machines(quote: Quote, gpu: Gpu, way: Rented, layout: Layout) -> Machines:
    """What the cards of an offer sit in; cards at a price each are taken to sit in machines of eight."""
    devices = IN_ONE_MACHINE if way.instances is None else way.paid // way.instances
    used = max(layout.tensor, devices - devices % layout.tensor)
    tables = answers.tables()
    gbit = links.offered_gbit(quote.provider, quote.name, gpu, tables)
    joined = links.joins(gpu, devices, Links(inter_node_gbit=gbit), tables)
    return Machines(devices=used, network_gbit=gbit, joined=joined)


def _on(quote: Quote, gpu: Gpu, way: Rented, planned: Replans, layout: Layout) -> Row:
    fit = planned.on(gpu.id, way.used, _machines(quote, gpu, way, layout))
    if isinstance(fit, Refusal):
        return Row(
            quote=quote, gpu=gpu, status=Status.REFUSED, reason=Reason.LAYOUT, issue=fit.issue, rented=way
        )
    if fit.lacks is not None:
        return Row(quote=quote, gpu=gpu, status=Status.REFUSED, reason=Reason.LACKS, issue=fit.lacks, fit=fit)
    return Row(quote=quote, gpu=gpu, status=STATUS[fit.verdict], rented=way, fit=fit)
