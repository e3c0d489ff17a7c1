"""Changes planned and ranked: those that make it fit first, the cheapest in time for what they save before others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from planner.advise.change import Change, together
from planner.document import Document
from planner.hardware import Tables
from planner.plan_types import Plan, Verdict
from planner.units import gib, mib_bytes

Answering = Callable[[Document], Plan | None]
"""Plans a document; None where it has errors."""

MOST_SHOWN: Final = 6
MOST_PAIRS: Final = 4
"""Pairs that are planned, those likely to be enough at the least time first."""
MOST_CHAINS: Final = 2
"""Longer lists of changes that are planned where no pair is enough."""
LEAST_EFFECT_BYTES: Final = mib_bytes(64)
ORDER: Final = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.UNKNOWN: 2, Verdict.DOES_NOT_FIT: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change with its plan.

    Attributes:
        change: What is different.
        plan: The answer to the changed question.
        delta_bytes: Need of the fullest card, after less before.
        budget_bytes: What the engine may take more of that card, where the change is one of its budget.
        time_frac: Change of the time a token takes over all cards; None where the tables do not tell.
        card_time_frac: The same times the cards: what it does to the bill.
        price_frac_per_gib: Added time for each GiB saved of those that are missing (of all where none is).
    """

    change: Change
    plan: Plan
    delta_bytes: int
    budget_bytes: int = 0
    time_frac: float | None = None
    card_time_frac: float | None = None
    price_frac_per_gib: float | None = None

    @property
    def gained_bytes(self) -> int:
        """Room on the fullest card: what is saved, and what the engine may take more; below 0 with growth."""
        return self.budget_bytes - self.delta_bytes


def advise(
    document: Document, plan: Plan, answering: Answering, tables: Tables, most: int = MOST_SHOWN
) -> tuple[Outcome, ...]:
    """Changes that matter to a plan, with their plans.

    Where it does not fit surely: what saves, by verdict and by whether its central figure fits, the same job before
    another, then by added time for the bytes that are missing; with pairs where no single change of the same job is
    enough, and as many as it takes where no pair is. Where it fits: first what could use the rest and still fits, the
    most time gained first, then what saves.

    Args:
        document: The question.
        plan: Its answer.
        answering: Plans a changed document.
        tables: Cards and constants.
        most: How many to give.
    """
    asking = _Asking(document, plan, answering, tables)
    planned = (found for one in _changes(document, plan) if (found := asking.outcome(one)) is not None)
    if plan.verdict is Verdict.FITS:
        return _for_a_plan_that_fits(planned, most)
    singles = list(planned)
    several = () if plan.verdict is Verdict.UNKNOWN else _several(asking, singles)
    return tuple(sorted((*singles, *several), key=_place)[:most])


def _several(asking: "_Asking", singles: Sequence[Outcome]) -> tuple[Outcome, ...]:
    """Pairs where no single change of the same job is enough, and a longer list where no pair is."""
    if _any_fits(singles):
        return ()
    pairs = tuple(asking.pairs(singles))
    longer = None if _any_fits(pairs) else asking.enough(singles)
    return pairs if longer is None else (*pairs, longer)


def _any_fits(found: Iterable[Outcome]) -> bool:
    return any(o.plan.verdict is Verdict.FITS and _is_same(o.change) for o in found)


def _for_a_plan_that_fits(planned: Iterator[Outcome], most: int) -> tuple[Outcome, ...]:
    """Growth by the time it gains, then as many of the first savings as there is room for; lists begin with growth."""
    found = tuple(islice(planned, most))
    growth = sorted((o for o in found if o.change.grows), key=_growth_place)
    return (*growth, *sorted((o for o in found if not o.change.grows), key=_place))


def first_that_fits(found: Iterable[Outcome]) -> Outcome | None:
    """The first change that makes it fit, else the first that makes it tight."""
    listed = tuple(found)
    for wanted in (Verdict.FITS, Verdict.TIGHT):
        for outcome in listed:
            if outcome.plan.verdict is wanted:
                return outcome
    return None


def seconds_per_token(plan: Plan, tables: Tables) -> float | None:
    """Time of a token over all cards; None where the tables lack a rate."""
    if "speed_train_product_frac" not in tables.constants:
        return None
    if plan.resolved.is_training:
        from planner.throughput.training_speed import training_speed  # noqa: PLC0415 - only training needs it

        rate = training_speed(plan, tables).tokens_per_s
    else:
        from planner.throughput.serving_speed import serving_speed  # noqa: PLC0415 - only servers need it

        rate = serving_speed(plan, tables).output_tokens_per_s
    return 1 / rate if rate else None


def missing_bytes(plan: Plan) -> int:
    """What the fullest card has to lose for the plan to fit surely; 0 where it fits or where that is not known."""
    worst = plan.worst
    if worst.usable_bytes is None or plan.verdict is Verdict.FITS:
        return 0
    room = worst.usable_bytes * (1 - plan.resolved.hardware.margin_frac)
    spread = 1.0 if worst.band is None else worst.band.high_bytes / worst.peak_bytes
    return max(0, round(worst.peak_bytes - room / spread))


