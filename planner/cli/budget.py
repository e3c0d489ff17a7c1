"""The `budget` command: what a compiler's memory budget costs, as lines or JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict

from planner.hardware import Tables
from planner.scenario import Scenario
from planner.training.compile_budget import budget_curve
from planner.units import GIB


def budget_lines(scenario: Scenario, tables: Tables, *, as_json: bool) -> Iterable[str]:
    """One line for each budget: the peak, and the share of the forward pass that is done again."""
    curve = budget_curve(scenario, tables)
    if as_json:
        return [json.dumps([asdict(point) for point in curve], indent=2)]
    head = f"{'budget':>6}  {'peak GiB':>9}  {'forward again':>13}  {'TFLOP again':>11}"
    rows = (
        f"{p.budget_frac:6.0%}  {p.peak_bytes / GIB:9.2f}  {p.again_frac:13.1%}  {p.again_flops / 1e12:11.3f}"
        for p in curve
    )
    return [head, *rows]
