"""The Cost page in sentences: the cheapest hour, why the rest is no answer, what a figure rests on."""

from collections.abc import Sequence
from datetime import date
from typing import Final

from planner.cost import ASSUMED_SPOT, Spot, run_cost
from ui.cost import choice
from ui.cost.choice import Short
from ui.cost.money import cards_text, day, job_text, usd, usd_cents, usd_small
from ui.cost.quotes import Kind
from ui.cost.rows import Reason, Row, Status
from ui.issue_words import issue_html
from ui.names import card_name
from ui.numbers import DASH, TIMES, gib1, percent, whole
from ui.words import Safe, Words

Cell = tuple[Safe, Safe, Safe]
MOST_NAMES: Final = 4
MOST_HOURS_DAYS: Final = 2
MOST_MINUTES_DAYS: Final = 2 / 24


def kind_inside(kind: Kind, words: Words) -> str:
    """A kind in the middle of a sentence."""
    return words(f"cost.kind.{kind.value}.inside")


def headline(rows: Sequence[Row], kind: Kind, today: date, words: Words) -> Safe:
    """The cheapest hour that fits, or what stands in its way."""
    best = choice.cheapest(rows, today)
    if best is not None and best.usd_per_hour is not None:
        return words.html("cost.head.cheapest", usd=usd(best.usd_per_hour), cards=job_text(best))
    statuses = {row.status for row in rows}
    if not rows:
        return words.html("cost.head.empty" if kind is Kind.OWN else "cost.head.none_listed")
    if Status.FITS in statuses:
        return words.html("cost.head.all_old", kind=kind_inside(kind, words))
    if Status.TIGHT in statuses:
        return words.html("cost.head.tight", kind=kind_inside(kind, words))
    nearest = choice.shortages(rows)
    if nearest:
        return words.html("cost.head.short", cards=_short_cards(nearest[0]), gib=gib1(nearest[0].short_bytes))
    key = "cost.head.unknown" if Status.UNKNOWN in statuses else "cost.head.refused"
    return words.html(key, kind=kind_inside(kind, words))


def tag(rows: Sequence[Row], words: Words) -> Safe:
    """How many offers fit: icon, words and tint."""
    fits, tight = _count(rows, Status.FITS), _count(rows, Status.TIGHT)
    if fits:
        tone, icon, text = "ok", "✓", words.count("cost.tag.fits", fits)
    elif tight:
        tone, icon, text = "tight", "!", words.count("cost.tag.tight", tight)
    elif _count(rows, Status.UNKNOWN) or not rows:
        tone, icon, text = "unknown", "?", words("cost.tag.unknown")
    else:
        tone, icon, text = "bad", "✕", words("cost.tag.none")
    return Safe(f'<span class="tag {tone}">{icon}&ensp;{words.html("cost.tag.text", text=text)}</span>')


def why(rows: Sequence[Row], kind: Kind, today: date, words: Words) -> Safe:
    """Where the cheapest hour is and how old its price is; where nothing fits, what looks further."""
    best = choice.cheapest(rows, today)
    if best is None:
        if not rows:
            return words.html("cost.why.own_empty" if kind is Kind.OWN else "cost.why.empty")
        fits = any(row.status.value == choice.Show.FITS.value for row in rows)
        return Safe("") if fits or kind is Kind.OWN else words.html("cost.why.none")
    where = place(best, words)
    rent = rent_text(best, words)
    if best.rented is not None and (best.rented.instances or 1) > 1:
        rent = words("cost.why.spans", rent=rent, n=whole(best.rented.instances or 1))
    if kind is Kind.OWN or best.quote.date is None:
        key = "cost.why.own" if best.quote.name else "cost.why.own_unnamed"
        return words.html(key, name=best.quote.name, rent=rent)
    when = day(best.quote.date, words)
    return words.html("cost.why.cheapest", where=where, rent=rent, kind=kind_inside(kind, words), date=when)


