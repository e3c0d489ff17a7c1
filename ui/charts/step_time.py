"""Where time goes, as stacked bars of HTML boxes: a bar a stretch of time, parts from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.ledger import Category
from planner.throughput.types import Part, SpeedBand
from ui.tokens import variable
from ui.words import Safe, Words, escaped

WIDEST_BAND: Final = 2.2
"""A band that ends further out than so many times its centre is drawn to the edge, without its end."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a stretch of time is spent on, in a colour of the ledger."""

    parts: tuple[str, ...]
    category: Category
    hatched: bool = False


KINDS: Final = {
    "matrix_products": Kind(("matrix_products",), Category.WEIGHTS),
    "weights_read": Kind(("weights_read",), Category.OPTIMIZER),
    "attention": Kind(("attention",), Category.GRADIENTS),
    "kv_read": Kind(("kv_read",), Category.KV_CACHE),
    "memory_traffic": Kind(("memory_traffic",), Category.ACTIVATIONS),
    "compute": Kind(("compute",), Category.ACTIVATIONS),
    "recompute": Kind(("recompute",), Category.ACTIVATIONS, hatched=True),
    "launches": Kind(("launches",), Category.CONTEXT),
    "communication": Kind(
        (
            "tensor_parallel",
            "context_parallel",
            "expert_parallel",
            "stage_transfers",
            "data_parallel",
        ),
        Category.COMMUNICATION,
    ),
    "pipeline_bubble": Kind(("pipeline_bubble",), Category.ALLOCATOR, hatched=True),
    "optimizer_step": Kind(("optimizer_step",), Category.OPTIMIZER),
    "host_transfers": Kind(("host_transfers",), Category.LOGITS),
    "engine": Kind(("engine",), Category.ALLOCATOR, hatched=True),
}
"""In the order of a bar. No two of one job share a colour and a hatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBar:
    """One bar.

    Attributes:
        label: What takes the time.
        value: How long, as text.
        parts: What it is made of.
        band: Around the whole; None where nobody published such runs.
    """

    label: str
    value: str
    parts: tuple[Part, ...]
    band: SpeedBand | None


def shares(parts: Sequence[Part]) -> dict[str, float]:
    """Share of the whole by kind, in the order of a bar; kinds without time are left out."""
    whole = sum(part.time_s for part in parts) or 1.0
    named: dict[str, float] = {part.name: part.time_s for part in parts}
    found = {kind: sum(named.get(name, 0.0) for name in KINDS[kind].parts) / whole for kind in KINDS}
    return {kind: share for kind, share in found.items() if share > 0}


def step_time(bars: Sequence[TimeBar], words: Words) -> Safe:
    """The bars, each on its own scale, with one legend below.

    Args:
        bars: From the top.
        words: Names of the kinds.
    """
    rows = "".join(_row(bar, words) for bar in bars)
    seen = [kind for kind in KINDS if any(kind in shares(bar.parts) for bar in bars)]
    items = [f"<span>{_swatch(kind)}{words.html(f'speed.kind.{kind}')}</span>" for kind in seen]
    if any(bar.band is not None for bar in bars):
        items.append(f'<span><i class="band"></i>{words.html("speed.band")}</span>')
    return Safe(f'<div class="falls times">{rows}</div><div class="leg">{"".join(items)}</div>')


def alternative(bar: TimeBar, words: Words) -> str:
    """A bar in words."""
    said = [
        words("speed.chart.part", name=words(f"speed.kind.{kind}"), share=f"{100 * share:.0f}")
        for kind, share in shares(bar.parts).items()
    ]
    return words("speed.chart.alt", label=bar.label, value=bar.value, parts=words.listed(said))


def _row(bar: TimeBar, words: Words) -> str:
    end = min(bar.band.high_frac, WIDEST_BAND) if bar.band is not None else 1.0
    scale, left, boxes = 100 / max(end, 1.0), 0.0, ""
    for kind, share in shares(bar.parts).items():
        tip = words("speed.chart.part", name=words(f"speed.kind.{kind}"), share=f"{100 * share:.0f}")
        place = f"left:{scale * left:.4g}%;width:{scale * share:.4g}%"
        boxes += f'<i class="{_class(kind)}" style="{_colour(kind)};{place}" title="{escaped(tip)}"></i>'
        left += share
    name = escaped(alternative(bar, words))
    label = f"<span>{escaped(bar.label)}</span><b>{escaped(bar.value)}</b>"
    return f'<div>{label}<p role="img" aria-label="{name}">{boxes}{_band(bar.band, scale)}</p></div>'


def _band(band: SpeedBand | None, scale: float) -> str:
    if band is None:
        return ""
    end = min(band.high_frac, WIDEST_BAND)
    open_end = ' class="open"' if band.high_frac > WIDEST_BAND else ""
    return f'<em{open_end} style="left:{scale * band.low_frac:.4g}%;width:{scale * (end - band.low_frac):.4g}%"></em>'


def _class(kind: str) -> str:
    return "part" + (" hatched" if KINDS[kind].hatched else "")


def _colour(kind: str) -> str:
    return f"--part:var({variable(KINDS[kind].category)})"


def _swatch(kind: str) -> str:
    hatched = " hatched" if KINDS[kind].hatched else ""
    return f'<i class="sw{hatched}" style="{_colour(kind)}"></i>'
