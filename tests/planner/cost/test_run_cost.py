"""Days and dollars of a run."""

import pytest

from planner.cost import Spot, run_cost, tokens_of
from planner.cost.run_cost import lost_frac, machines_for
from planner.scenario import Workload


def test_a_run_by_hand() -> None:
    found = run_cost(tokens=864e6, tokens_per_s=1e4, usd_per_hour=10)
    assert found.days == pytest.approx(1)
    assert found.usd == pytest.approx(240)
    assert found.usd_per_million_tokens == pytest.approx(240 / 864)
    assert found.lost_s == 0
    assert "storage_and_traffic" in found.left_out


def test_the_band_of_the_speed_is_the_band_of_the_cost() -> None:
    found = run_cost(tokens=864e6, tokens_per_s=1e4, usd_per_hour=10, time_low_frac=0.8, time_high_frac=1.5)
    assert [found.low_usd, found.high_usd] == pytest.approx([192, 360])
    assert [found.low_days, found.high_days] == pytest.approx([0.8, 1.5])


def test_without_a_price_there_are_days_and_no_dollars() -> None:
    found = run_cost(tokens=1e6, tokens_per_s=10, usd_per_hour=None)
    assert found.usd is None
    assert found.usd_per_million_tokens is None
    assert found.days == pytest.approx(1e5 / 86400)


def test_interruptions_lose_half_an_interval_and_a_restart() -> None:
    spot = Spot(interruptions_per_day=4, checkpoint_interval_s=3600, restart_s=600)
    assert lost_frac(spot) == pytest.approx(4 * (1800 + 600) / 86400)
    found = run_cost(tokens=864e6, tokens_per_s=1e4, usd_per_hour=10, spot=spot)
    assert found.days == pytest.approx(1 / (1 - 9600 / 86400))
    assert found.usd == pytest.approx(240 * found.days)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": 0}, r"tokens: 0; allowed: more than 0"),
        ({"tokens_per_s": -1}, r"tokens_per_s: -1; allowed: more than 0"),
        ({"usd_per_hour": -1}, r"usd_per_hour: -1; allowed: 0 or more"),
        ({"tokens": float("nan")}, r"tokens: nan; allowed: more than 0"),
        (
            {"spot": Spot(interruptions_per_day=50, checkpoint_interval_s=3600, restart_s=600)},
            r"interruptions_per_day: .*; allowed: fewer",
        ),
    ],
)
def test_what_no_cost_follows_from_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_cost(**{"tokens": 1e6, "tokens_per_s": 1.0, "usd_per_hour": 1.0, **changes})  # type: ignore[arg-type]


def test_tokens_of_a_workload_count_every_epoch() -> None:
    assert tokens_of(Workload(train_tokens=1e9, epochs=3)) == 3e9
    assert tokens_of(Workload(train_tokens=1e9)) == 1e9
    assert tokens_of(Workload(epochs=3)) is None
    assert tokens_of(None) is None


def test_a_machine_is_rented_whole() -> None:
    assert machines_for(12, 8) == 2
    with pytest.raises(ValueError, match="cards: 0"):
        machines_for(0, 8)
