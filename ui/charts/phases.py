"""Memory over the phases of a job: one small panel a group of cards, as a share of its own usable memory.

Panels are HTML boxes: the style sheet colours them, so a change of theme needs no other drawing, and an edit does
not wait for a plotting library. (Streamlit takes SVG out of HTML.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from planner.ledger import Category, Phase
from planner.plan_types import DevicePlan, Plan, Verdict
from ui.charts.gpu_bars import TONE
from ui.numbers import gib1, gib2, percent, ranges
from ui.phase_names import phase_name
from ui.tokens import variable
from ui.words import Safe, Words, escaped

LOWEST_TOP: Final = 1.14
HEIGHT_PX: Final = 92
"""Of the areas; the card above and the phases below take 22 px each."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """One part over one or more phases that it has the same size in.

    Attributes:
        category: The part.
        size_bytes: Its size there, above what is drawn below it.
        below_bytes: What is drawn below it.
        start: Left end on the axis.
        end: Right end on the axis.
        resting: Whether it is there throughout; faded, so that what comes and goes stands out.
    """

    category: Category
    size_bytes: int
    below_bytes: int
    start: int
    end: int
    resting: bool


def top_of(plan: Plan) -> float:
    """Upper end of the axis, one for all panels so that 100 % is one level across them."""
    shares = [device.peak_bytes / scale_bytes(device) for device in plan.devices]
    return max(LOWEST_TOP, 1.06 * max(shares))


def scale_bytes(device: DevicePlan) -> int:
    """What 100 % is: usable memory, or the peak where that is not known."""
    return device.usable_bytes or max(device.peak_bytes, 1)


def areas(device: DevicePlan) -> tuple[Area, ...]:
    """Every area of a panel, bottom first: what is there throughout, then what comes and goes.

    Each phase is taken at its fullest moment; empty areas are left out.
    """
    phases = device.ledger.phases
    by_phase = [device.ledger.by_category(phase) for phase in phases]
    sizes = {category: [held.get(category, 0) for held in by_phase] for category in Category}
    below = [0] * len(phases)
    found: list[Area] = []
    for category, values in sizes.items():
        found += _layer(category, [min(values)] * len(phases), below, phases, resting=True)
    for category, values in sizes.items():
        coming = [value - min(values) for value in values]
        found += _layer(category, coming, below, phases, resting=False)
    return tuple(found)


def panels(devices: Sequence[DevicePlan], words: Words, *, top: float, wide: bool) -> Safe:
    """The panels of these groups side by side.

    Args:
        devices: The groups to draw.
        words: For ticks, hover texts and the figure in words.
        top: Upper end of the axis, from `top_of`.
        wide: Whether there is room to name every phase.

    Returns:
        A grid of six, four or two columns by the room there is; each panel is 136 px tall.
    """
    inner = "".join(panel(device, words, top=top, wide=wide) for device in devices)
    return Safe(f'<div class="steps"><div style="--n:{len(devices)}">{inner}</div></div>')


def panel(device: DevicePlan, words: Words, *, top: float, wide: bool) -> Safe:
    """One panel: the card and its share at the peak, the areas with the line of 100 %, the phases beneath."""
    phases = device.ledger.phases
    share = device.peak_bytes / scale_bytes(device)
    width = sum(WIDTHS[phase] for phase in phases)
    boxes = "".join(
        _box(area, words, width=width, full_bytes=scale_bytes(device) * top) for area in areas(device)
    )
    return Safe(
        f'<div class="step">{_heading(device, share, words)}'
        f'<div class="plot" style="height:{HEIGHT_PX}px" role="img" aria-label="{escaped(alternative(device, words))}">'
        f"{boxes}{_limit(device, top=top, over=share > 1)}</div>"
        f"{_ticks(phases, width, words, wide=wide)}</div>"
    )


def alternative(device: DevicePlan, words: Words) -> str:
    """The panel in words."""
    phases = words.listed(
        words("chart.phase_alt", phase=words(f"phase.{p.value}.name"), gib=gib1(device.ledger.phase_bytes(p)))
        for p in device.ledger.phases
    )
    return words("chart.panel_alt", gpu=words("chart.gpu", index=ranges(device.indices)), phases=phases)


def _layer(
    category: Category, sizes: Sequence[int], below: list[int], phases: Sequence[Phase], *, resting: bool
) -> Iterator[Area]:
    """Areas of one part on top of `below`, which grows by them; phases where it lies alike are one area."""
    places = zip(sizes, tuple(below), phases, strict=True)
    start = 0
    for (size, under), run in groupby(places, key=lambda place: place[:2]):
        end = start + sum(WIDTHS[phase] for _, _, phase in run)
        if size:
            yield Area(
                category=category,
                size_bytes=size,
                below_bytes=under,
                start=start,
                end=end,
                resting=resting,
            )
        start = end
    for i, size in enumerate(sizes):
        below[i] += size


def _box(area: Area, words: Words, *, width: int, full_bytes: float) -> str:
    """A rectangle with its size as hover text. Edges are whole pixels, so that neighbours meet without a seam."""
    text = words.html(
        "chart.layer_hover", part=words(f"category.{area.category.value}"), size=gib2(area.size_bytes)
    )
    bottom = round(HEIGHT_PX * area.below_bytes / full_bytes)
    top = round(HEIGHT_PX * (area.below_bytes + area.size_bytes) / full_bytes)
    style = (
        f"left:{100 * area.start / width:.5g}%;width:{100 * (area.end - area.start) / width:.5g}%;"
        f"bottom:{bottom}px;height:{top - bottom}px"
    )
    kind = ' class="rest"' if area.resting else ""
    return f'<i{kind} style="{style};--part:var({variable(area.category)})" title="{text}"></i>'


def _limit(device: DevicePlan, *, top: float, over: bool) -> str:
    """The line of 100 %."""
    if device.usable_bytes is None:
        return ""
    return f'<u class="{"over" if over else "limit"}" style="bottom:{HEIGHT_PX / top:.4g}px"></u>'


def _heading(device: DevicePlan, share: float, words: Words) -> str:
    tone = "m" if device.verdict in {Verdict.FITS, Verdict.UNKNOWN} else TONE[device.verdict]
    gpu = words.html("chart.gpu", index=ranges(device.indices))
    right = f'<span class="{tone}">{percent(share)}</span>' if device.usable_bytes is not None else ""
    return f"<div><b>{gpu}</b>{right}</div>"


def _ticks(phases: Sequence[Phase], width: int, words: Words, *, wide: bool) -> str:
    """Names of the phases under their middle. The figure in words names them all."""
    marks, start = [], 0
    for phase in phases:
        middle = 100 * (start + WIDTHS[phase] / 2) / width
        start += WIDTHS[phase]
        if wide or phase in NARROW_TICKS:
            name = escaped(phase_name(phases, phase, "short", words))
            marks.append(f'<span style="left:{middle:.4g}%">{name}</span>')
    return f'<div class="ticks" aria-hidden="true">{"".join(marks)}</div>'
