"""Claims about time and cost, each with its right value (SEEDS E1-E6, G9, G18, G19, G21, G33, G34)."""

import pytest

from planner.claims import Outcome
from planner.claims.clouds import cloud_runs, job_on
from planner.claims.types import planned
from planner.plan_types import Verdict
from planner.units import GB
from tests.planner.claims.test_claims import TABLES, answered


def test_e1_classes_overlap_and_grow() -> None:
    _, found = answered("e1")
    assert found["consumer_most"].found > 24 * GB
    assert found["compute_most"].found > 141 * GB


def test_e2_none_of_the_single_machines_holds_the_job() -> None:
    claim, found = answered("e2")
    assert claim.outcome is Outcome.DEPENDS
    machines = [found[f"machines_{name}"].found for name in ("aws", "azure", "gcp", "alibaba")]
    assert machines[0] >= 3
    assert machines[1:] == [2, 2, 2]
    assert found["tokens"].found == 1e9
    assert 0.3 < found["days_gcp"].found < found["days_azure"].found < 10
    hourly = answered("g21")[1]
    for name in ("aws", "azure", "gcp", "alibaba"):
        days, price = found[f"days_{name}"].found, hourly[f"hourly_{name}"].found
        for figure in (found[f"days_{name}"], found[f"cost_{name}"]):
            assert figure.low is not None
            assert figure.high is not None
            assert figure.low < figure.found < figure.high
        expected = days * 24 * price * found[f"machines_{name}"].found
        assert found[f"cost_{name}"].found == pytest.approx(expected)


def test_e4_has_come_to_be() -> None:
    claim, found = answered("e4")
    assert claim.outcome is Outcome.RIGHT
    assert [found[name].found / GB for name in ("least_memory", "most_memory", "most_link")] == [
        141,
        288,
        1800,
    ]


def test_e5_a_trial_keeps_memory_only_where_nothing_is_sharded() -> None:
    _, found = answered("e5")
    assert found["memory_of_trial_none"].found == pytest.approx(1, abs=0.01)
    assert found["memory_of_trial_zero3"].found > 1.5
    assert found["speed_of_trial_zero3"].found == pytest.approx(1, abs=0.15)


def test_e6_sharded_training_needs_more_than_a_hundred_gigabits_a_node() -> None:
    _, found = answered("e6")
    for model in ("7b", "70b"):
        assert found[f"needed_{model}"].found > 2 * 12.5 * GB
        assert found[f"waits_at_100_gbit_{model}"].found > 0.5
        assert found[f"waits_{model}"].found < 0.1
    assert found["node_has"].found == 400 * GB


def test_e6_stages_need_less_than_a_hundred_gigabits_and_latency_is_small() -> None:
    _, found = answered("e6")
    assert found["needed_70b_stages"].found < 12.5 * GB
    assert found["latency_5_us"].found < 0.01
    assert found["latency_50_us"].found > found["latency_5_us"].found


def test_e2_one_machine_less_does_not_hold_the_job() -> None:
    for run in cloud_runs(TABLES):
        assert run.plan.verdict is Verdict.FITS
        if run.machines > 1:
            fewer = planned(job_on(run.row, run.machines - 1), TABLES)
            assert fewer.verdict is not Verdict.FITS


def test_g9_recomputation_costs_what_is_computed_again() -> None:
    claim, found = answered("g9_time")
    assert claim.outcome is Outcome.DEPENDS
    full = [found[f"full_{s}"].found for s in (512, 4096, 16384)]
    assert all(0.15 < more <= 0.34 for more in full)
    assert all(
        0.05 < found[f"selective_op_{s}"].found < more
        for s, more in zip((512, 4096, 16384), full, strict=True)
    )


@pytest.mark.parametrize("name", ["g18", "e3"])
def test_g18_pay_back_goes_from_months_to_never_with_the_use(name: str) -> None:
    claim, found = answered(name)
    assert claim.outcome is Outcome.DEPENDS
    assert "never_cheapest_5_percent" in found
    months = [found[f"month_middle_{use}_percent"].found for use in (20, 60, 100)]
    assert months == sorted(months, reverse=True)
    assert months[-1] < 12
    assert months[0] > 18


def test_g19_a_drive_is_four_to_nine_times_slower_than_the_host_link() -> None:
    _, found = answered("g19")
    assert found["pcie_4"].found == pytest.approx(84 / 32)
    assert found["pcie_5"].found == pytest.approx(84 / 64)
    assert found["nvme"].found == pytest.approx(84 / 7)
    assert found["nvme_over_pcie_4"].found == pytest.approx(4.57, abs=0.01)


def test_g21_totals_are_right_prices_and_fit_are_not() -> None:
    claim, found = answered("g21")
    assert claim.outcome is Outcome.WRONG
    for name, total in (("aws", 11_010.72), ("azure", 8_847.36), ("gcp", 7_128), ("alibaba", 71_520)):
        assert found[f"total_{name}"].found == pytest.approx(total)
        assert found[f"held_{name}"].found < 840 * GB
    assert found["hourly_aws"].found < 32.77
    assert found["hourly_gcp"].found > 49.5
    assert found["gn7i_with_a100"].found == 0


def test_g33_scaling_follows_the_network_and_offload_is_not_free() -> None:
    claim, found = answered("g33")
    assert claim.outcome is Outcome.WRONG
    assert found["scaling_1600_gbit"].found > 0.9
    assert found["scaling_100_gbit"].found < 0.6
    assert found["scaling_25_gbit"].found < found["scaling_100_gbit"].found
    assert found["offload_cpu"].found > 0.3
    assert found["offload_nvme"].found > 5 * found["offload_cpu"].found


def test_g34_pcie_4_is_32_each_way() -> None:
    claim, found = answered("g34")
    assert claim.outcome is Outcome.WRONG
    assert [found[f"pcie_{g}_each_way"].found / GB for g in (4, 5)] == [32, 64]
    assert [found[f"pcie_{g}_both_ways"].found / GB for g in (4, 5)] == [64, 128]
