"""The sentences of the Recommend page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from planner.cost import ASSUMED_SPOT
from planner.prices import Offer
from planner.search.types import (
    Choice,
    Counts,
    Fails,
    Found,
    Limits,
    Other,
    Rejected,
    SearchResult,
    TreeAnswer,
)
from planner.throughput.types import Unknown
from ui.cost.money import cards_text, day, usd, usd_cents
from ui.cost.wording import duration
from ui.names import card_name
from ui.numbers import DASH, gib1, signed, whole
from ui.recommend.ask import Ask, Kind, Reply
from ui.recommend.misses import nearest_miss, rejected_cards, told_apart
from ui.words import Safe, Words, escaped

Cell = tuple[str, str, str]
MOST_NAMES: Final = 4
WHOLE_FROM_FRAC: Final = 0.1
SETTINGS: Final = (
    *("framework", "method", "states", "compute", "optimizer", "sharding", "tensor", "pipeline", "context"),
    *("checkpointing", "offload", "micro_batch", "accumulation"),
)
"""Dimensions of a plan in the order they are told; `data` stands with the sharding."""
GROUPS: Final[Mapping[str, str]] = {
    "compute": "format",
    "framework": "runtime", "optimizer": "optimizer", "sharding": "sharding", "checkpointing": "checkpointing",
}  # fmt: skip
"""Groups of words that name the options of a dimension elsewhere."""
PLAIN: Final = {"states": "own", "compute": "own", "checkpointing": "none", "offload": "none"}


def settings_text(choice: Choice, words: Words) -> str:
    """A plan's settings; what is as the question has it, and what goes without saying, is left out."""
    given = choice.settings
    told = [name for name in SETTINGS if name in given and name not in choice.unchanged]
    parts = [_setting(name, given, words) for name in told]
    return words.listed(part for part in parts if part)


def _setting(name: str, given: Mapping[str, str | int], words: Words) -> str:
    value = given[name]
    if name == "sharding":
        return _sharding(str(value), int(given.get("data", 1)), words)
    if value == PLAIN.get(name) or (value == 1 and name != "micro_batch"):
        return ""
    if name in ("tensor", "pipeline", "context"):
        return words(f"parallel.short.{name}", n=whole(int(value)))
    return words(f"recommend.setting.{name}", value=value_text(name, value, words))


def _sharding(way: str, data: int, words: Words) -> str:
    if way == "none":
        return "" if data == 1 else words("recommend.setting.copies", n=whole(data))
    return words("recommend.setting.sharding", value=words(f"sharding.{way}"), n=whole(data))


def value_text(name: str, value: str | int, words: Words) -> str:
    """One value of a dimension by its name."""
    if isinstance(value, int):
        return whole(value)
    if name == "method":
        task, _, packed = value.partition(" ")
        label = words(f"task.{task}.short")
        return (
            words("recommend.setting.packed", task=label, format=words(f"format.{packed}"))
            if packed
            else label
        )
    key = f"{GROUPS.get(name, f'recommend.value.{name}')}.{value}"
    return words(key) if words.has(key) else value


def cards(found: Found) -> str:
    """The cards a plan runs on."""
    return cards_text(found.devices, found.machine.gpu)


def headline(result: SearchResult, words: Words) -> str:
    """The answer in a sentence."""
    best = result.best
    if best is not None and best.days is not None:
        time = duration(best.days, words)
        if best.usd is not None:
            return words("recommend.head.cheapest", usd=usd(best.usd), cards=cards(best), time=time)
        return words("recommend.head.fastest", cards=cards(best), time=time)
    if result.over is not None:
        return _over_text(result.over, result.limits, words)
    if result.unknown:
        return words("recommend.head.unknown", cards=cards(result.unknown[0]))
    nearest = nearest_miss(result.rejected)
    if nearest is None:
        return words("recommend.head.nothing")
    return words("recommend.head.memory", cards=rejected_cards(nearest), gib=gib1(nearest.short_bytes or 0))


