"""Claims as text for a terminal: what is said, what is found, how far off, and the working."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from planner.claims import CLAIMS, Claim, Figure
from planner.claims.own_plan import Rule, rules
from planner.cli.report import table
from planner.cli.words import sentence
from planner.hardware import Tables
from planner.plan_types import Plan
from planner.units import GB, gb

HEAD: Final = ("", "said", "found", "off")
FAR: Final = 2
CLOSE_FRAC: Final = 0.005
SMALL: Final = 1e-3


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """The claims of some rows, in order; `g9` has two. All where none is named.

    Raises:
        LookupError: A name is no row; its text is the name.
    """
    if not names:
        return tuple(CLAIMS)
    found: list[str] = []
    for name in names:
        alike = [key for key in CLAIMS if name.casefold() in {key, key.partition("_")[0]}]
        if not alike:
            raise LookupError(name)
        found += alike
    return tuple(dict.fromkeys(found))


def claim_lines(names: Iterable[str], tables: Tables) -> Iterator[str]:
    """Each claim with its table."""
    for name in names:
        yield from _claim(CLAIMS[name](tables), (CLAIMS[name].__doc__ or "").partition("\n")[0])


def rule_lines(plan: Plan, tables: Tables) -> Iterator[str]:
    """The rules of thumb on a plan."""
    yield "Rules of thumb on this plan"
    yield from _table([(rule.figure, rule.claim) for rule in rules(plan, tables)])


def document(names: Iterable[str], plan: Plan | None, tables: Tables) -> dict[str, Any]:
    """Claims and rules as plain values."""
    told: tuple[Rule, ...] = () if plan is None else rules(plan, tables)
    return {
        "claims": [
            {
                "id": claim.id,
                "outcome": claim.outcome.value,
                "refused": [issue.code for issue in claim.issues],
                "figures": [_figure(figure) for figure in claim.figures],
            }
            for claim in (CLAIMS[name](tables) for name in names)
        ],
        "rules": [{"claim": rule.claim, **_figure(rule.figure)} for rule in told],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "said": figure.said,
        "found": figure.found,
        "unit": figure.unit,
        "formula": figure.formula,
        "symbols": dict(figure.symbols),
        "detail": figure.detail,
        "reference": figure.reference,
        "low": figure.low,
        "high": figure.high,
        "counts": figure.counts,
    }


def _claim(claim: Claim, about: str) -> Iterator[str]:
    yield f"{claim.id.partition('_')[0].upper()}  {claim.outcome.value.upper()}  {about}"
    yield from (f"  refused: {sentence(issue)}" for issue in claim.issues)
    yield from _table([(figure, "") for figure in claim.figures])
    yield ""


def _table(figures: Sequence[tuple[Figure, str]]) -> Iterable[str]:
    rows = [
        [
            f"{row.upper()} {figure.detail or figure.name.replace('_', ' ')}".strip(),
            "-" if figure.said is None else _value(figure.said, figure),
            _value(figure.found, figure) + _band(figure),
            _off(figure),
        ]
        for figure, row in figures
    ]
    head, *lines = table(HEAD, rows)
    workings = [_working(figure) for figure, _ in figures]
    return [head, *(f"{line}  {working}".rstrip() for line, working in zip(lines, workings, strict=True))]


def _band(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f" ({_value(figure.low, figure)} to {_value(figure.high, figure)})"


def _value(value: float, figure: Figure) -> str:
    texts = {
        "bytes": _size(value),
        "bytes_per_s": f"{gb(value):,.4g} GB/s",
        "frac": f"{value * 100:,.1f} %",
        "flags": "yes" if value else "no",
        "ratio": f"{value:.2f} x",
        "count": f"{value:,.0f}",
        "number": f"{value:.3g}" if abs(value) < SMALL else f"{value:,.2f}".rstrip("0").rstrip("."),
    }
    return texts.get(figure.unit, f"{value:,.2f} {figure.unit.replace('_per_', '/')}")


def _size(value: float) -> str:
    few = value and abs(value) < GB / 2
    return f"{gb(value) * 1000:,.0f} MB" if few else f"{gb(value):,.1f} GB"


def _off(figure: Figure) -> str:
    said, found = figure.said, figure.found
    if said is None or figure.unit == "flags":
        return "-"
    if abs(said - found) <= CLOSE_FRAC * abs(found):
        return "same"
    side = "high" if said > found else "low"
    if figure.unit == "frac":
        return f"{abs(said - found) * 100:.0f} points {side}"
    if not said or not found:
        return "-"
    times = max(said / found, found / said)
    text = f"{times:,.1f} x" if times >= FAR else f"{abs(said / found - 1) * 100:.0f} %"
    return f"{text} {side}"


def _working(figure: Figure) -> str:
    values = ", ".join(f"{name} = {value:,g}" for name, value in figure.symbols)
    counts = f"{figure.counts} with logits and loss" if figure.counts else ""
    return "; ".join(filter(None, (figure.formula, values, counts)))