def run(rows: Sequence[Row], tokens: float | None, today: date, words: Words) -> Safe:
    """Where a million tokens is cheapest, and what the whole run takes and costs there, each with its band.

    Args:
        rows: Prices of one kind.
        tokens: Training tokens of the whole run; None where not told or where the job serves.
        today: For the age of prices.
        words: The language.
    """
    best = choice.cheapest_tokens(rows, today)
    if best is None or best.fit is None or best.fit.rate is None:
        return words.html("cost.run.unknown") if choice.rankable(rows, today) else Safe("")
    rate, million = best.fit.rate, best.usd_per_million_tokens or 0.0
    first = words.html(
        "cost.run.million",
        usd=usd_small(million),
        low=usd_small(million * rate.low_frac),
        high=usd_small(million * rate.high_frac),
        cards=job_text(best),
        where=place(best, words),
        rate=whole(round(rate.tokens_per_s)),
    )
    if tokens is None:
        return first
    spot = ASSUMED_SPOT if best.quote.kind is Kind.SPOT else None
    found = run_cost(
        tokens=tokens,
        spot=spot,
        tokens_per_s=rate.tokens_per_s,
        usd_per_hour=best.usd_per_hour,
        time_low_frac=rate.low_frac,
        time_high_frac=rate.high_frac,
    )
    whole_run = words.html(
        "cost.run.whole",
        tokens=f"{tokens:,.0f}",
        time=duration(found.days, words),
        usd=usd(found.usd or 0.0),
        low=usd(found.low_usd or 0.0),
        high=usd(found.high_usd or 0.0),
    )
    return words.sentences(filter(None, [first, whole_run, _allowance(spot, words)]))


def _allowance(spot: Spot | None, words: Words) -> str:
    """What is counted for machines that may be taken away."""
    if spot is None:
        return ""
    minutes = (spot.checkpoint_interval_s / 2 + spot.restart_s) / 60
    return words.html("cost.run.spot", n=f"{spot.interruptions_per_day:g}", minutes=whole(round(minutes)))


def duration(days: float, words: Words) -> str:
    """Days with one decimal, hours below two days, minutes below two hours: whole ones from an hour on."""
    if days < MOST_MINUTES_DAYS:
        minutes = days * 24 * 60
        return words("cost.run.minutes", n=f"{minutes:.{1 if minutes < 60 else 0}f}")
    if days < MOST_HOURS_DAYS:
        return words("cost.run.hours", n=f"{days * 24:.1f}")
    return words("cost.run.days", n=f"{days:,.1f}")


def strip(rows: Sequence[Row], all_rows: Sequence[Row], kind: Kind, today: date, words: Words) -> list[Cell]:
    """Up to five figures, all of one kind; what spot saves compares the two prices of one instance."""
    cells = [
        _price_cell("cheapest", choice.cheapest(rows, today), rows, words),
        _fewest_cell(choice.fewest_cards(rows, today), words),
        _fitting_cell(rows, kind, words),
    ]
    span = choice.date_span(rows)
    if span is not None:
        old = choice.older_than_a_year(rows, today)
        below = words.html("cost.strip.older", n=whole(old), all=whole(len(rows)))
        cells.append((words.html("cost.strip.newest"), Safe(day(span[1], words)), below))
    saved = choice.spot_savings(all_rows)
    if saved is not None:
        below = words.html("cost.strip.spot_below", n=words.count("cost.strip.instances", saved[1]))
        cells.append((words.html("cost.strip.spot"), Safe(percent(saved[0])), below))
    return cells


def place(row: Row, words: Words) -> str:
    """Who sells it; for the user's own price, what the user called it."""
    return row.quote.provider or row.quote.name or words("cost.own.unnamed")


def rent_text(row: Row, words: Words) -> str:
    """What has to be rented: machines of how many cards, and cards that stay idle."""
    rented = row.rented
    if rented is None:
        return DASH
    if rented.instances is None:
        return words.count("cost.rent.single", rented.paid)
    each = rented.paid // rented.instances
    what = row.quote.name
    text = words.count("cost.rent.of", each, what=what) if what else words.count("cost.rent.cards", each)
    if rented.instances > 1:
        text = words("cost.rent.each", n=whole(rented.instances), what=text)
    idle = rented.paid - rented.used
    return words("cost.rent.idle", rent=text, idle=whole(idle)) if idle else text


def verdict_text(row: Row, words: Words) -> str:
    """The verdict in a table: a word for fits, tight and short, the reason for the rest."""
    if row.reason is None:
        return words(f"cost.status.{row.status.value}")
    return words(f"cost.reason.{row.reason.value}.short")


def age_text(row: Row, today: date, words: Words) -> str:
    """The freshness tier."""
    tier = row.quote.age(today)
    return words(f"cost.age.{tier.value}") if tier is not None else words("cost.age.own")