def _over_text(over: Rejected, limits: Limits, words: Words) -> str:
    """No plan keeps to a limit, and what comes nearest."""
    days, budget, on = limits.deadline_days, limits.budget_usd or 0.0, rejected_cards(over)
    if over.reason is Fails.DEADLINE:
        limit = DASH if days is None else duration(days, words)
        return words("recommend.head.deadline", limit=limit, value=_value(over, words), cards=on)
    money = usd_cents if usd(budget) == usd(over.value or 0.0) else usd
    told = {"limit": money(budget), "value": money(over.value or 0.0), "cards": on}
    if days is None:
        return words("recommend.head.budget", **told)
    return words("recommend.head.budget_deadline", time=duration(days, words), **told)


def _value(one: Rejected, words: Words) -> str:
    if one.value is None:
        return DASH
    return duration(one.value, words) if one.reason is Fails.DEADLINE else usd(one.value)


def tag(result: SearchResult, words: Words) -> Safe:
    """Whether there is a plan, as a coloured tag."""
    unknown = () if result.over is not None else result.unknown
    tone, icon = ("ok", "✓") if result.best else ("unknown", "?") if unknown else ("bad", "✕")
    number = len({id(one.machine) for one in (*result.found, *unknown)})
    text = words.count("recommend.tag.found", number) if number else words("recommend.tag.none")
    return Safe(f'<span class="tag {tone}">{icon}&ensp;{escaped(text)}</span>')


def why(reply: Reply, ask: Ask, words: Words) -> Safe:
    """Where the best plan is, how it is set, its band, and what the articles' tree would cost."""
    result = reply.result
    best = result.best
    if best is None and result.over is not None and result.unknown:
        return words.sentences(
            [words.count("recommend.why.apart", len(result.unknown)), words.html("recommend.why.nothing")]
        )
    if best is None:
        return words.html("recommend.why.unknown" if result.unknown else "recommend.why.nothing")
    return words.sentences(
        filter(
            None,
            [_where(best, ask, words), _band(best, words), _spot(ask, words), _against_tree(result, words)],
        )
    )


def _where(best: Found, ask: Ask, words: Words) -> str:
    settings = settings_text(best.choice, words)
    if ask.kind is Kind.OWN or best.machine.date is None:
        return words.html("recommend.why.own", settings=settings)
    return words.html(
        "recommend.why.where",
        rent=rent_text(best, words),
        where=best.machine.provider,
        date=day(best.machine.date, words),
        settings=settings,
    )


def rent_text(found: Found, words: Words) -> str:
    """What is rented."""
    if found.machine.per_card:
        return words.count("recommend.rent.card", found.count)
    return words("recommend.rent.machine", n=whole(found.count), name=found.machine.name)


def _band(found: Found, words: Words) -> str:
    cost, band = found.cost, found.band
    if cost is None or band is None or cost.low_days is None or cost.high_days is None:
        return words.html("recommend.why.no_band")
    if cost.low_usd is None or cost.high_usd is None:
        return words.html(
            "recommend.why.band_time", n=whole(band.n_rows),
            fast=duration(cost.low_days, words), slow=duration(cost.high_days, words),
        )  # fmt: skip
    return words.html(
        "recommend.why.band", n=whole(band.n_rows), low=usd(cost.low_usd), high=usd(cost.high_usd),
        fast=duration(cost.low_days, words), slow=duration(cost.high_days, words),
    )  # fmt: skip


def _spot(ask: Ask, words: Words) -> str:
    if ask.kind not in (Kind.SPOT, Kind.MARKETPLACE):
        return ""
    spot = ASSUMED_SPOT
    minutes = (spot.checkpoint_interval_s / 2 + spot.restart_s) / 60
    return words.html("cost.run.spot", n=f"{spot.interruptions_per_day:g}", minutes=whole(round(minutes)))


