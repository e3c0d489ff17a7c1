"""Memory per GPU at its own peak: stacked by category, each card with its own capacity mark."""

import re
from collections.abc import Sequence
from typing import Any, Final

from planner.ledger import Category
from planner.plan_types import DevicePlan, Plan, Verdict
from ui.charts.base import (
    BAR_WIDTH,
    bold,
    capacity_marks,
    colored,
    finish,
    label,
    nice_step,
    shortened,
)
from ui.charts.drawing import Drawing
from ui.cost.money import bare_name
from ui.names import card_name
from ui.numbers import gib1, ranges, signed_gib, whole
from ui.tokens import CLEAR, LIGHT, PART_LIGHT
from ui.units import amount
from ui.words import Words

MOST_ROWS: Final = 24
NAME_LENGTH: Final = 30
LINE_LENGTH: Final = 46
"""Letters above a bar that a phone has room for: the figures at the right among them."""
_TAGS: Final = re.compile("<[^>]*>")
TONE: Final = {
    Verdict.FITS: "ok",
    Verdict.TIGHT: "tight",
    Verdict.DOES_NOT_FIT: "bad",
    Verdict.UNKNOWN: "muted",
}


def shown_groups(plan: Plan, most: int = MOST_ROWS) -> tuple[DevicePlan, ...]:
    """The groups a figure has room for: all, or those with the least headroom, in job order."""
    if len(plan.devices) <= most:
        return plan.devices
    tightest = sorted(plan.devices, key=_headroom)[:most]
    return tuple(device for device in plan.devices if device in tightest)


def gpu_bars(plan: Plan, words: Words) -> Any:
    """Stacked horizontal bars, one a group of equal cards.

    Args:
        plan: The answer.
        words: For hover texts.

    Returns:
        A Plotly figure of 54 px a row (44 px above ten rows).
    """
    groups = shown_groups(plan)
    return stacked_bars(groups, [group_label(group, words) for group in groups], words)


def stacked_bars(groups: Sequence[DevicePlan], labels: Sequence[str], words: Words) -> Any:
    """Stacked horizontal bars on one axis, a row a card: its parts at its peak, capacity mark, band.

    Args:
        groups: The cards, top row first.
        labels: Text above each bar, as markup of a figure.
        words: For hover texts.

    Returns:
        A Plotly figure of 54 px a row (44 px above ten rows).
    """
    rows = len(groups)
    heights = list(range(rows))[::-1]
    fig = Drawing()
    for y, group in zip(heights, groups, strict=True):
        _track(fig, y, group)
    for category in Category:
        _segments(fig, category, groups, heights, words)
    known = [
        (amount(g.usable_bytes), y)
        for g, y in zip(groups, heights, strict=True)
        if g.usable_bytes is not None
    ]
    capacity_marks(fig, [x for x, _ in known], [y for _, y in known], words("chart.usable_hover"))
    _bands(fig, groups, heights)
    for y, group, text in zip(heights, groups, labels, strict=True):
        label(fig, y, text, figures_label(group))
    top = 1.02 * max(_reach(group) for group in groups)
    fig.update_xaxes(range=[0, top], dtick=nice_step(top))
    return finish(fig, rows * (54 if rows <= 10 else 44) + 26, rows=rows, barmode="stack").figure()


def group_label(group: DevicePlan, words: Words) -> str:
    """`GPU 1-4  4 x RTX 4090`, as text of a figure."""
    gpu = words("chart.gpu", index=shortened(ranges(group.indices), 18))
    name = _named(card_name(group.gpu_name), group, words)
    if len(gpu) + len(name) + len(_TAGS.sub("", figures_label(group))) > LINE_LENGTH:
        name = _named(bare_name(group.gpu_name), group, words)
    return f"{bold(gpu)}  {colored(name, LIGHT['text'])}"


def _named(name: str, group: DevicePlan, words: Words) -> str:
    short, cards = shortened(name, NAME_LENGTH), len(group.indices)
    return short if cards == 1 else words("chart.equal_cards", n=whole(cards), name=short)


