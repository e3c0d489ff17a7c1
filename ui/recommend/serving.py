"""Machines that serve the open job: the search, remembered, and its sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from json import loads
from typing import Any, Final

from planner.prices import Offer
from planner.search.serving import Served, ServingResult, serving_search
from planner.search.types import Fails, Rejected
from planner.validation import parse_scenario
from ui import answers
from ui.cost.money import cards_text, day, usd_cents, usd_small
from ui.document import Document, canonical, put_all
from ui.names import card_name
from ui.numbers import DASH, gib1, whole
from ui.recommend.ask import REMEMBERED, WITHOUT_CARDS, Ask, Kind, machines_for
from ui.recommend.misses import nearest_miss, rejected_cards, told_apart
from ui.recommend.wording import Cell, unknown_text
from ui.units import amount
from ui.words import Safe, Words, escaped

FORMATS: Final = ("fp8", "awq4", "int8", "bf16")
"""Formats of weights that can stand in for the question's own."""
COLUMNS: Final = (
    *("usd_per_hour", "cards", "gpu", "usd_per_million", "tokens_per_s", "tpot", "ttft", "concurrency"),
    *("weights", "provider", "rent", "peak", "usable", "region", "date"),
)
MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingAsk:
    """The constraints: where machines come from, and what may stand in for the question's weights."""

    ask: Ask
    weights: tuple[str, ...] = ()


def serving_reply(
    document: Document, asked: ServingAsk, offers: Sequence[Offer], today: date
) -> ServingResult:
    """The machines that serve a question; its own cards don't matter."""
    return _reply(canonical(put_all(document, WITHOUT_CARDS)), asked, tuple(offers), today)


@lru_cache(maxsize=REMEMBERED)
def _reply(text: str, asked: ServingAsk, offers: tuple[Offer, ...], today: date) -> ServingResult:
    scenario, issues = parse_scenario(loads(text))
    if scenario is None:
        raise ValueError(f"a question with errors: {issues}")
    machines, _ = machines_for(asked.ask, offers, today)
    return serving_search(
        scenario, machines, answers.tables_for(scenario), weights=asked.weights,
        accept_tight=asked.ask.tight, most_cards=asked.ask.most_cards,
    )  # fmt: skip


def cards(found: Served) -> str:
    """The cards a server runs on."""
    return cards_text(found.devices, found.machine.gpu)


def rent_text(found: Served, words: Words) -> str:
    """What is rented, and what of it stays idle."""
    if found.machine.per_card:
        return words.count("recommend.rent.card", found.devices)
    if found.machine.usd_per_hour is None:
        return cards(found)
    idle = found.machine.devices - found.devices
    name = found.machine.name
    return words("recommend.serving.idle", name=name, n=whole(idle)) if idle else name


def weights_text(found: Served, words: Words) -> str:
    """The format of the weights; as asked where it is the question's own."""
    value = str(found.choice.settings["weights"])
    return words("recommend.serving.own_weights") if value == "own" else words(f"format.{value}")


def headline(result: ServingResult, words: Words) -> str:
    """The answer in a sentence."""
    best = result.cheapest or result.fastest or next(iter(result.found), None)
    if best is not None:
        if best.usd_per_hour is None:
            return words("recommend.serving.head.own", cards=cards(best))
        return words("recommend.serving.head.cheapest", usd=usd_cents(best.usd_per_hour), cards=cards(best))
    nearest = nearest_miss(result.rejected)
    if nearest is not None:
        gib = gib1(nearest.short_bytes or 0)
        return words("recommend.head.memory", cards=rejected_cards(nearest), gib=gib)
    return words("recommend.head.nothing")


def tag(result: ServingResult, words: Words) -> Safe:
    """How many machines serve it, as a coloured tag."""
    number = len(result.found)
    tone, icon = ("ok", "✓") if number else ("bad", "✕")
    text = words.count("recommend.serving.tag", number) if number else words("recommend.serving.tag.none")
    return Safe(f'<span class="tag {tone}">{icon}&ensp;{escaped(text)}</span>')


def why(result: ServingResult, asked: ServingAsk, words: Words) -> Safe:
    """Where that is, and how fast it answers."""
    best = result.cheapest or result.fastest or next(iter(result.found), None)
    if best is None:
        return words.html("recommend.serving.why.nothing")
    where = ""
    if asked.ask.kind is not Kind.OWN and best.machine.date is not None:
        where = words.html(
            "recommend.serving.why.where", rent=rent_text(best, words), where=best.machine.provider,
            date=day(best.machine.date, words), weights=weights_text(best, words),
        )  # fmt: skip
    return words.sentences(filter(None, [where, _speed(best, words)]))


def _speed(found: Served, words: Words) -> Safe:
    if found.tokens_per_s is None or found.tpot_s is None:
        return Safe(escaped(unknown_text(found.missing, words)))
    told = words.html(
        "recommend.serving.why.speed", rate=whole(round(found.tokens_per_s)), ms=f"{found.tpot_s * MS:.1f}"
    )
    band = found.band
    if band is None:
        return words.sentences([told, words.html("recommend.why.no_band")])
    low, high = found.tokens_per_s / band.high_frac, found.tokens_per_s / band.low_frac
    return words.sentences(
        [
            told,
            words.html(
                "recommend.serving.why.band",
                n=whole(band.n_rows),
                low=whole(round(low)),
                high=whole(round(high)),
            ),
        ]
    )