def _against_tree(result: SearchResult, words: Words) -> str:
    tree, best = result.tree, result.best
    if tree is None or best is None:
        return ""
    if tree.found is None:
        return words.html("recommend.why.tree_none")
    if best.usd and tree.found.usd:
        more = _with(change_text(tree.found.usd / best.usd - 1), tree, words)
        return words.html("recommend.why.tree_usd", usd=usd(tree.found.usd), more=more)
    if best.days and tree.found.days:
        more = _with(change_text(tree.found.days / best.days - 1), tree, words)
        return words.html("recommend.why.tree_time", time=duration(tree.found.days, words), more=more)
    return ""


def _with(text: str, tree: TreeAnswer, words: Words) -> str:
    """A text about the tree's plan, which names the framework that the search may not turn to."""
    if tree.framework is None:
        return text
    return words("recommend.tree.with", text=text, framework=value_text("framework", tree.framework, words))


def change_text(frac: float) -> str:
    """A change as a percentage with its sign; tenths below one."""
    return f"{signed(frac * 100, 0 if abs(frac) >= WHOLE_FROM_FRAC else 1)}\u00a0%"


def strip(reply: Reply, words: Words) -> list[Cell]:
    """Up to five figures."""
    result = reply.result
    cells = []
    named = (("cheapest", result.cheapest), ("fastest", result.fastest), ("fewest", result.fewest))
    for name, found in named:
        if found is not None:
            cells.append((words(f"recommend.strip.{name}"), *_figure(name, found, words)))
    tree = result.tree
    if tree is not None:
        label = words("recommend.strip.tree")
        if tree.found is None:
            cells.append((label, DASH, words("recommend.tree.step.nothing")))
        else:
            value = usd(tree.found.usd) if tree.found.usd is not None else _time(tree.found, words)
            cells.append((label, value, _with(words(f"recommend.tree.step.{tree.step}"), tree, words)))
    counts = result.counts
    below = words("recommend.strip.ledgers", n=whole(counts.ledgers))
    cells.append((words("recommend.strip.plans"), whole(counts.offer_plans), below))
    return cells


def _figure(name: str, found: Found, words: Words) -> tuple[str, str]:
    if name == "fewest":
        return words.html(
            "cost.strip.cards", n=whole(found.devices), card=card_name(found.machine.gpu.name)
        ), _money_time(found, words)
    if name == "fastest":
        return _time(found, words), _below(cards(found), found, words)
    return usd(found.usd or 0.0), words.listed([cards(found), _time(found, words)])


def _below(first: str, found: Found, words: Words) -> str:
    return first if found.usd is None else words.listed([first, usd(found.usd)])


def _time(found: Found, words: Words) -> str:
    return DASH if found.days is None else duration(found.days, words)


def _money_time(found: Found, words: Words) -> str:
    return words.listed(([] if found.usd is None else [usd(found.usd)]) + [_time(found, words)])


def other_rows(others: Iterable[Other], words: Words) -> list[list[str]]:
    """Cells of the table of alternatives on the best plan's machines: what, how it is set then, what comes of it."""
    return [
        [
            words(f"recommend.dimension.{other.dimension}"),
            value_text(other.dimension, other.value, words),
            other_result(other, words),
        ]
        for other in others
    ]


def other_result(other: Other, words: Words) -> Safe:
    """Slower by a share, short by an amount, or why not at all."""
    if other.slower_frac is not None:
        return words.html("recommend.other.slower", more=change_text(other.slower_frac))
    if other.short_bytes:
        return Safe(
            f'<span class="bad">{words.html("recommend.other.short", gib=gib1(other.short_bytes))}</span>'
        )
    return Safe(
        f'<span class="m">{words.html(f"recommend.reason.{(other.reason or Fails.LAYOUT).value}.short")}</span>'
    )


def short_rows(rejected: Sequence[Rejected], words: Words) -> list[list[str]]:
    """Cells of the nearest misses: each number of one card once, the least short first."""
    seen: dict[tuple[str, int | None], Rejected] = {}
    for one in sorted((one for one in rejected if one.short_bytes), key=lambda one: one.short_bytes or 0):
        seen.setdefault((one.machine.gpu.id, one.devices), one)
    return [
        [
            name,
            Safe(f'<span class="bad">{gib1(one.short_bytes or 0)}</span>'),
            "" if one.nearest is None else settings_text(one.nearest, words),
        ]
        for name, one in zip(told_apart(list(seen.values())), seen.values(), strict=True)
    ]


