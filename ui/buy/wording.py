"""The Buy page in sentences and cells."""

from collections.abc import Callable, Sequence
from typing import Final

from planner.plan_types import Verdict
from ui.buy.basis import TELLS_ITSELF, is_alone, is_mixed
from ui.buy.builds import Known
from ui.buy.columns import Column
from ui.buy.money import Terms, wrong_terms
from ui.cost.money import cards_text, day, short_card, usd, usd_small
from ui.issue_words import issue_html
from ui.names import short_model_name
from ui.numbers import DASH, as_typed, percent, signed_gib, whole
from ui.words import Safe, Words

TONES: Final = {
    Verdict.FITS: "ok",
    Verdict.TIGHT: "tight",
    Verdict.DOES_NOT_FIT: "bad",
    Verdict.UNKNOWN: "unknown",
}
THOUSAND: Final = 1000

Cell = tuple[str, str, str]


def name_of(column: Column) -> str:
    """The cards of a build: `2 × A100 40GB + 4 × RTX 4090`."""
    named = (cards_text(count, gpu) if count > 0 else short_card(gpu) for gpu, count in column.cards)
    return " + ".join(named) or DASH


def problem_text(column: Column, words: Words) -> str:
    """The field that keeps a build from being counted, its value and what is allowed."""
    value = column.wrong
    if not isinstance(value, str):
        value = words("buy.problem.empty") if value is None else as_typed(value)
    return words(f"buy.problem.{column.problem}", value=value)


def best_of(columns: Sequence[Column]) -> Column | None:
    """The build that fits with the cheapest million tokens when bought; None where none is known."""
    known = [one for one in columns if one.on.fits and _owned(one) is not None]
    return min(known, key=lambda one: _owned(one) or 0.0, default=None)


def lack_of(columns: Sequence[Column], given: Terms) -> str:
    """What keeps costs from being known: `rate` of the currency, `terms` out of range, else `cost`.

    Args:
        columns: The builds.
        given: The terms in dollars; an amount that was typed is empty where the rate is missing.
    """
    if any(getattr(given, name) is None for name in given.typed) or any(one.build.awaits for one in columns):
        return "rate"
    return "terms" if wrong_terms(given) else "cost"


def headline(columns: Sequence[Column], words: Words, lack: str, code: str) -> Safe:
    """Which build has the cheapest tokens, or why none has.

    Args:
        columns: The builds.
        words: The language.
        lack: As `lack_of`.
        code: The currency that amounts are typed in.
    """
    best = best_of(columns)
    if best is not None:
        return words.html("buy.head.best", cards=name_of(best), usd=usd_small(_owned(best) or 0.0))
    if any(one.on.fits for one in columns):
        return words.html(f"buy.head.no_{lack}", code=code)
    counted = [one for one in columns if one.problem is None]
    tight = any(one.on.plan is not None and one.on.plan.verdict is Verdict.TIGHT for one in counted)
    key = "none_with_room" if tight else "none_fits" if counted else "empty"
    return words.html(f"buy.head.{key}")


def why(columns: Sequence[Column], use_frac: float, words: Words, lack: str) -> Safe:
    """How many fit; whether the best pays against renting, from which use on, and what its price leaves out."""
    best = best_of(columns)
    fits = sum(one.on.fits for one in columns)
    tone = "ok" if fits else "bad"
    text = words.html("buy.tag", n=whole(fits), all=whole(len(columns)))
    tag = Safe(f'<span class="tag {tone}">{"✓" if fits else "✕"}&ensp;{text}</span>')
    if best is None or best.costs is None:
        text = words.html(f"buy.why.no_{lack}" if fits else "buy.why.none_fits")
        return Safe(f"{tag}&ensp;{text}" if columns else words.html("buy.why.empty"))
    compared = [one for one in columns if one.on.fits and _owned(one) is not None]
    unlike = is_alone("owned", best) and is_mixed("owned", compared)
    told = [_pays(best, use_frac, words), *([words.html("buy.why.alone")] if unlike else [])]
    return Safe(f"{tag}&ensp;{words.sentences(told)}")


def _pays(best: Column, use_frac: float, words: Words) -> Safe:
    costs = best.costs
    if costs is None or not costs.rented or best.rent is None:
        return words.html("buy.why.no_rent")
    rent = usd(best.rent.value)
    use = percent(use_frac)
    month = costs.found.pay_back_month
    if month is None:
        if costs.least_use_frac is None:
            return words.html("buy.why.never", rent=rent, use=use)
        return words.html("buy.why.more_use", rent=rent, use=use, least=percent(costs.least_use_frac))
    key = "buy.why.pays" if costs.least_use_frac is not None else "buy.why.pays_late"
    return words.html(key, rent=rent, use=use, month=month, least=percent(costs.least_use_frac or 0.0))


