"""Checks of what lies beside the cards: host memory and disk of one machine."""

from collections.abc import Iterator

from planner.checks.codes import make
from planner.issues import Issue
from planner.plan_types import HostNeed
from planner.scenario import Scenario
from planner.units import GB, gib, gib_bytes


def host_issues(need: HostNeed, scenario: Scenario) -> Iterator[Issue]:
    """A warning for each of host memory and disk that is given and too small."""
    hardware = scenario.hardware
    if hardware.host_memory_gib is not None and need.memory_bytes > gib_bytes(hardware.host_memory_gib):
        needs = f"{gib(need.memory_bytes):.1f}"
        yield make(
            "host_memory_short", "hardware.host_memory_gib", given=hardware.host_memory_gib, needs=needs
        )
    if hardware.nvme_gb is not None and need.nvme_bytes > hardware.nvme_gb * GB:
        needs = f"{need.nvme_bytes / GB:.1f}"
        yield make("nvme_short", "hardware.nvme_gb", given=hardware.nvme_gb, needs=needs)