def refusal_lines(rows: Sequence[Row], words: Words) -> list[Safe]:
    """Why prices are no answer for other reasons than memory: a line a reason."""
    return [line for reason, group in choice.refusals(rows) for line in _lines(reason, group, words)]


def short_rows(shorts: Sequence[Short], words: Words) -> list[tuple[str, Safe, str]]:
    """Cells of the list of near misses; the part is worded without its colour."""
    return [
        (
            _short_cards(short),
            Safe(f'<span class="bad">{gib1(short.short_bytes)}</span>'),
            words(f"part.{short.largest.value}"),
        )
        for short in shorts
    ]


def foot(rows: Sequence[Row], today: date, words: Words) -> Safe:
    """What is left out, and what the prices are."""
    parts = [words.html("cost.foot.left_out")]
    span = choice.date_span(rows)
    if span is not None:
        old = choice.older_than_a_year(rows, today)
        oldest, newest = (day(text, words) for text in span)
        parts.append(words.html("cost.foot.dates", oldest=oldest, newest=newest, old=whole(old)))
    apart = [row for row in rows if row.fit is not None and not row.fit.joined]
    if apart:
        parts.append(words.html("cost.foot.apart", n=whole(len(apart))))
    parts.append(words.html("cost.foot.kinds"))
    return words.sentences(parts)


def _count(rows: Sequence[Row], status: Status) -> int:
    return sum(row.status is status for row in rows)


def _short_cards(short: Short) -> str:
    return f"{whole(short.used)} {TIMES} {card_name(short.gpu_name)}"


def _price_cell(name: str, row: Row | None, rows: Sequence[Row], words: Words) -> Cell:
    label = words.html(f"cost.strip.{name}")
    if row is None or row.usd_per_hour is None:
        below = "cost.strip.all_old" if _count(rows, Status.FITS) else "cost.strip.nothing_fits"
        return label, Safe(DASH), words.html(below)
    value = words.html("cost.strip.per_hour", usd=usd(row.usd_per_hour))
    return label, value, words.html("cost.strip.at", cards=job_text(row), where=place(row, words))


def _fewest_cell(row: Row | None, words: Words) -> Cell:
    label = words.html("cost.strip.fewest")
    if row is None or row.rented is None or row.gpu is None or row.usd_per_hour is None:
        return label, Safe(DASH), Safe("")
    count, _, name = cards_text(row.rented.used, row.gpu).partition(f" {TIMES} ")
    value = words.html("cost.strip.cards", n=count, card=name)
    each = row.quote.usd_per_gpu_hour
    below = words.html("cost.strip.fewest_below", usd=usd(row.usd_per_hour), each=usd_cents(each or 0))
    return label, value, below


def _fitting_cell(rows: Sequence[Row], kind: Kind, words: Words) -> Cell:
    value = words.html("cost.strip.of", n=whole(_count(rows, Status.FITS)), all=whole(len(rows)))
    tight = words.html("cost.strip.tight", n=whole(_count(rows, Status.TIGHT)), kind=kind_inside(kind, words))
    return words.html("cost.strip.fitting"), value, tight


def _lines(reason: Reason, group: Sequence[Row], words: Words) -> list[Safe]:
    """One line a reason, or one for each different thing that the planner says."""
    by_message: dict[str, list[Row]] = {}
    for row in group:
        by_message.setdefault(_message(reason, row, words), []).append(row)
    return [_line(reason, rows, Safe(message), words) for message, rows in by_message.items()]


def _message(reason: Reason, row: Row, words: Words) -> str:
    if row.issue is None:
        return ""
    if reason is Reason.LACKS:
        return words.html("cost.reason.lacks.what", **_lacking(row))
    return issue_html(row.issue, words)


def _lacking(row: Row) -> dict[str, str]:
    params = {} if row.issue is None else dict(row.issue.params)
    return {name: str(params.get(name, DASH)) for name in ("given", "needs")}


def _line(reason: Reason, rows: Sequence[Row], message: Safe, words: Words) -> Safe:
    names = list(dict.fromkeys(card_name(choice.card_of(row)) for row in rows))
    listed = words.listed(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        listed = words("cost.reason.more", names=listed, n=whole(len(names) - MOST_NAMES))
    return words.html(
        f"cost.reason.{reason.value}.line",
        offers=words.html("cost.reason.offers", text=words.count("cost.offers", len(rows))),
        names=listed,
        message=message,
        tensor=whole(rows[0].needs or 1),
    )
