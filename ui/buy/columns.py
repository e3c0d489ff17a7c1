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
    Build,
    Counted,
    Known,
    counted,
    device_rows,
    power_of,
    price_of,
    problem_of,
    rent_of,
)
from ui.buy.money import Costs, Terms, costs_of
from ui.catalog import described_cards, described_gpus
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

    @property
    def tokens_per_s(self) -> float | None:
        """Of the whole build; None where it does not fit or is not known."""
        return None if self.on.rate is None else self.on.rate.tokens_per_s


def known_cards(document: Document) -> dict[str, Gpu]:
    """Cards a build may be made of: those of the table, and those that the open question describes."""
    return dict(tables().gpus) | described_gpus(document)


def column(
    letter: str, build: Build, document: Document, terms: Terms, quotes: Sequence[Quote], today: date
) -> Column | None:
    """One column; None where the build cannot be planned.

    Args:
        letter: Its letter.
        build: As typed.
        document: The open question.
        terms: Of owning.
        quotes: Prices an hour that a rent may be taken from.
        today: For the age of prices.
    """
    known = known_cards(document)
    rows = device_rows(build, document, described_cards(document))
    devices = _devices(rows)
    if problem_of(build, known) is not None or devices is None:
        return None
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
    builds: Mapping[int, Build], document: Document, terms: Terms, quotes: Sequence[Quote], today: date
) -> tuple[Column, ...]:
    """The columns of all builds that can be planned, lettered by their place in the list."""
    made = (
        column(letter, build, document, terms, quotes, today)
        for letter, build in zip(LETTERS, builds.values(), strict=False)
    )
    return tuple(one for one in made if one is not None)


def _devices(rows: Sequence[Document]) -> tuple[Device, ...] | None:
    try:
        found = tuple(Device.model_validate(row) for row in rows)
    except ValidationError:
        return None
    return found or None