def figures_label(group: DevicePlan) -> str:
    """Needs / usable, headroom: the order used everywhere."""
    needs = bold(gib1(group.peak_bytes))
    if group.usable_bytes is None or group.headroom_bytes is None:
        return needs
    tone = "muted" if group.verdict is Verdict.FITS else TONE[group.verdict]
    usable = colored(f"/ {gib1(group.usable_bytes)}", LIGHT["muted"])
    return f"{needs} {usable}   {colored(signed_gib(group.headroom_bytes), LIGHT[tone], bold=True)}"


def alternative(plan: Plan, words: Words, most: int = 6) -> str:
    """The figure in words, from its numbers."""
    lines = []
    for group in shown_groups(plan, most):
        gpu = words("chart.gpu", index=ranges(group.indices))
        if group.usable_bytes is None:
            lines.append(words("chart.bar_alt_unknown", gpu=gpu, needs=gib1(group.peak_bytes)))
        else:
            lines.append(
                words("chart.bar_alt", gpu=gpu, needs=gib1(group.peak_bytes), usable=gib1(group.usable_bytes))
            )
    return words.text(lines)


def categories_at_peak(plan: Plan) -> tuple[Category, ...]:
    """Categories that appear in the bars, in stacking order."""
    present = {c for device in plan.devices for c in device.ledger.by_category(device.peak_phase)}
    return tuple(category for category in Category if category in present)


def is_estimate(group: DevicePlan, category: Category) -> bool:
    """Whether all of a category at the peak is a fitted size rather than a closed form."""
    alive = [e for e in group.ledger.alive(group.peak_phase) if e.category is category]
    return bool(alive) and all(entry.estimate for entry in alive)


def _headroom(group: DevicePlan) -> float:
    return float("inf") if group.headroom_bytes is None else group.headroom_bytes


def _reach(group: DevicePlan) -> float:
    ends = (group.peak_bytes, group.usable_bytes or 0, group.band.high_bytes if group.band else 0)
    return max(amount(max(ends)), 0.1)


def _track(fig: Any, y: int, group: DevicePlan) -> None:
    """The empty card under the bar, and the part of the bar that is over."""
    if group.usable_bytes is None:
        return
    usable, total = amount(group.usable_bytes), amount(group.peak_bytes)
    half = BAR_WIDTH / 2
    box = {"type": "rect", "line_width": 0, "x0": 0, "x1": usable, "y0": y - half, "y1": y + half}
    fig.add_shape(**box, fillcolor=LIGHT["track"], layer="below")
    if total > usable:
        over = box | {"x0": usable, "x1": total, "y0": y - 0.3, "y1": y - 0.245}
        fig.add_shape(**over, fillcolor=LIGHT["bad"])


def _segments(
    fig: Any, category: Category, groups: Sequence[DevicePlan], heights: Sequence[int], words: Words
) -> None:
    sizes = [group.ledger.by_category(group.peak_phase).get(category, 0) for group in groups]
    if not any(sizes):
        return
    color = PART_LIGHT[category]
    shapes = ["/" if is_estimate(group, category) else "" for group in groups]
    pattern = {"shape": shapes, "size": 5, "solidity": 0.35, "fgcolor": color, "bgcolor": CLEAR}
    fig.add_bar(
        y=heights,
        x=[amount(size) for size in sizes],
        orientation="h",
        name=words(f"category.{category.value}"),
        width=BAR_WIDTH,
        customdata=[whole(size) for size in sizes],
        marker={
            "color": color,
            "line": {"color": LIGHT["background"], "width": 1},
            "pattern": pattern if any(shapes) else None,
        },
        hovertemplate=words("chart.part_hover", part=words(f"category.{category.value}")) + "<extra></extra>",
    )


def _bands(fig: Any, groups: Sequence[DevicePlan], heights: Sequence[int]) -> None:
    held = [(g, g.band, y) for g, y in zip(groups, heights, strict=True) if g.band is not None]
    fig.add_scatter(
        x=[amount(g.peak_bytes) for g, _, _ in held],
        y=[y for _, _, y in held],
        mode="markers",
        name="",
        hoverinfo="skip",
        marker={"size": 0.1, "color": LIGHT["text"]},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [amount(band.high_bytes - g.peak_bytes) for g, band, _ in held],
            "arrayminus": [amount(g.peak_bytes - band.low_bytes) for g, band, _ in held],
            "thickness": 1.5,
            "width": 4,
            "color": LIGHT["text"],
        },
    )
