"""Everything about each build, worked out once a run: a column of the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from pydantic import ValidationError

from planner.hardware import Gpu
from planner.scenario import Device
from ui.answers import tables
from ui.buy.answers import OnBuild, largest_model, longest_context, on_build
from ui.buy.builds import (
    LETTERS,
    OPEN,
    Build,
    Counted,
    Known,
    counted,
    device_rows,
    in_dollars,
    power_of,
    price_of,
    problem_of,
    rent_of,
)
from ui.buy.money import Costs, Terms, costs_of
from ui.catalog import described_cards, described_gpus
from ui.cost.currency import Exchange
from ui.cost.quotes import Quote
from ui.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One build with all that is known of it.

    Attributes:
        letter: A to D, by position.
        cards: Kinds of cards and how many of each.
        on: The open job on it.
        price: Of the whole machine.
        power: At work.
        rent: Of one like it, an hour.
        costs: Owning and renting; None where price or power is not known.
        longest: Tokens of the longest sequence that fits; None where not known.
        largest: Id of the largest model that fits; None for none.
        problem: Why the build is not counted, words are `buy.problem.<code>`; nothing else is known of it then.
        wrong: The value that is the problem, as typed.
    """

    letter: str
    build: Build
    cards: Counted
    on: OnBuild
    price: Known | None
    power: Known | None
    rent: Known | None
    costs: Costs | None
    longest: int | None
    largest: str | None
    problem: str | None = None
    wrong: float | str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Of the whole build; None where it does not fit or is not known."""
        return None if self.on.rate is None else self.on.rate.tokens_per_s


def known_cards(document: Document) -> dict[str, Gpu]:
    """Cards a build may be made of: those of the table, and those that the open question describes."""
    return dict(tables().gpus) | described_gpus(document)


def column(
    letter: str,
    typed: Build,
    document: Document,
    terms: Terms,
    quotes: Sequence[Quote],
    today: date,
    exchange: Exchange,
) -> Column:
    """One column; where the build cannot be planned it tells the problem only.

    Args:
        letter: Its letter.
        typed: As typed.
        document: The open question.
        terms: Of owning, in dollars.
        quotes: Prices an hour that a rent may be taken from.
        today: For the age of prices.
        exchange: The currency that the build's amounts are typed in.
    """
    known = known_cards(document)
    rows = device_rows(typed, document, described_cards(document))
    devices = _devices(rows)
    problem = problem_of(typed, known)
    if problem is not None or devices is None:
        return _not_counted(letter, typed, problem or "open", document)
    build = in_dollars(typed, exchange)
    cards = counted(devices, known)
    on = on_build(document, rows)
    nodes = tables().nodes
    price, power = price_of(build, cards, nodes), power_of(build, cards, nodes)
    rent = rent_of(build, cards, quotes, today)
    return Column(
        letter=letter,
        build=build,
        cards=cards,
        on=on,
        price=price,
        power=power,
        rent=rent,
        costs=costs_of(price, power, rent, on.rate, terms),
        longest=longest_context(on),
        largest=largest_model(on),
    )


def columns(
    builds: Mapping[int, Build],
    document: Document,
    terms: Terms,
    quotes: Sequence[Quote],
    today: date,
    exchange: Exchange | None = None,
) -> tuple[Column, ...]:
    """A column a build, lettered by its place in the list; amounts are in dollars where no currency is given."""
    money = exchange or Exchange()
    return tuple(
        column(letter, build, document, terms, quotes, today, money)
        for letter, build in zip(LETTERS, builds.values(), strict=False)
    )


def _not_counted(letter: str, typed: Build, problem: str, document: Document) -> Column:
    """A build that cannot be planned, with the value that is the problem."""
    gpu = known_cards(document).get(typed.gpu_id) or Gpu(id=typed.gpu_id, name=typed.gpu_id)
    named = typed.gpu_id != OPEN
    return Column(
        letter=letter,
        build=typed,
        cards=((gpu, 0 if problem == "count" else typed.count or 0),) if named else (),
        on=OnBuild(document=document),
        price=None,
        power=None,
        rent=None,
        costs=None,
        longest=None,
        largest=None,
        problem=problem,
        wrong=getattr(typed, "gpu_id" if problem == "card" else problem, None),
    )


def _devices(rows: Sequence[Document]) -> tuple[Device, ...] | None:
    try:
        found = tuple(Device.model_validate(row) for row in rows)
    except ValidationError:
        return None
    return found or None
