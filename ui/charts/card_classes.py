"""Cards by memory and price, a mark for each class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.card_classes import CardClass
from ui.charts.base import bold, colored, finish
from ui.charts.drawing import Drawing
from ui.cost.money import usd
from ui.tokens import LIGHT
from ui.words import Words

HEIGHT: Final = 288
SYMBOLS: Final = {
    CardClass.CONSUMER: ("circle-open", "muted"),
    CardClass.PROFESSIONAL: ("square", "muted"),
    CardClass.COMPUTE: ("diamond", "accent"),
}
"""Shape and colour: the shape alone tells classes apart."""
SIZES_GIB: Final = (8, 16, 24, 48, 80, 141, 288)
PRICES_USD: Final = (300, 1000, 3000, 10_000, 30_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A card with a price.

    Attributes:
        name: For people.
        memory_gib: On the box.
        usd: Its newest price.
        dated: That price's date, for people.
    """

    card_class: CardClass
    name: str
    memory_gib: float
    usd: float
    dated: str


def card_classes(dots: Sequence[Dot], words: Words) -> Any:
    """A scatter on logarithmic axes: GiB on the box, dollars for one card.

    Returns:
        A Plotly figure, 288 px high.
    """
    fig = Drawing()
    for card_class, (symbol, color) in SYMBOLS.items():
        mine = [dot for dot in dots if dot.card_class is card_class]
        fig.add_scatter(
            x=[dot.memory_gib for dot in mine],
            y=[dot.usd for dot in mine],
            mode="markers",
            marker={"symbol": symbol, "size": 9, "color": LIGHT[color]},
            name=words(f"buy.classes.{card_class.value}"),
            text=[_hover(dot, words) for dot in mine],
            hovertemplate="%{text}<extra></extra>",
        )
    finish(fig, HEIGHT, margin={"l": 60, "r": 4, "t": 8, "b": 28})
    # A figure of a card's box is in GiB whatever unit sizes are shown in: it is the card's name.
    fig.update_xaxes(type="log", tickvals=list(SIZES_GIB), ticktext=[f"{size}" for size in SIZES_GIB])
    fig.update_yaxes(type="log", tickvals=list(PRICES_USD), ticktext=[usd(price) for price in PRICES_USD])
    return fig.figure()


def alternative(dots: Sequence[Dot], words: Words) -> str:
    """The figure in words."""
    least, most = min(dots, key=lambda dot: dot.usd), max(dots, key=lambda dot: dot.usd)
    return words(
        "buy.classes.alt",
        n=len(dots),
        least=least.name,
        low=usd(least.usd),
        most=most.name,
        high=usd(most.usd),
    )


def _hover(dot: Dot, words: Words) -> str:
    said = words("buy.classes.hover", usd=usd(dot.usd), date=dot.dated)
    return f"{bold(dot.name)}<br>{colored(said, LIGHT['text'])}"
