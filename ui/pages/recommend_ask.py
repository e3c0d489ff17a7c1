"""The constraints of the Recommend page, remembered while other pages are open."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import streamlit as st

from planner.cost import tokens_of
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.search.step import step_sequences
from planner.search.types import MOST_CARDS, SAME_RESULT, SEQUENCES, TOKENS, Technique
from ui import parts
from ui.answers import tables
from ui.catalog import gpu_labels
from ui.counts import exact_count, read_count
from ui.document import Document
from ui.numbers import as_typed, whole
from ui.recommend.ask import Ask, Kind, cards_of
from ui.recommend.serving import FORMATS, ServingAsk
from ui.whole import FORMAT, is_whole
from ui.words import Safe, Words

Asked = TypeVar("Asked")
CARD_LIMITS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SERVER_LIMITS: Final = (1, 2, 4, 8, 16)
MOST_SERVER_CARDS: Final = 8
MOST_TOKENS: Final = 10**15
LONGEST_COUNT: Final = 24
MOST_SEQUENCES: Final = 1_000_000
MOST_OWNED: Final = 4096
OWNED_KINDS: Final = 6


FEWEST_DAYS: Final = 0.01
LEAST_USD: Final = 1.0
_LAST: Final = "rec_last_ask"
_LAST_SERVING: Final = "rec_last_serving_ask"


@dataclass(frozen=True, slots=True)
class Checks:
    """What is wrong with the numbers of the form, as far as it is drawn.

    Attributes:
        words: The words of the user's language.
        wrong: A sentence each: field, what was given, what is allowed.
    """

    words: Words
    wrong: list[Safe] = field(default_factory=list)

    def number(self, label: str, given: float | None, low: float, high: float | None = None) -> None:
        """A number that has to lie between two ends; an empty field is never wrong."""
        if given is None or (given >= low and (high is None or given <= high)):
            return
        ends = {"low": f"{low:,g}", "high": "" if high is None else whole(round(high))}
        allowed = self.words(f"recommend.ask.{'from' if high is None else 'between'}", **ends)
        self.wrong.append(
            self.words.html("recommend.ask.wrong", field=label, given=as_typed(given), allowed=allowed)
        )

    def whole(self, label: str, given: float | None, low: int, high: int) -> None:
        """A count that has to lie between two ends and be whole."""
        if given is None or is_whole(given):
            self.number(label, given, low, high)
            return
        allowed = self.words("recommend.ask.whole", low=whole(low), high=whole(high))
        self.wrong.append(
            self.words.html("recommend.ask.wrong", field=label, given=as_typed(given), allowed=allowed)
        )

    def kept(self, key: str, ask: Asked) -> Asked:
        """The form's question; the newest one without a wrong number where it has any, which is said below it."""
        if not self.wrong:
            st.session_state[key] = ask
            return ask
        head = f'<span role="alert">{self.words.html("stale.note")}</span>'
        st.html(parts.note("bad", Safe(f"{head}{parts.bullets(self.wrong)}")))
        last: Asked = st.session_state.get(key, ask)
        return last


def draw_serving_ask(document: Document, words: Words) -> tuple[ServingAsk, bool]:
    """The controls of a job that serves; the question they ask, and whether it is an earlier one."""
    checks = Checks(words)
    with st.container(key="filters", horizontal=True, vertical_alignment="top", gap="small"):
        kind = _kind(words)
        most = st.selectbox(
            words("recommend.ask.most"),
            SERVER_LIMITS,
            index=SERVER_LIMITS.index(MOST_SERVER_CARDS),
            key="rec_server_most",
            width=110,
            persist_state="session",
        )
        weights = st.multiselect(
            words("recommend.ask.weights"),
            FORMATS,
            placeholder=words("recommend.ask.weights_none"),
            format_func=lambda name: words(f"format.{name}"),
            key=_own_key("rec_weights", (), words),
            help=words("recommend.ask.weights_help"),
            width=330,
            persist_state="session",
        )
    with st.container(key="filters_more", horizontal=True, vertical_alignment="bottom", gap="small"):
        cards, providers, regions = _places(kind, document, checks)
        tight = _tight(words)
    ask = Ask(
        kind=kind, providers=providers, regions=regions, cards=cards,
        most_cards=most or MOST_SERVER_CARDS, tight=tight,
    )  # fmt: skip
    st.session_state["rec_weights"] = list(weights)
    asked = checks.kept(_LAST_SERVING, ServingAsk(ask=ask, weights=tuple(weights)))
    return asked, bool(checks.wrong)


