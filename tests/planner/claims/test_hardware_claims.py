"""Claims about classes of cards, buying, future cards and PCIe, each with its right value worked out here anew.

SEEDS E1, E3, E4, G18, G34.
"""

import pytest

from hardware_db import load_tables
from planner.card_classes import CardClass, class_of
from planner.claims import Outcome
from planner.claims.cost import HOSTING_USD_PER_MONTH, USD_PER_KWH
from planner.units import GB
from tests.planner.claims.test_claims import answered


def test_e1_the_largest_cards_of_two_classes() -> None:
    claim, found = answered("e1")
    assert claim.outcome is Outcome.DEPENDS
    gpus = load_tables().gpus.values()
    geforce = [gpu.memory_nominal_gb for gpu in gpus if class_of(gpu) is CardClass.CONSUMER]
    assert found["consumer_most"].found == 48 * GB == max(size or 0 for size in geforce) * GB
    assert found["compute_most"].found == 270 * GB
    assert found["consumer_most"].error_frac == pytest.approx(-0.5)


@pytest.mark.parametrize("name", ["e3", "g18"])
@pytest.mark.parametrize("use", [0.2, 0.6, 1.0])
def test_e3_g18_pay_back_of_eight_h100_month_by_month(name: str, use: float) -> None:
    tables = load_tables()
    rent = answered(name)[1]["rent_middle"].found
    node = next(node for node in tables.nodes if node.gpu_id == "h100-sxm-80gb" and node.price)
    assert node.price is not None
    assert node.power_w == 10_200
    hours = 365.25 * 24 / 12
    power = node.power_w / 1000 * hours * (use + (1 - use) * 0.2) * 1.4 * USD_PER_KWH
    discount = 1.05 ** (-1 / 12)
    spent, paid, month = node.price.usd, 0.0, 0
    while spent > paid:
        month += 1
        spent += (power + HOSTING_USD_PER_MONTH) * discount**month
        paid += rent * hours * use * discount**month
    assert answered(name)[1][f"month_middle_{round(use * 100)}_percent"].found == month


def test_g18_twelve_to_eighteen_months_hold_in_a_narrow_band_of_use_only() -> None:
    claim, found = answered("g18")
    assert claim.outcome is Outcome.DEPENDS
    assert found["month_middle_20_percent"].found > 18
    assert found["month_middle_60_percent"].found < 18
    assert found["never_cheapest_5_percent"].found == 1


def test_e4_what_was_to_come_is_in_the_table() -> None:
    claim, found = answered("e4")
    assert claim.outcome is Outcome.RIGHT
    assert (found["least_memory"].found, found["most_memory"].found) == (141 * GB, 288 * GB)
    assert found["most_link"].found == 1800 * GB


@pytest.mark.parametrize(("generation", "lane_gt_per_s"), [(4, 16), (5, 32)])
def test_g34_pcie_from_its_lanes(generation: int, lane_gt_per_s: int) -> None:
    claim, found = answered("g34")
    assert claim.outcome is Outcome.WRONG
    each_way = lane_gt_per_s * 16 / 8
    assert found[f"pcie_{generation}_each_way"].found / GB == each_way
    assert found[f"pcie_{generation}_both_ways"].found / GB == 2 * each_way
    assert (found[f"pcie_{generation}_each_way"].error_frac == 0) == (generation == 5)