def table_head(columns: Sequence[Column], words: Words) -> list[str]:
    """A head for each build."""
    return [
        words("buy.row.figure"),
        *(words.html("buy.column", letter=one.letter, cards=name_of(one)) for one in columns),
    ]


Figure = Callable[[Column, Words], Safe]
Value = Callable[[Column], float | None]


def table_rows(columns: Sequence[Column], words: Words) -> list[list[str]]:
    """A row a figure; the best of a row is marked in words."""
    rows: list[list[str]] = []
    for name, figure, value, least in _ROWS:
        valued = [] if value is None else [one for one in columns if value(one) is not None]
        compared = [one for one in valued if one.on.fits]
        best = None if value is None or len(compared) < 2 else _best(compared, value, least=least)
        marked = set(map(id, valued)) if is_mixed(name, valued) else set()
        cells = []
        for one in columns:
            cell = _cell(one, name, figure, words)
            alone = is_alone(name, one)
            if one is best:
                unlike = alone and is_mixed(name, compared)
                cell = words.html("buy.best_alone" if unlike else "buy.best", value=cell)
            elif alone and id(one) in marked and name not in TELLS_ITSELF:
                cell = words.html("buy.alone", value=cell)
            cells.append(cell)
        rows.append([_row_label(name, columns, words), *cells])
    return rows


def _row_label(name: str, columns: Sequence[Column], words: Words) -> str:
    """A row's name; that of the longest sequence says how many of that length at once."""
    asked = next((one.on.plan.resolved for one in columns if one.on.plan is not None), None)
    if name != "longest" or asked is None:
        return words(f"buy.row.{name}")
    if asked.is_training:
        return words("buy.row.longest_batch", n=whole(asked.training.micro_batch))
    at_once = (asked.workload.concurrency if asked.workload else None) or 1
    return words.count("buy.row.longest_at_once", at_once)


def _cell(column: Column, name: str, figure: Figure, words: Words) -> Safe:
    if column.problem is not None and name != "fits":
        return Safe(DASH)
    return figure(column, words)


def _best(compared: Sequence[Column], value: Value, *, least: bool) -> Column:
    """The build of the best value."""
    sign = 1 if least else -1
    return min(compared, key=lambda one: sign * (value(one) or 0.0))


def _fits(column: Column, words: Words) -> Safe:
    if column.problem is not None:
        return words.html("buy.fit.not_counted", why=problem_text(column, words))
    plan = column.on.plan
    if plan is None or column.on.issue is not None:
        text = words.html("buy.fit.refused")
        return Safe(f'<span class="bad">{text}</span>')
    tone = TONES[plan.verdict]
    word = words.html(f"buy.fit.{plan.verdict.value}")
    headroom = plan.worst.headroom_bytes
    said = (
        ""
        if headroom is None
        else f" <small>{words.html('buy.fit.headroom', gib=signed_gib(headroom))}</small>"
    )
    return Safe(f'<span class="{tone}">{word}</span>{said}')


def _divided(column: Column, words: Words) -> Safe:
    if column.on.plan is None:
        return Safe(DASH)
    return words.html(f"buy.divided.{column.on.divided}")


def _speed(column: Column, words: Words) -> Safe:
    rate = column.on.rate
    if rate is None:
        return Safe(DASH)
    low, high = rate.tokens_per_s / rate.high_frac, rate.tokens_per_s / rate.low_frac
    return words.html("buy.with_band", value=_count(rate.tokens_per_s), low=_count(low), high=_count(high))


def _count(rate: float) -> str:
    return whole(round(rate)) if rate >= 10 else f"{rate:.1f}"


def _price(column: Column, words: Words) -> Safe:
    return _known(column.price, usd, words)


def _power(column: Column, words: Words) -> Safe:
    return _known(column.power, lambda value: words("buy.kw", n=f"{value / THOUSAND:.1f}"), words)


def _rent(column: Column, words: Words) -> Safe:
    return _known(column.rent, usd, words)


def _known(known: Known | None, text: Callable[[float], str], words: Words) -> Safe:
    """A figure with where it comes from below it."""
    if known is None:
        return words.html("buy.unknown")
    undated = known.date is None and known.how in ("node", "cards")
    when = "" if known.date is None else day(known.date, words)
    how = words.html(f"buy.how.{known.how}{'_power' if undated else ''}", date=when, source=known.source)
    return words.html("buy.known", value=text(known.value), how=how)