def draw_ask(document: Document, plan: Plan, words: Words) -> tuple[Ask, bool]:
    """The controls; the question they ask, and whether it is an earlier one."""
    checks = Checks(words)
    with st.container(key="filters", horizontal=True, vertical_alignment="top", gap="small"):
        kind = _kind(words)
        deadline = _number("deadline", checks, low=FEWEST_DAYS, step=1.0)
        budget = None if kind is Kind.OWN else _number("budget", checks, low=LEAST_USD, step=100.0)
        most = st.selectbox(
            words("recommend.ask.most"),
            CARD_LIMITS,
            index=CARD_LIMITS.index(MOST_CARDS),
            key="rec_most",
            width=110,
            persist_state="session",
        )
        tokens = _tokens(plan.scenario, checks)
        sequences = _sequences(plan.scenario, checks)
    techniques = _techniques(words)
    with st.container(key="filters_more", horizontal=True, vertical_alignment="bottom", gap="small"):
        cards, providers, regions = _places(kind, document, checks)
        tight = _tight(words)
    ask = Ask(
        kind=kind, providers=providers, regions=regions, cards=cards, techniques=techniques,
        most_cards=most or MOST_CARDS, deadline_days=deadline, budget_usd=budget, tokens=tokens,
        sequences=sequences, tight=tight,
    )  # fmt: skip
    return checks.kept(_LAST, ask), bool(checks.wrong)


def _usable(given: float | None, default: int, most: int) -> int:
    """A whole number from 1 up to the most; the default for any other."""
    return int(given) if given is not None and is_whole(given) and 1 <= given <= most else default


def _kind(words: Words) -> Kind:
    return Kind(
        st.segmented_control(
            words("recommend.ask.kind"),
            [kind.value for kind in Kind],
            format_func=lambda kind: words(f"recommend.kind.{kind}"),
            default=Kind.ON_DEMAND.value,
            required=True,
            key="rec_kind",
            persist_state="session",
        )
        or Kind.ON_DEMAND
    )


def _places(
    kind: Kind, document: Document, checks: Checks
) -> tuple[tuple[tuple[str, int], ...], frozenset[str], frozenset[str]]:
    """Cards that are there; or providers and regions."""
    if kind is Kind.OWN:
        return _cards(document, checks), frozenset(), frozenset()
    return (), _chosen("provider", checks.words), _chosen("region", checks.words)


def _tight(words: Words) -> bool:
    found = st.toggle(
        words("recommend.ask.tight"),
        key="rec_tight",
        help=words("recommend.ask.tight_help"),
        persist_state="session",
    )
    return bool(found)


def _number(name: str, checks: Checks, *, low: float, step: float) -> float | None:
    words = checks.words
    found: float | None = st.number_input(
        words(f"recommend.ask.{name}"),
        value=None,
        step=step,
        placeholder=words("recommend.ask.any"),
        key=f"rec_{name}",
        width=130,
        persist_state="session",
    )
    checks.number(words(f"recommend.ask.{name}"), found, low)
    return found if found is not None and found >= low else None


