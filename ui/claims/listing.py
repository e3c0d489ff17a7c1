"""Claims by topic, each with its tag, what is right, and its figures in a table."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

from planner.claims import CLAIMS, Claim, Outcome
from planner.claims.own_plan import Rule, rules
from planner.plan_types import Plan
from planner.prices import Offer
from ui import parts
from ui.answers import tables
from ui.claims.figures import found_html, off_text, value_text, working
from ui.cost.refreshed import refreshed
from ui.issue_words import issue_text
from ui.numbers import DASH
from ui.words import Safe, Words, escaped

TOPICS: Final[dict[str, tuple[str, ...]]] = {
    "bytes": ("g1", "g2", "g3", "g4", "g14", "g24", "g25"),
    "training": ("g5", "g6", "g7", "g9", "g9_time", "g10", "g12", "g13", "g20", "g22", "g23", "g27", "g36"),
    "serving": ("g8", "g11", "g32", "g35", "f1"),
    "formats": ("g15", "g16", "g17", "g26", "g28", "g29", "g30", "g31"),
    "money": ("g18", "g19", "g21", "g33", "g34", "e1", "e2", "e3", "e4", "e5", "e6"),
}
REMEMBERED: Final = 200


class _Prices(tuple[str, tuple[Offer, ...]]):
    """When prices were fetched, and the prices; told apart by when, since there are thousands of them."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Prices) and self[0] == other[0]


Prices = _Prices | None
TONES: Final = {
    Outcome.RIGHT: ("ok", "✓"),
    Outcome.WRONG: ("bad", "✕"),
    Outcome.DEPENDS: ("tight", "!"),
}


@lru_cache(maxsize=REMEMBERED)
def answered(name: str, fetched: Prices = None) -> Claim:
    """A claim worked out; it depends on the tables alone.

    Args:
        name: Which.
        fetched: When prices were fetched on request, and those; they stand for the table's of the same machine.
    """
    own = tables()
    if fetched is None:
        return CLAIMS[name](own)
    newer = {(offer.provider, offer.instance_type) for offer in fetched[1]}
    kept = (offer for offer in own.offers if (offer.provider, offer.instance_type) not in newer)
    return CLAIMS[name](replace(own, offers=(*kept, *fetched[1])))


def fetched_prices() -> Prices:
    """What the Cost page fetched, None where nothing was."""
    found = refreshed()
    return None if found is None else _Prices((found.made_at, found.offers))


def counts(fetched: Prices = None) -> dict[Outcome, int]:
    """How many claims came out how."""
    found = [answered(name, fetched).outcome for name in CLAIMS]
    return {outcome: found.count(outcome) for outcome in Outcome}


def plan_rules(plan: Plan) -> tuple[Rule, ...]:
    """The rules of thumb on the open plan."""
    return rules(plan, tables())


def claim_html(name: str, words: Words, fetched: Prices = None) -> Safe:
    """One claim."""
    claim = answered(name, fetched)
    kind, icon = TONES[claim.outcome]
    tag = f'<span class="tag {kind}">{icon}&ensp;{words.html(f"claims.outcome.{claim.outcome.value}")}</span>'
    figures = {figure.name: value_text(figure.found, figure, words) for figure in claim.figures}
    said = words.html(f"claims.{name}.claim")
    answer = words.html(f"claims.{name}.answer", **figures)
    lines = [answer, *(words.html("claims.refused", why=issue_text(issue, words)) for issue in claim.issues)]
    return Safe(
        f'<div class="claim"><h2><span class="m">{row_name(name)}</span>&ensp;{said}</h2>'
        f'<p class="why">{tag}&ensp;{words.sentences(lines)}</p></div>{figure_table(claim, words)}'
    )


def row_name(name: str) -> str:
    """The row of the founding articles, as `G9`."""
    return name.partition("_")[0].upper()


def figure_table(claim: Claim, words: Words) -> Safe:
    """The numbers of a claim."""
    head = [words(f"claims.head.{key}") for key in ("figure", "said", "found", "off", "working")]
    rows = [
        [
            figure.detail or words(f"claims.{claim.id}.figure.{figure.name}"),
            DASH if figure.said is None else value_text(figure.said, figure, words),
            found_html(figure, words),
            off_text(figure, words),
            working(figure, words),
        ]
        for figure in claim.figures
    ]
    return parts.table(head, rows, name=words(f"claims.{claim.id}.claim"), wide=(0, 4), stacked=True)


def rule_table(found: tuple[Rule, ...], words: Words) -> Safe:
    """The rules of thumb on the open plan."""
    head = [words(f"claims.head.{key}") for key in ("rule", "says", "found", "off", "working")]
    rows = [
        [
            words(f"claims.rule.{rule.figure.name}"),
            DASH if rule.figure.said is None else value_text(rule.figure.said, rule.figure, words),
            Safe(f"<b>{escaped(value_text(rule.figure.found, rule.figure, words))}</b>"),
            off_text(rule.figure, words),
            working(rule.figure, words, lambda symbol: words(f"claims.rule_symbol.{symbol}")),
        ]
        for rule in found
    ]
    return parts.table(head, rows, name=words("claims.tab.own"), wide=(0, 4), stacked=True)


def furthest(found: tuple[Rule, ...]) -> Rule | None:
    """The rule that is furthest off, by how many times."""

    def times(rule: Rule) -> float:
        said, real = abs(rule.figure.said or 0.0), abs(rule.figure.found)
        return max(said / real, real / said) if said and real else 0.0

    return max(found, key=times, default=None)