def limit_lines(reply: Reply, words: Words) -> list[Safe]:
    """Why other machines are out: a line for each reason but memory."""
    rejected: dict[Fails, list[Rejected]] = {}
    for one in reply.result.rejected:
        if one.reason is not Fails.MEMORY:
            rejected.setdefault(one.reason, []).append(one)
    lines = [_rejected_line(reason, group, words) for reason, group in rejected.items()]
    return [*lines, *(_left_line(reason, group, words) for reason, group in reply.left)]


def _rejected_line(reason: Fails, group: Sequence[Rejected], words: Words) -> Safe:
    names = _names([card_name(one.machine.gpu.name) for one in group], words)
    least = min((one for one in group if one.value is not None), key=lambda one: one.value or 0, default=None)
    issue = next((one.issue for one in group if one.issue is not None), None)
    params = {} if issue is None else dict(issue.params)
    return words.html(
        f"recommend.reason.{reason.value}.line",
        offers=words.html("cost.reason.offers", text=words.count("cost.offers", len(group))),
        names=names,
        value=DASH if least is None else _value(least, words),
        cards="" if least is None else rejected_cards(least),
        given=str(params.get("given", DASH)),
    )


def _left_line(reason: Fails, group: Sequence[Offer], words: Words) -> Safe:
    return words.html(
        f"recommend.reason.{reason.value}.line",
        offers=words.html("cost.reason.offers", text=words.count("cost.offers", len(group))),
        names=_names([card_name(offer.gpu_name) for offer in group], words),
    )


def _names(names: Sequence[str], words: Words) -> str:
    unique = list(dict.fromkeys(names))
    listed = words.listed(unique[:MOST_NAMES])
    if len(unique) > MOST_NAMES:
        return words("cost.reason.more", names=listed, n=whole(len(unique) - MOST_NAMES))
    return listed


def unknown_text(missing: Sequence[Unknown], words: Words) -> str:
    """What the tables lack, in a sentence."""
    if not missing:
        return DASH
    first = missing[0]
    params = {**dict(first.params), "gpu": first.gpu_id}
    return words(f"speed.unknown.{first.code}", **params)


def tree_lines(result: SearchResult, words: Words) -> Safe:
    """The tree's answer beside the best found."""
    tree, best = result.tree, result.best
    if tree is None:
        return Safe("")
    if tree.found is None:
        return words.html("recommend.tree.none")
    told = [
        words.html(
            "recommend.tree.found",
            step=words(f"recommend.tree.step.{tree.step}"),
            cards=cards(tree.found),
            where=tree.found.machine.provider or tree.found.machine.name,
            result=_money_time(tree.found, words),
        )
    ]
    if tree.framework is not None:
        name = value_text("framework", tree.framework, words)
        told.append(words.html("recommend.tree.framework", framework=name))
    if best is not None:
        told.append(
            words.html(
                "recommend.tree.best",
                cards=cards(best),
                result=_money_time(best, words),
                settings=settings_text(best.choice, words),
            )
        )
    return words.sentences(told)


def foot(reply: Reply, ask: Ask, words: Words) -> Safe:
    """What was looked at, within which limits, and what is left out."""
    counts: Counts = reply.result.counts
    parts = [
        words.html(
            "recommend.foot.counts", plans=whole(counts.plans), machines=whole(counts.machines),
            offers=whole(counts.offers), ledgers=whole(counts.ledgers),
        ),
        words.html("recommend.foot.space", most=whole(ask.most_cards), sequences=whole(ask.sequences)),
        words.html("recommend.foot.machines"),
        words.html("cost.foot.left_out"),
    ]  # fmt: skip
    if ask.kind is not Kind.OWN:
        parts.append(words.html("cost.foot.kinds"))
    return words.sentences(parts)
