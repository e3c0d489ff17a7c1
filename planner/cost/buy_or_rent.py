"""Whether a machine pays for itself against renting one like it."""

from dataclasses import dataclass
from typing import Final

from planner.cost.checks import above_zero, at_least, share
from planner.cost.run_cost import usd_per_million_tokens

MONTH_HOURS: Final = 730.5
"""A twelfth of 365.25 days."""
YEAR_MONTHS: Final = 12
HORIZON_MONTHS: Final = 120
WATT_KW: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A machine that is bought.

    Attributes:
        purchase_usd: Price of the whole machine.
        power_w: What it draws at work.
        idle_power_frac: Share of that while nothing runs.
        usd_per_kwh: Price of electricity.
        cooling_frac: Energy of cooling and losses over the machine's own (0.4 = a PUE of 1.4).
        hosting_usd_per_month: Space, network, hands.
        interest_frac_per_year: What the money costs or would earn.
        resale_frac: What the machine still brings after `life_months`, of its price.
        life_months: When.
    """

    purchase_usd: float
    power_w: float
    usd_per_kwh: float
    idle_power_frac: float = 0.2
    cooling_frac: float = 0.4
    hosting_usd_per_month: float = 0.0
    interest_frac_per_year: float = 0.05
    resale_frac: float = 0.3
    life_months: int = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Rent:
    """A machine like it for hire, paid only while it works.

    Attributes:
        usd_per_hour: Whole machine.
    """

    usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BuyOrRent:
    """The two ways beside each other.

    Attributes:
        pay_back_month: First month in which price and running costs together are no more than the rent would have
            been, the machine kept; None where that does not come within ten years.
        break_even_month: The same if the machine were sold in that month.
        owned_usd: What owning has cost by the end of each month, in money of today, resale taken off.
        rented_usd: What renting has.
        running_usd_per_month: Power, cooling and hosting.
        rent_usd_per_month: Rent of the hours used.
        owned_usd_per_million_tokens: Over the machine's life, both sides in values of today: the cost of owning over
            the tokens of each month, discounted like the dollars of that month. None without a speed.
        rented_usd_per_million_tokens: Rent of an hour over the tokens of an hour, which discounting both leaves as it
            is; None without a speed.
    """

    pay_back_month: int | None
    break_even_month: int | None
    owned_usd: tuple[float, ...]
    rented_usd: tuple[float, ...]
    running_usd_per_month: float
    rent_usd_per_month: float
    owned_usd_per_million_tokens: float | None
    rented_usd_per_million_tokens: float | None


def buy_or_rent(
    own: Ownership, rent: Rent, utilisation_frac: float, tokens_per_s: float | None = None
) -> BuyOrRent:
    """Costs month by month in money of today, and the month in which they cross.

    Args:
        own: The machine to buy.
        rent: The one to hire.
        utilisation_frac: Share of all hours in which it works.
        tokens_per_s: While it works.

    Raises:
        ValueError: A negative amount, or a share outside 0 to 1.
    """
    _check(own, rent, utilisation_frac, tokens_per_s)
    running = running_usd_per_month(own, utilisation_frac)
    hired = rent.usd_per_hour * MONTH_HOURS * utilisation_frac
    discount = _discount(own)
    owned: list[float] = []
    kept: list[float] = []
    rented: list[float] = []
    spent = paid = 0.0
    for month in range(1, HORIZON_MONTHS + 1):
        spent += running * discount**month
        paid += hired * discount**month
        kept.append(own.purchase_usd + spent)
        owned.append(kept[-1] - resale_usd(own, month) * discount**month)
        rented.append(paid)
    hours = MONTH_HOURS * utilisation_frac * _annuity(own)
    speed = tokens_per_s if hours > 0 else None
    last = own.life_months - 1
    return BuyOrRent(
        pay_back_month=_crossing(kept, rented),
        break_even_month=_crossing(owned, rented),
        owned_usd=tuple(owned),
        rented_usd=tuple(rented),
        running_usd_per_month=running,
        rent_usd_per_month=hired,
        owned_usd_per_million_tokens=speed and usd_per_million_tokens(owned[last] / hours, speed),
        rented_usd_per_million_tokens=speed and usd_per_million_tokens(rent.usd_per_hour, speed),
    )


def least_utilisation_frac(own: Ownership, rent: Rent) -> float | None:
    """Share of all hours from which buying costs no more than renting over the machine's life, resale counted.

    Both sides are linear in the share: (P - S) / A + idle + hosting = u (rent - work), per month.

    Returns:
        A share; 0 where even an idle machine costs no more; None where no use is enough.

    Raises:
        ValueError: As `buy_or_rent`.
    """
    _check(own, rent, 1.0, None)
    annuity = _annuity(own)
    lost = own.purchase_usd - resale_usd(own, own.life_months) * _discount(own) ** own.life_months
    idle = running_usd_per_month(own, 0.0)
    gained = rent.usd_per_hour * MONTH_HOURS - (running_usd_per_month(own, 1.0) - idle)
    needed = lost / annuity + idle
    if needed <= 0:
        return 0.0
    if gained <= 0 or needed > gained:
        return None
    return needed / gained


def _discount(own: Ownership) -> float:
    """What a dollar of the next month is worth today."""
    value: float = (1 + own.interest_frac_per_year) ** (-1 / YEAR_MONTHS)
    return value


def _annuity(own: Ownership) -> float:
    """What one each month of the life is worth today."""
    return sum(_discount(own) ** month for month in range(1, own.life_months + 1))


def _crossing(bought: list[float], rented: list[float]) -> int | None:
    pairs = enumerate(zip(bought, rented, strict=True), start=1)
    return next((month for month, (spent, paid) in pairs if spent <= paid), None)


def running_usd_per_month(own: Ownership, utilisation_frac: float) -> float:
    """Electricity of work and idling, cooling on top, and hosting."""
    at_work = utilisation_frac + (1 - utilisation_frac) * own.idle_power_frac
    energy_kwh = own.power_w / WATT_KW * MONTH_HOURS * at_work * (1 + own.cooling_frac)
    return energy_kwh * own.usd_per_kwh + own.hosting_usd_per_month


def resale_usd(own: Ownership, month: int) -> float:
    """What the machine brings after some months: it loses the same share each month, down to `resale_frac`."""
    value: float = own.purchase_usd * own.resale_frac ** (month / own.life_months)
    return value


def _check(own: Ownership, rent: Rent, utilisation_frac: float, tokens_per_s: float | None) -> None:
    for field in ("purchase_usd", "power_w", "usd_per_kwh", "cooling_frac", "hosting_usd_per_month"):
        at_least(field, getattr(own, field), 0)
    at_least("interest_frac_per_year", own.interest_frac_per_year, 0)
    at_least("usd_per_hour", rent.usd_per_hour, 0)
    for field in ("idle_power_frac", "resale_frac"):
        share(field, getattr(own, field))
    share("utilisation_frac", utilisation_frac)
    if not 1 <= own.life_months <= HORIZON_MONTHS:
        raise ValueError(f"life_months: {own.life_months}; allowed: 1 to {HORIZON_MONTHS}")
    if tokens_per_s is not None:
        above_zero("tokens_per_s", tokens_per_s)