def _tokens(scenario: Scenario, checks: Checks) -> float:
    """Training tokens: as typed (70 M, 1.5 B, 1000亿), the question's own, else a round number to start from."""
    told, words = tokens_of(scenario.workload) or TOKENS, checks.words
    typed = st.text_input(
        words("recommend.ask.tokens"),
        value=exact_count(int(told), words),
        max_chars=LONGEST_COUNT,
        key=f"rec_tokens_{told:g}",
        help=words("recommend.ask.tokens_help"),
        width=150,
        persist_state="session",
    )
    found = read_count(typed or "")
    if found is not None and 0 < found <= MOST_TOKENS:
        return float(found)
    if typed:
        most = exact_count(MOST_TOKENS, words)
        checks.wrong.append(words.html("recommend.ask.tokens_wrong", given=typed, most=most))
    return float(told)


def _sequences(scenario: Scenario, checks: Checks) -> int:
    """Of an optimizer step: the question's own, else a usual number, which the field's name says is assumed."""
    own, words = step_sequences(scenario), checks.words
    start = min(own or SEQUENCES, MOST_SEQUENCES)
    found = st.number_input(
        words("recommend.ask.sequences" if own else "recommend.ask.sequences_assumed"),
        value=float(start),
        step=1.0,
        format=FORMAT,
        key=f"rec_sequences_{start}{'' if own else '_assumed'}",
        help=words("recommend.ask.sequences_help", n=whole(SEQUENCES)),
        width=130,
        persist_state="session",
    )
    checks.whole(words("recommend.ask.sequences"), found, 1, MOST_SEQUENCES)
    return _usable(found, start, MOST_SEQUENCES)


def _own_key(name: str, start: Sequence[str], words: Words) -> str:
    """The key of a list whose options have words: one for each language, as the browser keeps what it shows.

    What is chosen stays under `name`, from which a language that is new takes it; `start` is what there is at first.
    """
    key, spoken = f"{name}_{words.language}", f"{name}_language"
    if st.session_state.get(spoken) != words.language:
        st.session_state[spoken] = words.language
        st.session_state[key] = list(st.session_state.get(name, start))
    return key


def _techniques(words: Words) -> frozenset[Technique]:
    start = [technique.value for technique in Technique if technique in SAME_RESULT]
    chosen = st.multiselect(
        words("recommend.ask.techniques"),
        [technique.value for technique in Technique],
        format_func=lambda name: words(f"recommend.technique.{name}"),
        key=_own_key("rec_techniques", start, words),
        help=words("recommend.ask.techniques_help"),
        persist_state="session",
    )
    st.session_state["rec_techniques"] = list(chosen)
    return frozenset(Technique(name) for name in chosen)


def _chosen(field: str, words: Words) -> frozenset[str]:
    known = sorted({getattr(offer, field) for offer in tables().offers}, key=str.lower)
    chosen = st.multiselect(
        words(f"recommend.ask.{field}"),
        known,
        placeholder=words("recommend.ask.any"),
        key=f"rec_{field}",
        width=230,
        persist_state="session",
    )
    return frozenset(chosen)


def _cards(document: Document, checks: Checks) -> tuple[tuple[str, int], ...]:
    """Cards that are there: those of the open question to start with."""
    words = checks.words
    own, labels = dict(cards_of(document)), gpu_labels()
    chosen: list[str] = st.multiselect(
        words("recommend.ask.cards"),
        list(labels),
        default=list(own)[:OWNED_KINDS],
        format_func=lambda gpu_id: labels.get(gpu_id, gpu_id),
        max_selections=OWNED_KINDS,
        key="rec_cards",
        width=300,
        persist_state="session",
    )
    return tuple((gpu_id, _owned(gpu_id, own.get(gpu_id, 1), labels, checks)) for gpu_id in chosen)


def _owned(gpu_id: str, count: int, labels: dict[str, Any], checks: Checks) -> int:
    label = checks.words("recommend.ask.owned", gpu=labels.get(gpu_id, gpu_id))
    found = st.number_input(
        label,
        value=float(count),
        step=1.0,
        format=FORMAT,
        key=f"rec_owned_{gpu_id}",
        width=150,
        persist_state="session",
    )
    checks.whole(label, found, 1, MOST_OWNED)
    return _usable(found, count, MOST_OWNED)