def strip(result: ServingResult, words: Words) -> list[Cell]:
    """Up to five figures."""
    cells: list[Cell] = []
    hour, tokens, fast = result.cheapest, result.cheapest_tokens, result.fastest
    if hour is not None:
        value = words.html("cost.strip.per_hour", usd=usd_cents(hour.usd_per_hour or 0))
        cells.append((words("recommend.serving.strip.cheapest"), value, cards(hour)))
    if tokens is not None:
        value = words.html(
            "recommend.serving.strip.per_million", usd=usd_small(tokens.usd_per_million_tokens or 0)
        )
        cells.append((words("recommend.serving.strip.cheapest_tokens"), value, cards(tokens)))
    if fast is not None and fast.tpot_s is not None:
        value = words.html("recommend.serving.strip.ms", ms=f"{fast.tpot_s * MS:.1f}")
        cells.append((words("recommend.serving.strip.fastest"), value, cards(fast)))
    below = words("recommend.serving.strip.refused", n=whole(len(result.rejected)))
    cells.append((words("recommend.serving.strip.machines"), whole(len(result.found)), below))
    return cells


def figures(found: Served, words: Words) -> tuple[str, str]:
    """The price of an hour and of a million tokens, as far as they are known."""
    hour = (
        ""
        if found.usd_per_hour is None
        else words("recommend.serving.per_hour", usd=usd_cents(found.usd_per_hour))
    )
    million = found.usd_per_million_tokens
    each = "" if million is None else words("recommend.serving.per_million", usd=usd_small(million))
    return hour, each


def told(found: Served, words: Words) -> str:
    """How a server is set and how fast it answers."""
    parts = [weights_text(found, words)]
    if found.tpot_s is not None:
        parts.append(words("recommend.serving.tpot", ms=f"{found.tpot_s * MS:.1f}"))
    parts.append(words("recommend.serving.at_once", n=f"{found.concurrency:.1f}"))
    return words.listed(parts)


def tree_line(found: Served | None, step: str, words: Words) -> Safe:
    """One branch of the articles' tree with what it comes to."""
    name = words(f"recommend.serving.tree.{step}")
    if found is None:
        return words.html("recommend.serving.tree.none", step=name)
    hour, each = figures(found, words)
    result = words.listed(part for part in (hour, each) if part) or DASH
    return words.html("recommend.serving.tree.found", step=name, cards=cards(found), result=result)


def reason_lines(rejected: Sequence[Rejected], words: Words) -> list[Safe]:
    """Why machines are out, but for memory: a line a reason."""
    groups: dict[Fails, list[Rejected]] = {}
    for one in rejected:
        if one.reason is not Fails.MEMORY:
            groups.setdefault(one.reason, []).append(one)
    return [_line(reason, group, words) for reason, group in groups.items()]


def _line(reason: Fails, group: Sequence[Rejected], words: Words) -> Safe:
    names = list(dict.fromkeys(card_name(one.machine.gpu.name) for one in group))
    issue = next((one.issue for one in group if one.issue is not None), None)
    params: dict[str, Any] = {} if issue is None else dict(issue.params)
    return words.html(
        f"recommend.reason.{reason.value}.line",
        offers=words.html("cost.reason.offers", text=words.count("cost.offers", len(group))),
        names=words.listed(names),
        given=str(params.get("given", DASH)),
    )


def short_rows(rejected: Sequence[Rejected]) -> list[list[str]]:
    """Cells of the nearest misses, each number of one card once."""
    seen: dict[tuple[str, int | None], Rejected] = {}
    for one in sorted((one for one in rejected if one.short_bytes), key=lambda one: one.short_bytes or 0):
        seen.setdefault((one.machine.gpu.id, one.devices), one)
    return [
        [name, Safe(f'<span class="bad">{gib1(one.short_bytes or 0)}</span>')]
        for name, one in zip(told_apart(list(seen.values())), seen.values(), strict=True)
    ]


def columns(found: Sequence[Served], words: Words) -> dict[str, list[Any]]:
    """Values of the table by column; None where a figure is not known."""
    records = [_record(one, words) for one in found]
    return {name: [record[name] for record in records] for name in COLUMNS}


def _record(one: Served, words: Words) -> dict[str, Any]:
    return {
        "usd_per_hour": one.usd_per_hour,
        "usd_per_million": one.usd_per_million_tokens,
        "tokens_per_s": one.tokens_per_s,
        "tpot": None if one.tpot_s is None else one.tpot_s * MS,
        "ttft": one.ttft_s,
        "concurrency": one.concurrency,
        "cards": one.devices,
        "gpu": card_name(one.machine.gpu.name),
        "weights": weights_text(one, words),
        "provider": one.machine.provider,
        "rent": rent_text(one, words),
        "peak": round(amount(one.peak_bytes), 2),
        "usable": round(amount(one.usable_bytes), 2),
        "region": one.machine.region,
        "date": one.machine.date or "",
    }
