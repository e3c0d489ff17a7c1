"""What a build costs to own and to rent, from the terms that the user sets."""

from dataclasses import dataclass, replace
from typing import Any, Final

from planner.cost import BuyOrRent, Ownership, Rent, buy_or_rent, least_utilisation_frac
from ui.buy.builds import Known
from ui.cost.currency import Exchange
from ui.cost.replans import Rate
from ui.whole import is_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the user sets for all builds; shares in per cent.

    Attributes:
        use_percent: Share of all hours in which the machine works.
        per_kwh: Price of electricity, in the currency that amounts are typed in.
        cooling_percent: Energy of cooling and losses on top of the machine's own.
        idle_percent: Power while nothing runs, of that at work.
        hosting: Space, network, hands, a month, in that currency.
        interest_percent: What the money costs, a year.
        resale_percent: What the machine brings at the end of its life, of its price.
        life_months: When that is.
        typed: Names of the amounts that were typed; the others are the defaults, which are in dollars.
    """

    use_percent: float | None = 60.0
    per_kwh: float | None = 0.12
    cooling_percent: float | None = 40.0
    idle_percent: float | None = 20.0
    hosting: float | None = 0.0
    interest_percent: float | None = 5.0
    resale_percent: float | None = 30.0
    life_months: int | None = 36
    typed: frozenset[str] = frozenset()


LIMITS: Final[dict[str, tuple[float, float]]] = {
    "use_percent": (0, 100),
    "per_kwh": (0, 100_000),
    "cooling_percent": (0, 300),
    "idle_percent": (0, 100),
    "hosting": (0, 100_000_000),
    "interest_percent": (0, 100),
    "resale_percent": (0, 100),
    "life_months": (1, 120),
}
"""The least and the most of each term, both allowed."""
AMOUNTS: Final = ("per_kwh", "hosting")
"""The terms that are money."""
COUNTS: Final = ("life_months",)
"""The terms that are whole numbers."""
USES: Final = tuple(step / 50 for step in range(1, 51))
"""Shares of use at which the pay-back is worked out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Owning and renting one build.

    Attributes:
        found: Month by month.
        least_use_frac: From which use on buying pays over the life; None where no use is enough.
        own: What it was worked out for.
        rent: What renting was worked out for; None where no rent is known, so that only what owning costs means
            something.
        rate: Speed behind the figures for a million tokens; None where not known.
    """

    found: BuyOrRent
    least_use_frac: float | None
    own: Ownership
    rent: Rent | None
    rate: Rate | None

    @property
    def owned_usd(self) -> float | None:
        """A million tokens on the bought machine."""
        return self.found.owned_usd_per_million_tokens

    @property
    def rented_usd(self) -> float | None:
        """A million tokens on the rented one."""
        return self.found.rented_usd_per_million_tokens if self.rented else None

    @property
    def rented(self) -> bool:
        """Whether a rent is known."""
        return self.rent is not None


def terms_in_dollars(terms: Terms, exchange: Exchange) -> Terms:
    """The terms with their amounts in dollars: those that were typed by the rate, without one they are empty."""
    turned: dict[str, Any] = {
        name: exchange.usd(getattr(terms, name)) for name in AMOUNTS if name in terms.typed
    }
    return replace(terms, **turned)


def wrong_terms(terms: Terms) -> tuple[str, ...]:
    """Names of terms that are empty, outside their limits, or not whole where they have to be."""
    return tuple(
        name
        for name, (low, high) in LIMITS.items()
        if (value := getattr(terms, name)) is None
        or not low <= value <= high
        or (name in COUNTS and not is_whole(value))
    )


def costs_of(
    price: Known | None, power: Known | None, rent: Known | None, rate: Rate | None, terms: Terms
) -> Costs | None:
    """Owning against renting; None where price or power is not known, or a term is wrong.

    Args:
        price: Of the whole build.
        power: Of it.
        rent: Of one like it; None works out what owning costs alone.
        rate: Tokens a second.
        terms: What the user sets.
    """
    if price is None or power is None or wrong_terms(terms):
        return None
    own = _ownership(price.value, power.value, terms)
    hired = Rent(usd_per_hour=0.0 if rent is None else rent.value)
    use = (terms.use_percent or 0.0) / 100
    speed = rate.tokens_per_s if rate is not None and use > 0 else None
    return Costs(
        found=buy_or_rent(own, hired, use, speed),
        least_use_frac=None if rent is None else least_utilisation_frac(own, hired),
        own=own,
        rent=None if rent is None else hired,
        rate=rate,
    )


def months_by_use(costs: Costs) -> tuple[tuple[float, int], ...]:
    """The month by which a kept build has paid for itself, by share of use; shares at which it never does left out."""
    if costs.rent is None:
        return ()
    months = ((use, buy_or_rent(costs.own, costs.rent, use).pay_back_month) for use in USES)
    return tuple((use, month) for use, month in months if month is not None)


def _ownership(price_usd: float, power_w: float, terms: Terms) -> Ownership:
    return Ownership(
        purchase_usd=price_usd,
        power_w=power_w,
        usd_per_kwh=terms.per_kwh or 0.0,
        idle_power_frac=(terms.idle_percent or 0.0) / 100,
        cooling_frac=(terms.cooling_percent or 0.0) / 100,
        hosting_usd_per_month=terms.hosting or 0.0,
        interest_frac_per_year=(terms.interest_percent or 0.0) / 100,
        resale_frac=(terms.resale_percent or 0.0) / 100,
        life_months=int(terms.life_months or 1),
    )
