"""Days and dollars of a training run, from its tokens and its speed."""

from dataclasses import dataclass
from typing import Final

from planner.cost.checks import above_zero, at_least
from planner.scenario import Workload
from planner.units import ceil_div

HOUR_S: Final = 3600
DAY_S: Final = 86_400
LEFT_OUT: Final = (
    "storage_and_traffic",
    "failed_attempts",
    "evaluation_and_checkpoints",
    "setup_and_idle_hours",
    "taxes_and_discounts",
    "people",
)
"""What a run's cost leaves out, as codes; the page says so beside every figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Machines that may be taken away.

    Attributes:
        interruptions_per_day: Of the whole job: one lost machine stops all.
        checkpoint_interval_s: Time between two saved states; half of it is lost at each interruption.
        restart_s: From the interruption to the first new step.
    """

    interruptions_per_day: float
    checkpoint_interval_s: float
    restart_s: float


ASSUMED_SPOT: Final = Spot(interruptions_per_day=2, checkpoint_interval_s=HOUR_S, restart_s=600)
"""The allowance for spot machines where nobody tells how often they are taken away; stated beside the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """A run.

    Attributes:
        tokens: Training tokens.
        computing_s: Time of the steps.
        lost_s: Time lost to interruptions.
        days: Both together.
        usd: Price of both; None where no price is known.
        usd_per_million_tokens: The same for a million tokens.
        low_usd: Price at the fast end of the speed's band.
        high_usd: Price at its slow end.
        low_days: Days at the fast end.
        high_days: Days at the slow end.
        left_out: What is not counted.
    """

    tokens: float
    computing_s: float
    lost_s: float
    days: float
    usd: float | None
    usd_per_million_tokens: float | None
    low_usd: float | None = None
    high_usd: float | None = None
    low_days: float | None = None
    high_days: float | None = None
    left_out: tuple[str, ...] = LEFT_OUT


def tokens_of(workload: Workload | None) -> float | None:
    """Tokens of the whole run: those of the data times its epochs; None where the workload does not say."""
    if workload is None or workload.train_tokens is None:
        return None
    return workload.train_tokens * (workload.epochs or 1)


def lost_frac(spot: Spot) -> float:
    """Share of the elapsed time that interruptions take: rate x (half an interval + a restart).

    Young 1974: on average half of the interval's work is done again. A share of 1 or more never ends.

    Raises:
        ValueError: A negative number.
    """
    at_least("interruptions_per_day", spot.interruptions_per_day, 0)
    at_least("checkpoint_interval_s", spot.checkpoint_interval_s, 0)
    at_least("restart_s", spot.restart_s, 0)
    return spot.interruptions_per_day / DAY_S * (spot.checkpoint_interval_s / 2 + spot.restart_s)


def run_cost(
    *,
    tokens: float,
    tokens_per_s: float,
    usd_per_hour: float | None,
    spot: Spot | None = None,
    time_low_frac: float | None = None,
    time_high_frac: float | None = None,
) -> RunCost:
    """Days and dollars of a run.

    Args:
        tokens: Training tokens, every epoch counted.
        tokens_per_s: Of the whole job.
        usd_per_hour: Of every machine of the job together; None where unknown.
        spot: Interruptions, where the machines may be taken away.
        time_low_frac: Fast end of the speed's band over its centre.
        time_high_frac: Slow end over it.

    Raises:
        ValueError: Tokens or speed of zero or less, a negative price, or interruptions that never let the run end.
    """
    above_zero("tokens", tokens)
    above_zero("tokens_per_s", tokens_per_s)
    if usd_per_hour is not None:
        at_least("usd_per_hour", usd_per_hour, 0)
    lost = lost_frac(spot) if spot else 0.0
    if lost >= 1:
        raise ValueError(f"interruptions_per_day: {spot}; allowed: fewer, so that some work is kept")
    computing_s = tokens / tokens_per_s
    elapsed_s = computing_s / (1 - lost)
    usd = _usd(elapsed_s, usd_per_hour)
    low, high = (_times(elapsed_s, frac) for frac in (time_low_frac, time_high_frac))
    return RunCost(
        tokens=tokens,
        computing_s=computing_s,
        lost_s=elapsed_s - computing_s,
        days=elapsed_s / DAY_S,
        usd=usd,
        usd_per_million_tokens=None if usd is None else usd / tokens * 1e6,
        low_usd=None if low is None else _usd(low, usd_per_hour),
        high_usd=None if high is None else _usd(high, usd_per_hour),
        low_days=None if low is None else low / DAY_S,
        high_days=None if high is None else high / DAY_S,
    )


def usd_per_million_tokens(usd_per_hour: float, tokens_per_s: float) -> float:
    """Price of an hour over the tokens of an hour, for a million of them."""
    return usd_per_hour / (tokens_per_s * HOUR_S) * 1e6


def _times(time_s: float, frac: float | None) -> float | None:
    return None if frac is None else time_s * frac


def _usd(time_s: float, usd_per_hour: float | None) -> float | None:
    return None if usd_per_hour is None else time_s / HOUR_S * usd_per_hour


def machines_for(cards: int, cards_per_machine: int) -> int:
    """Whole machines that hold a job's cards: a machine is rented whole.

    Raises:
        ValueError: Fewer than one card or one card a machine.
    """
    at_least("cards", cards, 1)
    at_least("cards_per_machine", cards_per_machine, 1)
    return ceil_div(cards, cards_per_machine)
