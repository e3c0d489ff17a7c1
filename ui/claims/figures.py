"""A figure of a claim as text: what was said, what was found, how far off, and the working."""

from collections.abc import Callable
from html import escape
from typing import Final

from planner.claims import Figure
from planner.references import REFERENCES
from planner.units import GB, gb
from ui.citations import reference_line
from ui.numbers import DASH, percent, whole
from ui.words import Safe, Words
from ui.worked import worked_html

CLOSE_FRAC: Final = 0.005
"""What rounds to nothing is the same."""
FAR: Final = 2
"""From twice on the other figure a share says less than how many times."""
MANY: Final = 100
POINT_TENTH: Final = 0.1
"""From a tenth of a point on one decimal is enough."""
READ: Final = frozenset({"count", "usd", "bytes_per_s", "bits"})
"""Units of figures that are looked up rather than planned."""
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def value_text(value: float, figure: Figure, words: Words) -> str:
    """A value in the unit of its figure; sizes in GB, as the claims have them."""
    match figure.unit:
        case "bytes":
            return size_text(value, words)
        case "bytes_per_s":
            return words("claims.rate", value=f"{gb(value):,.4g}")
        case "frac":
            return share_text(value)
        case "ratio":
            return words("claims.times", value=f"{value:.2f}")
        case "flags":
            return words("claims.yes" if value else "claims.no")
        case "count":
            return whole(value)
        case _:
            return _worded(value, figure, words)


def found_html(figure: Figure, words: Words) -> Safe:
    """What the planner finds, with its band below where it has one."""
    value = f"<b>{escape(value_text(figure.found, figure, words))}</b>"
    if figure.low is None or figure.high is None:
        return Safe(value)
    low, high = (value_text(end, figure, words) for end in (figure.low, figure.high))
    return Safe(f'{value}<br><span class="m">{words.html("claims.range", low=low, high=high)}</span>')


def _worded(value: float, figure: Figure, words: Words) -> str:
    plain = {
        "s": ("claims.seconds", f"{value:.3g}"),
        "days": ("claims.days", f"{value:,.1f}"),
        "months": ("claims.months", whole(value)),
        "usd": ("claims.usd", f"{value:,.2f}"),
        "bits": ("claims.bits", f"{value:.4g}"),
        "tokens_per_s": ("claims.tokens", whole(value)),
    }
    if figure.unit in plain:
        key, text = plain[figure.unit]
        return words(key, value=text)
    return number_text(value)


def share_text(fraction: float) -> str:
    """A share with what it needs of decimals: 87.5 %, 75 %."""
    value = fraction * 100
    return percent(fraction) if abs(value) >= MANY else f"{value:.3g}\u00a0%"


def points_text(fraction: float) -> str:
    """A difference of two shares in points: 36.5, 0.04."""
    value = fraction * 100
    return f"{value:.1f}".removesuffix(".0") if value >= POINT_TENTH else f"{value:.1g}"


def number_text(value: float) -> str:
    """A bare number; a very small one as a power of ten."""
    if value and abs(value) < 1e-3:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{mantissa}\u00a0×\u00a010{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def size_text(amount_bytes: float, words: Words) -> str:
    """Bytes as GB, or as MB where they are few."""
    if amount_bytes and abs(amount_bytes) < GB / 2:
        return words("claims.mb", value=f"{gb(amount_bytes) * 1000:,.0f}")
    return words("claims.gb", value=f"{gb(amount_bytes):,.1f}")


def off_text(figure: Figure, words: Words) -> str:
    """How far what is said is from what is found; a dash where there is nothing to compare."""
    said, found = figure.said, figure.found
    if said is None or figure.unit == "flags":
        return DASH
    if abs(said - found) <= CLOSE_FRAC * abs(found):
        return words("claims.same")
    if figure.unit == "frac":
        off = said - found
        points = words("claims.points", value=points_text(abs(off)))
        return words("claims.high" if off > 0 else "claims.low", value=points)
    if not found or not said:
        return DASH
    high, times = said > found, max(said / found, found / said)
    text = f"×{times:,.{0 if times >= MANY else 1}f}" if times >= FAR else percent(abs(said / found - 1))
    return words("claims.high" if high else "claims.low", value=text)


def working(figure: Figure, words: Words, meaning: Callable[[str], str] = lambda _symbol: "") -> Safe:
    """The formula with its values, or where the figure comes from, and what it counts.

    Args:
        figure: The figure.
        words: The language.
        meaning: Says what a symbol of its formula stands for, "" where that is not known.
    """
    source = _source(figure, words, meaning)
    if not figure.counts:
        return source
    return Safe(f'{source}<br><span class="m">{words.html(f"claims.counts.{figure.counts}")}</span>')


def _source(figure: Figure, words: Words, meaning: Callable[[str], str]) -> Safe:
    if figure.reference:
        cited = reference_line(REFERENCES[figure.reference], words)
        return Safe(f"{_formula(figure, meaning)}<br>{cited}") if figure.formula else cited
    if figure.formula:
        return _formula(figure, meaning)
    is_planned = figure.unit in {"bytes", "frac", "ratio"} or figure.low is not None
    return words.html("claims.whole_plan" if is_planned else "claims.from_data")


def _formula(figure: Figure, meaning: Callable[[str], str]) -> Safe:
    return worked_html(figure.formula, figure.symbols, meaning=meaning)
