"""Asks the sources one after another and judges what they hold; one that fails leaves the others alone."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from hardware_db.refresh import aws, azure, gpuhunt, skypilot
from hardware_db.refresh.fetch import FetchError, Getter, Web
from hardware_db.refresh.judge import Known, judged, known_of
from hardware_db.refresh.types import ChangedFormatError, Reading, Refresh, SourceReport, State
from planner.prices import Offer, earliest_day

Read = Callable[[Getter, Reading], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One place prices are read from.

    Attributes:
        id: Stable id; locale files word it.
        url: Where.
        read: Puts what it holds into a reading.
        by_default: Asked unless the user takes it out; the others are large or need a package.
    """

    id: str
    url: str
    read: Read
    by_default: bool = True


def _gpuhunt(_get: Getter, reading: Reading) -> None:
    gpuhunt.read(reading)


def _skypilot(cloud: str) -> Read:
    return partial(skypilot.read, cloud=cloud)


SOURCES: Final[tuple[Source, ...]] = (
    Source(id="azure", url=azure.ADDRESS, read=azure.read),
    *(
        Source(id=f"skypilot_{cloud}", url=skypilot.ADDRESS.format(cloud=cloud), read=_skypilot(cloud))
        for cloud in skypilot.CLOUDS
    ),
    Source(id="aws", url=aws.ADDRESS, read=aws.read, by_default=False),
    Source(id="gpuhunt", url="https://pypi.org/project/gpuhunt/", read=_gpuhunt, by_default=False),
)


def refresh(
    sources: Iterable[Source],
    shipped: Iterable[Offer],
    *,
    get: Getter | None = None,
    now: datetime | None = None,
    on_start: Callable[[Source], None] | None = None,
) -> Refresh:
    """Read sources and keep what is a price. Never raises for what a network or a source does.

    Args:
        sources: Which, in order.
        shipped: The shipped table: it tells cards of machines and what a price was before; it is not changed.
        get: Reads addresses; the network by default.
        now: The time of the refresh.
        on_start: Called before each source.
    """
    known, getter = known_of(shipped), get or Web()
    made_at = (now or datetime.now(UTC)).astimezone(UTC)
    offers: list[Offer] = []
    reports: list[SourceReport] = []
    for source in sources:
        if on_start is not None:
            on_start(source)
        found, report = _one(source, known, getter, made_at)
        offers += found
        reports.append(report)
    return Refresh(
        made_at=made_at.isoformat(timespec="seconds"), offers=tuple(offers), reports=tuple(reports)
    )


def merged(before: Refresh | None, after: Refresh) -> Refresh:
    """A refresh with what an earlier one brought of sources that this one did not ask or could not read.

    Offers keep their own dates; a source that could not be read says how many older ones stay.
    """
    if before is None:
        return after
    brought = {report.source for report in after.reports if report.state is not State.FAILED}
    asked = {report.source for report in after.reports}
    addresses = {report.source: report.url for report in (*before.reports, *after.reports)}
    kept = {
        source: tuple(offer for offer in before.offers if offer.source.startswith(address))
        for source, address in addresses.items()
        if source not in brought
    }
    reports = tuple(replace(report, older=len(kept.get(report.source, ()))) for report in after.reports)
    others = tuple(report for report in before.reports if report.source not in asked)
    older = tuple(offer for offers in kept.values() for offer in offers)
    return replace(after, offers=(*after.offers, *older), reports=(*reports, *others))


def _one(
    source: Source, known: Known, get: Getter, made_at: datetime
) -> tuple[Sequence[Offer], SourceReport]:
    reading = Reading()
    problem, detail = _trouble(source, get, reading)
    day = reading.dated if _is_day(reading.dated, made_at) else made_at.date().isoformat()
    # A format that has changed half-way may have moved prices to other columns before that.
    prices = Reading() if problem == "changed_format" else reading
    offers, kept_out, dearer = judged(prices, known, day=day, source=f"{source.url} ({made_at.date()})")
    state = State.READ if not problem else State.PARTIAL if offers else State.FAILED
    return offers, SourceReport(
        source=source.id,
        url=source.url,
        state=state,
        problem=problem,
        detail=detail,
        rows=len(prices.prices) + len(prices.kept_out),
        taken=len(offers),
        kept_out=kept_out,
        passed_over=prices.passed_over + dearer,
        dated=reading.dated,
    )


def _trouble(source: Source, get: Getter, reading: Reading) -> tuple[str, str]:
    """Read a source; why it could not be read whole, as a code and what it is about."""
    try:
        source.read(get, reading)
    except FetchError as problem:
        return problem.code, problem.detail
    except ChangedFormatError as problem:
        return "changed_format", str(problem)[:200]
    except csv.Error as problem:
        return "changed_format", str(problem)[:200]
    except gpuhunt.NotInstalledError:
        return "not_installed", gpuhunt.PACKAGE
    except gpuhunt.PackageError as problem:
        return "package_failed", str(problem)[:200]
    if not reading.prices and not reading.kept_out:
        return "changed_format", "0"
    return "", ""


def _is_day(text: str, now: datetime) -> bool:
    """Whether the source's own day can be: a date that is not to come."""
    try:
        return earliest_day(text) <= now.date()
    except ValueError:
        return False