def _month(column: Column, words: Words) -> Safe:
    costs = column.costs
    if costs is None or not costs.rented:
        return Safe(DASH)
    sold, kept = costs.found.break_even_month, costs.found.pay_back_month
    if sold is None:
        return words.html("buy.never")
    if kept is None:
        return words.html("buy.month_sold_only", sold=whole(sold))
    return words.html("buy.month", sold=whole(sold), kept=whole(kept))


def _use(column: Column, words: Words) -> Safe:
    costs = column.costs
    if costs is None or not costs.rented:
        return Safe(DASH)
    least = costs.least_use_frac
    return words.html("buy.use_none") if least is None else words.html("buy.use", least=percent(least))


def _million(column: Column, words: Words, million_usd: float | None) -> Safe:
    rate = column.on.rate
    if million_usd is None or rate is None:
        return Safe(DASH)
    low, high = million_usd * rate.low_frac, million_usd * rate.high_frac
    return words.html("buy.with_band", value=usd_small(million_usd), low=usd_small(low), high=usd_small(high))


def _owned(column: Column) -> float | None:
    return None if column.costs is None else column.costs.owned_usd


def _rented(column: Column) -> float | None:
    return None if column.costs is None else column.costs.rented_usd


def _running(column: Column, words: Words) -> Safe:
    if column.costs is None:
        return Safe(DASH)
    return words.html("buy.a_month", usd=usd(column.costs.found.running_usd_per_month))


def _largest(column: Column, words: Words) -> Safe:
    if column.largest is None:
        return words.html("buy.no_model")
    return words.html("buy.plain", value=short_model_name(column.largest))


def _longest(column: Column, words: Words) -> Safe:
    if column.longest is None:
        return Safe(DASH)
    if not column.longest:
        return words.html("buy.no_length")
    plan = column.on.plan
    limit = None if plan is None else plan.model.max_position_embeddings
    key = "buy.tokens_limit" if limit is not None and column.longest + 512 > limit else "buy.tokens"
    return words.html(key, n=whole(column.longest))


_ROWS: Final[tuple[tuple[str, Figure, Value | None, bool], ...]] = (
    ("fits", _fits, None, False),
    ("divided", _divided, None, False),
    ("speed", _speed, lambda one: one.tokens_per_s, False),
    ("price", _price, lambda one: one.price.value if one.price else None, True),
    ("power", _power, lambda one: one.power.value if one.power else None, True),
    ("running", _running, lambda one: one.costs.found.running_usd_per_month if one.costs else None, True),
    ("rent", _rent, lambda one: one.rent.value if one.rent else None, True),
    (
        "month",
        _month,
        lambda one: one.costs.found.pay_back_month if one.costs and one.costs.rented else None,
        True,
    ),
    ("use", _use, lambda one: one.costs.least_use_frac if one.costs and one.costs.rented else None, True),
    ("owned", lambda one, words: _million(one, words, _owned(one)), _owned, True),
    ("rented", lambda one, words: _million(one, words, _rented(one)), _rented, True),
    ("largest", _largest, None, False),
    ("longest", _longest, lambda one: one.longest, False),
)


_AWAITED: Final = {"price": "price", "rent_per_hour": "rent"}
"""The row of the table that shows an amount."""


def trouble(columns: Sequence[Column], words: Words) -> list[Safe]:
    """What keeps builds from the comparison: a line each."""
    lines: list[Safe] = []
    for one in columns:
        if one.problem is not None:
            continue
        if one.on.issue is not None:
            lines.append(
                words.html("buy.trouble.refused", letter=one.letter, why=issue_html(one.on.issue, words))
            )
        lines += [
            words.html("buy.trouble.rate", letter=one.letter, field=words(f"buy.row.{_AWAITED[name]}"))
            for name in sorted(one.build.awaits)
        ]
        if one.price is None and "price" not in one.build.awaits:
            lines.append(words.html("buy.trouble.price", letter=one.letter))
        if one.power is None:
            lines.append(words.html("buy.trouble.power", letter=one.letter))
        if one.rent is None and "rent_per_hour" not in one.build.awaits:
            lines.append(words.html("buy.trouble.rent", letter=one.letter))
        if one.on.fits and one.on.rate is None:
            lines.append(words.html("buy.trouble.speed", letter=one.letter))
    return lines