class _Asking:
    """Plans changes of one question and compares them with it."""

    def __init__(self, document: Document, plan: Plan, answering: Answering, tables: Tables) -> None:
        self.document, self.plan, self.answering, self.tables = document, plan, answering, tables
        self.before_s = seconds_per_token(plan, tables)
        self.missing = missing_bytes(plan)

    def outcome(self, one: Change) -> Outcome | None:
        """A change planned; None where it cannot be or makes no difference worth a row."""
        if one.grows and self.plan.verdict is not Verdict.FITS:
            return None
        changed = self.answering(one.document)
        if changed is None:
            return None
        delta = changed.worst.peak_bytes - self.plan.worst.peak_bytes
        budget = self._budget(changed) if one.budget else 0
        gained = budget - delta
        if abs(gained) < LEAST_EFFECT_BYTES or (gained < 0) != one.grows:
            return None
        if one.grows and changed.verdict is not Verdict.FITS:
            return None
        time_frac, card_time_frac = self._time(changed)
        return Outcome(
            change=one,
            plan=changed,
            delta_bytes=delta,
            budget_bytes=budget,
            time_frac=time_frac,
            card_time_frac=card_time_frac,
            price_frac_per_gib=self._price(time_frac, gained),
        )

    def _budget(self, changed: Plan) -> int:
        before, after = self.plan.worst.usable_bytes, changed.worst.usable_bytes
        return 0 if before is None or after is None else after - before

    def pairs(self, singles: Iterable[Outcome]) -> Iterator[Outcome]:
        """Two savings of the same job together that reach what neither does alone.

        The few pairs that are planned: those that should be enough, least added time first, then those that should
        come nearest.
        """
        useful = [o for o in singles if _is_same(o.change) and not o.change.grows]
        likely = sorted(combinations(useful, 2), key=lambda two: self._promise(*two))
        planned = 0
        for first, second in likely:
            both = together(self.document, first.change, second.change)
            if both is None:
                continue
            found = self.outcome(both)
            planned += 1
            alone = min(ORDER[first.plan.verdict], ORDER[second.plan.verdict])
            if found is not None and ORDER[found.plan.verdict] < alone:
                yield found
            if planned == MOST_PAIRS:
                return

    def enough(self, singles: Iterable[Outcome]) -> Outcome | None:
        """As many savings of the same job as it takes, those that cost least time first; None where all are too few."""
        useful = sorted(
            (o for o in singles if _is_same(o.change) and not o.change.grows),
            key=lambda o: o.time_frac or 0.0,
        )
        taken: list[Outcome] = []
        planned = 0
        for one in useful:
            both = together(self.document, *(o.change for o in (*taken, one)))
            if both is None:
                continue
            taken.append(one)
            if len(taken) < 3 or (self._short_bytes(taken) > 0 and one is not useful[-1]):
                continue
            found = self.outcome(both)
            planned += 1
            if planned == MOST_CHAINS or (found is not None and found.plan.verdict is Verdict.FITS):
                return found
        return None

    def _promise(self, first: Outcome, second: Outcome) -> tuple[bool, float]:
        """Whether both should be enough, then their time, else how much should still be missing."""
        short = self._short_bytes((first, second))
        return (
            (True, float(short))
            if short > 0
            else (False, (first.time_frac or 0.0) + (second.time_frac or 0.0))
        )

    def _short_bytes(self, several: Sequence[Outcome]) -> int:
        """What should still be missing with several changes, as if each took the same from a phase with the others."""
        before, where = self.plan.worst.ledger, self.plan.fullest
        after = [o.plan.devices[where].ledger for o in several if len(o.plan.devices) > where]
        peak = max(
            before.phase_bytes(phase)
            + sum(one.phase_bytes(phase) - before.phase_bytes(phase) for one in after)
            for phase in before.phases
        )
        return peak - self.plan.worst.peak_bytes + self.missing - sum(o.budget_bytes for o in several)

    def _time(self, changed: Plan) -> tuple[float | None, float | None]:
        after_s = seconds_per_token(changed, self.tables)
        if self.before_s is None or after_s is None:
            return None, None
        ratio = after_s / self.before_s
        cards = changed.resolved.hardware.num_devices / self.plan.resolved.hardware.num_devices
        return ratio - 1, ratio * cards - 1

    def _price(self, time_frac: float | None, saved_bytes: int) -> float | None:
        if time_frac is None or saved_bytes <= 0:
            return None
        counted = min(saved_bytes, self.missing) if self.missing else saved_bytes
        return time_frac / gib(counted)


def _changes(document: Document, plan: Plan) -> Iterator[Change]:
    if plan.resolved.is_training:
        from planner.advise.training import training_changes  # noqa: PLC0415 - only training needs it

        return training_changes(document, plan)
    from planner.advise.serving import serving_changes  # noqa: PLC0415 - only servers need it

    return serving_changes(document, plan)


def _is_same(one: Change) -> bool:
    return not one.other_job and not one.other_hardware


def _place(outcome: Outcome) -> tuple[int, bool, bool, float]:
    price, left = outcome.price_frac_per_gib, outcome.plan.worst.headroom_bytes
    short = left is not None and left < 0
    return ORDER[outcome.plan.verdict], short, not _is_same(outcome.change), 0.0 if price is None else price


def _growth_place(outcome: Outcome) -> float:
    return outcome.time_frac or 0.0
