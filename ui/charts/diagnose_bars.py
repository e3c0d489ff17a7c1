"""What was on the card, and the request beside what was free: two bars on one axis."""

from typing import Any, Final

from planner.diagnose.layers import Held, Layers
from planner.ledger import Category
from ui.charts.base import BAR_WIDTH, bold, capacity_marks, colored, finish, label, nice_step, shortened
from ui.charts.drawing import Drawing
from ui.numbers import gib2, signed_gib
from ui.tokens import CLEAR, LIGHT, PART_LIGHT
from ui.units import amount
from ui.words import Words

COLORS: Final = {
    "allocated": Category.WEIGHTS,
    "unallocated": Category.ALLOCATOR,
    "context": Category.CONTEXT,
    "others": Category.KV_CACHE,
    "used": Category.WEIGHTS,
    "outside": Category.KV_CACHE,
    "unnamed": Category.KV_CACHE,
    "driver": Category.CONTEXT,
}
"""The colour of a layer: that of the category which is nearest to it."""
HATCHED: Final = frozenset({"unallocated", "outside", "unnamed"})
NAME_LENGTH: Final = 22


def diagnose_bars(
    layers: Layers, request_bytes: int | None, tensor: str, words: Words, device: int | None
) -> Any:
    """Stacked horizontal bars: the card, and the request from where the card's use ends.

    Args:
        layers: What was on the card.
        request_bytes: What was asked for, None where nothing was.
        tensor: Its name, empty where it is not known.
        words: For labels and hover texts.
        device: The card's number.

    Returns:
        A Plotly figure of 54 px a row.
    """
    rows = 1 if request_bytes is None else 2
    top = rows - 1
    fig = Drawing()
    total = layers.total_bytes
    if total is not None:
        _track(fig, top, total)
    for held in layers.held:
        if held.name != "free" and held.bytes:
            _segment(fig, top, held, words)
    if request_bytes is not None:
        _request(fig, layers, request_bytes, words)
    if total is not None:
        marks = [amount(total)] * rows
        capacity_marks(
            fig, marks, [float(row) for row in range(rows)][::-1], words("diagnose.chart.capacity")
        )
    name = words("chart.gpu", index=device) if device is not None else words("diagnose.chart.card")
    in_use = f"{bold(name)}  {colored(words('diagnose.chart.in_use'), LIGHT['text'])}"
    label(fig, top, in_use, _use_figures(layers))
    if request_bytes is not None:
        said = words("diagnose.chart.request")
        left = f"{bold(said)}  {colored(shortened(tensor, NAME_LENGTH), LIGHT['text'])}"
        label(fig, 0, left, _request_figures(layers, request_bytes))
    ends = (total or 0, layers.used_bytes + (request_bytes or 0), layers.used_bytes, 1)
    reach = 1.02 * amount(max(ends))
    fig.update_xaxes(range=[0, reach], dtick=nice_step(reach))
    return finish(fig, rows * 54 + 26, rows=rows, barmode="stack").figure()


def alternative(layers: Layers, request_bytes: int | None, words: Words) -> str:
    """The figure in words, from its numbers."""
    total = layers.total_bytes
    used = gib2(layers.used_bytes)
    said = (
        words("diagnose.chart.alt_use", used=used)
        if total is None
        else words("diagnose.chart.alt_of", used=used, total=gib2(total))
    )
    free = layers.bytes("free")
    if request_bytes is None or free is None:
        return said
    asked = words("diagnose.chart.alt_request", request=gib2(request_bytes), free=gib2(free))
    return words.text([said, asked])


def _track(fig: Any, y: int, total: int) -> None:
    half = BAR_WIDTH / 2
    fig.add_shape(
        type="rect",
        line_width=0,
        x0=0,
        x1=amount(total),
        y0=y - half,
        y1=y + half,
        fillcolor=LIGHT["track"],
        layer="below",
    )


def _segment(fig: Any, y: int, held: Held, words: Words) -> None:
    color = PART_LIGHT[COLORS[held.name]]
    name = words(f"diagnose.held.{held.name}")
    fig.add_bar(
        y=[y],
        x=[amount(held.bytes)],
        orientation="h",
        width=BAR_WIDTH,
        name=name,
        marker={
            "color": color,
            "line": {"color": LIGHT["background"], "width": 1},
            "pattern": {
                "shape": "/" if held.name in HATCHED else "",
                "size": 5,
                "solidity": 0.35,
                "fgcolor": color,
                "bgcolor": CLEAR,
            },
        },
        hovertemplate=words("diagnose.chart.hover", part=name, size=gib2(held.bytes)) + "<extra></extra>",
    )


def _request(fig: Any, layers: Layers, request_bytes: int, words: Words) -> None:
    """The request, drawn from where the use of the card ends."""
    fig.add_bar(
        y=[0],
        x=[amount(request_bytes)],
        base=[amount(layers.used_bytes)],
        orientation="h",
        width=BAR_WIDTH,
        name=words("diagnose.chart.request"),
        marker={
            "color": PART_LIGHT[Category.LOGITS],
            "line": {"color": LIGHT["background"], "width": 1},
        },
        hovertemplate=words(
            "diagnose.chart.hover", part=words("diagnose.chart.request"), size=gib2(request_bytes)
        )
        + "<extra></extra>",
    )


def _use_figures(layers: Layers) -> str:
    used = bold(gib2(layers.used_bytes))
    if layers.total_bytes is None:
        return used
    free = layers.bytes("free")
    left = f"   {colored(signed_gib(free, 2), LIGHT['muted'], bold=True)}" if free is not None else ""
    return f"{used} {colored(f'/ {gib2(layers.total_bytes)}', LIGHT['muted'])}{left}"


def _request_figures(layers: Layers, request_bytes: int) -> str:
    asked, free = bold(gib2(request_bytes)), layers.bytes("free")
    if free is None:
        return asked
    left = free - request_bytes
    tone = "bad" if left < 0 else "muted"
    room = colored(f"/ {gib2(free)}", LIGHT["muted"])
    return f"{asked} {room}   {colored(signed_gib(left, 2), LIGHT[tone], bold=True)}"
