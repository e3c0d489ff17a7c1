"""The fullest card of each scenario on one axis, each with its own capacity mark."""

from collections.abc import Sequence
from typing import Any, Final

from planner.plan_types import DevicePlan
from ui.charts.base import bold, colored, shortened
from ui.charts.gpu_bars import stacked_bars
from ui.numbers import gib1
from ui.tokens import LIGHT
from ui.words import Words

NAME_LENGTH: Final = 30
"""Characters that fit beside the figures on a phone."""

Row = tuple[str, str, DevicePlan]
"""Letter, name, fullest card."""


def compare_bars(rows: Sequence[Row], words: Words) -> Any:
    """Stacked horizontal bars, one a scenario.

    Args:
        rows: The scenarios, top row first.
        words: For hover texts.

    Returns:
        A Plotly figure of 54 px a row.
    """
    labels = [
        f"{bold(letter)}  {colored(shortened(name, NAME_LENGTH), LIGHT['text'])}" for letter, name, _ in rows
    ]
    return stacked_bars([device for _, _, device in rows], labels, words)


def alternative(rows: Sequence[Row], words: Words) -> str:
    """The figure in words, from its numbers."""
    parts = [
        words("chart.bar_alt_unknown", gpu=letter, needs=gib1(device.peak_bytes))
        if device.usable_bytes is None
        else words(
            "chart.bar_alt", gpu=letter, needs=gib1(device.peak_bytes), usable=gib1(device.usable_bytes)
        )
        for letter, _, device in rows
    ]
    return words.text(parts)
