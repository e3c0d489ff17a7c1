"""What owning has cost more than renting, by month: a line a build; where it crosses zero the two cost the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Final

from ui.charts.base import bold, colored, finish, nice_step
from ui.charts.drawing import Drawing
from ui.cost.money import usd
from ui.numbers import MINUS
from ui.tokens import LIGHT
from ui.words import Words

HEIGHT: Final = 300
TOP: Final = 12
BOTTOM: Final = 28
LABEL_HEIGHT: Final = 19
DASHES: Final = ("solid", "dash", "dot", "dashdot")
THOUSAND: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One build.

    Attributes:
        letter: Its letter.
        name: Its cards.
        more_usd: Owning less renting, by the end of each month from the first on.
        crossing: The month in which they cost the same; None where that does not come.
        best: Drawn in the accent.
    """

    letter: str
    name: str
    more_usd: tuple[float, ...]
    crossing: int | None
    best: bool = False


def buy_lines(lines: Sequence[Line], months: int, words: Words) -> Any:
    """Lines over months, zero marked, crossings as points.

    Args:
        lines: One a build, at most four.
        months: How many are drawn.
        words: For hover texts.

    Returns:
        A Plotly figure, 300 px high, thousands of dollars upwards.
    """
    fig = Drawing()
    low, high = _span(lines, months)
    fig.add_hline(y=0, line={"color": LIGHT["text"], "width": 1.5})
    for dash, line in zip(DASHES, lines, strict=False):
        color = LIGHT["accent"] if line.best else LIGHT["muted"]
        shown = line.more_usd[:months]
        fig.add_scatter(
            x=list(range(1, len(shown) + 1)),
            y=[value / THOUSAND for value in shown],
            mode="lines",
            line={"color": color, "width": 2, "dash": dash},
            name=line.letter,
            text=[_hover(line, month, value, words) for month, value in enumerate(shown, start=1)],
            hovertemplate="%{text}<extra></extra>",
        )
        if line.crossing is not None and line.crossing <= months:
            fig.add_scatter(
                x=[line.crossing],
                y=[shown[line.crossing - 1] / THOUSAND],
                mode="markers",
                marker={"size": 9, "color": color, "line": {"width": 2, "color": LIGHT["background"]}},
                name=line.letter,
                hovertemplate=words("buy.chart.crossing", letter=line.letter, month=line.crossing)
                + "<extra></extra>",
            )
    for line, y in _spread(lines, months, low, high):
        fig.add_annotation(
            x=1, xref="paper", y=y, xanchor="left", xshift=6, showarrow=False, font={"size": 14},
            text=colored(line.letter, LIGHT["accent"] if line.best else LIGHT["text"], bold=True),
        )  # fmt: skip
    fig.add_annotation(
        x=1, xref="paper", y=0, xanchor="right", yanchor="bottom", xshift=-4, showarrow=False,
        text=colored(words("buy.chart.same"), LIGHT["muted"]), font={"size": 13},
    )  # fmt: skip
    finish(fig, HEIGHT, margin={"l": 62, "r": 22, "t": TOP, "b": BOTTOM})
    fig.update_xaxes(range=[0, months], dtick=12 if months >= 24 else 6)
    ticks = _ticks(low, high)
    texts = [f"{MINUS if tick < 0 else ''}${abs(tick):,.10g}k" for tick in ticks]
    fig.update_yaxes(range=[low, high], tickvals=ticks, ticktext=texts)
    return fig.figure()


def alternative(lines: Sequence[Line], words: Words) -> str:
    """The figure in words."""
    said = [
        words("buy.chart.alt_never", letter=line.letter, name=line.name)
        if line.crossing is None
        else words("buy.chart.alt_line", letter=line.letter, name=line.name, month=line.crossing)
        for line in lines
    ]
    return words("buy.chart.alt", lines=words.clauses(said))


def _hover(line: Line, month: int, value: float, words: Words) -> str:
    key = "buy.chart.more" if value > 0 else "buy.chart.less"
    head = bold(f"{line.letter}  {line.name}")
    return f"{head}<br>{colored(words(key, usd=usd(abs(value)), month=month), LIGHT['text'])}"


def _span(lines: Sequence[Line], months: int) -> tuple[float, float]:
    values = [value / THOUSAND for line in lines for value in line.more_usd[:months]] or [0.0]
    low, high = min(0.0, *values), max(0.0, *values)
    room = (high - low) * 0.06 or 1.0
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    step = nice_step(high - low, 6)
    return [step * n for n in range(ceil(low / step), floor(high / step) + 1)]


def _spread(lines: Sequence[Line], months: int, low: float, high: float) -> list[tuple[Line, float]]:
    """A height for the label of each line at its end, pushed apart where they would cover each other."""
    step = (high - low) * LABEL_HEIGHT / (HEIGHT - TOP - BOTTOM)
    ends = sorted(
        ((line.more_usd[:months][-1] / THOUSAND, line) for line in lines if line.more_usd), key=lambda e: e[0]
    )
    placed: list[tuple[Line, float]] = []
    for y, line in ends:
        placed.append((line, y if not placed else max(y, placed[-1][1] + step)))
    over = placed[-1][1] - high if placed else 0.0
    return [(line, y - max(over, 0.0)) for line, y in placed]
