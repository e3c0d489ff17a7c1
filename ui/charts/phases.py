"""Memory over the phases of a job: one small panel a group of cards, as a share of its own usable memory."""

from typing import Any, Final

from planner.ledger import Category, Phase
from planner.plan_types import DevicePlan, Plan, Verdict
from ui.charts.base import bold, colored, finish
from ui.charts.drawing import Drawing
from ui.charts.gpu_bars import TONE
from ui.numbers import gib1, percent, ranges
from ui.tokens import LIGHT, PART_LIGHT, faded
from ui.units import amount
from ui.words import Words

PANEL_HEIGHT: Final = 136
LOWEST_TOP: Final = 1.14
WIDTHS: Final[dict[Phase, int]] = {
    Phase.LOAD: 12,
    Phase.REST: 12,
    Phase.FORWARD: 28,
    Phase.LOSS: 14,
    Phase.BACKWARD: 28,
    Phase.OPTIMIZER_STEP: 18,
    Phase.PREFILL: 44,
    Phase.DECODE: 44,
}
"""Width of a phase on the axis. Phases are in order; their widths are not times."""
NARROW_TICKS: Final = frozenset(
    {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP, Phase.PREFILL, Phase.DECODE}
)


def top_of(plan: Plan) -> float:
    """Upper end of the axis, one for all panels so that 100 % is one level across them."""
    shares = [device.peak_bytes / scale_bytes(device) for device in plan.devices]
    return max(LOWEST_TOP, 1.06 * max(shares))


def scale_bytes(device: DevicePlan) -> int:
    """What 100 % is: usable memory, or the peak where that is not known."""
    return device.usable_bytes or max(device.peak_bytes, 1)


def phase_panel(device: DevicePlan, words: Words, *, top: float, wide: bool) -> Any:
    """Stacked steps, one a phase, at each phase's fullest moment.

    Args:
        device: The group to draw.
        words: For ticks and hover texts.
        top: Upper end of the axis, from `top_of`.
        wide: Whether there is room to name every phase.

    Returns:
        A Plotly figure of 136 px.
    """
    fig = Drawing()
    phases = device.ledger.phases
    edges = _edges(phases)
    by_phase = {phase: device.ledger.by_category(phase) for phase in phases}
    sizes = {category: [by_phase[phase].get(category, 0) for phase in phases] for category in Category}
    for category, values in sizes.items():
        resting = min(values)
        if resting:
            _layer(
                fig, category, [resting] * len(phases), edges=edges, scale=scale_bytes(device), words=words
            )
    for category, values in sizes.items():
        transient = [value - min(values) for value in values]
        if any(transient):
            _layer(fig, category, transient, edges=edges, scale=scale_bytes(device), words=words)
    share = device.peak_bytes / scale_bytes(device)
    if device.usable_bytes is not None:
        over = share > 1
        fig.add_hline(y=1, line={"color": LIGHT["bad" if over else "text"], "width": 1.5})
    _heading(fig, device, share, words)
    ticks = [
        (edge, phase) for edge, phase in zip(edges, phases, strict=True) if wide or phase in NARROW_TICKS
    ]
    fig.update_xaxes(
        tickvals=[(x0 + x1) / 2 for (x0, x1), _ in ticks],
        ticktext=[words(f"phase.{phase.value}.short") for _, phase in ticks],
        tickangle=0,
        range=[0, edges[-1][1]],
    )
    finish(fig, PANEL_HEIGHT, margin={"l": 0, "r": 0, "t": 22, "b": 22})
    fig.update_xaxes(showgrid=False)
    return fig.update_yaxes(range=[0, top], visible=False).figure()


def alternative(device: DevicePlan, words: Words) -> str:
    """The panel in words."""
    phases = ", ".join(
        words("chart.phase_alt", phase=words(f"phase.{p.value}.name"), gib=gib1(device.ledger.phase_bytes(p)))
        for p in device.ledger.phases
    )
    return words("chart.panel_alt", gpu=words("chart.gpu", index=ranges(device.indices)), phases=phases)


def _edges(phases: tuple[Phase, ...]) -> list[tuple[int, int]]:
    edges, start = [], 0
    for phase in phases:
        edges.append((start, start + WIDTHS[phase]))
        start += WIDTHS[phase]
    return edges


def _layer(
    fig: Any, category: Category, sizes: list[int], *, edges: list[tuple[int, int]], scale: int, words: Words
) -> None:
    """One part over all phases; what is there throughout is faded, so that what comes and goes stands out."""
    color = PART_LIGHT[category]
    resting = len(set(sizes)) == 1
    fig.add_scatter(
        x=[x for edge in edges for x in edge],
        y=[size / scale for size in sizes for _ in (0, 1)],
        customdata=[amount(size) for size in sizes for _ in (0, 1)],
        stackgroup="memory",
        mode="lines",
        line={"width": 0, "color": color},
        fillcolor=faded(color) if resting else color,
        name="",
        hovertemplate=words("chart.layer_hover", part=words(f"category.{category.value}"))
        + "<extra></extra>",
    )


def _heading(fig: Any, device: DevicePlan, share: float, words: Words) -> None:
    tone = "muted" if device.verdict is Verdict.FITS else TONE[device.verdict]
    gpu = bold(words("chart.gpu", index=ranges(device.indices)))
    right = colored(percent(share), LIGHT[tone]) if device.usable_bytes is not None else ""
    for x, anchor, text in ((0, "left", gpu), (1, "right", right)):
        fig.add_annotation(
            x=x, y=1, xref="paper", yref="paper", xanchor=anchor, yanchor="bottom", showarrow=False, text=text
        )
