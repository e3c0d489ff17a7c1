"""The constraints of the Recommend page, remembered while other pages are open."""

from collections.abc import Sequence
from typing import Any, Final

import streamlit as st

from planner.cost import tokens_of
from planner.plan_types import Plan
from planner.scenario import Scenario
from planner.search.types import MOST_CARDS, SAME_RESULT, SEQUENCES, TOKENS, Technique
from ui.answers import tables
from ui.catalog import gpu_labels
from ui.counts import exact_count, read_count
from ui.document import Document
from ui.recommend.ask import Ask, Kind, cards_of
from ui.recommend.serving import FORMATS, ServingAsk
from ui.words import Words

CARD_LIMITS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SERVER_LIMITS: Final = (1, 2, 4, 8, 16)
MOST_SERVER_CARDS: Final = 8
MOST_TOKENS: Final = 10**15
LONGEST_COUNT: Final = 24
MOST_SEQUENCES: Final = 1_000_000
MOST_OWNED: Final = 4096
OWNED_KINDS: Final = 6


def draw_serving_ask(document: Document, words: Words) -> ServingAsk:
    """The controls of a job that serves."""
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
        cards, providers, regions = _places(kind, document, words)
        tight = _tight(words)
    ask = Ask(
        kind=kind, providers=providers, regions=regions, cards=cards,
        most_cards=most or MOST_SERVER_CARDS, tight=tight,
    )  # fmt: skip
    st.session_state["rec_weights"] = list(weights)
    return ServingAsk(ask=ask, weights=tuple(weights))


def draw_ask(document: Document, plan: Plan, words: Words) -> Ask:
    """The controls, and what they ask for."""
    with st.container(key="filters", horizontal=True, vertical_alignment="top", gap="small"):
        kind = _kind(words)
        deadline = _number("deadline", words, low=0.01, step=1.0)
        budget = None if kind is Kind.OWN else _number("budget", words, low=1.0, step=100.0)
        most = st.selectbox(
            words("recommend.ask.most"),
            CARD_LIMITS,
            index=CARD_LIMITS.index(MOST_CARDS),
            key="rec_most",
            width=110,
            persist_state="session",
        )
        tokens = _tokens(plan.scenario, words)
        sequences = st.number_input(
            words("recommend.ask.sequences"),
            min_value=1,
            max_value=MOST_SEQUENCES,
            value=_sequences(plan.scenario),
            step=1,
            key=f"rec_sequences_{_sequences(plan.scenario)}",
            help=words("recommend.ask.sequences_help"),
            width=130,
            persist_state="session",
        )
    techniques = _techniques(words)
    with st.container(key="filters_more", horizontal=True, vertical_alignment="bottom", gap="small"):
        cards, providers, regions = _places(kind, document, words)
        tight = _tight(words)
    return Ask(
        kind=kind, providers=providers, regions=regions, cards=cards, techniques=techniques,
        most_cards=most or MOST_CARDS, deadline_days=deadline, budget_usd=budget, tokens=tokens,
        sequences=int(sequences or SEQUENCES), tight=tight,
    )  # fmt: skip


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
    kind: Kind, document: Document, words: Words
) -> tuple[tuple[tuple[str, int], ...], frozenset[str], frozenset[str]]:
    """Cards that are there; or providers and regions."""
    if kind is Kind.OWN:
        return _cards(document, words), frozenset(), frozenset()
    return (), _chosen("provider", words), _chosen("region", words)


def _tight(words: Words) -> bool:
    found = st.toggle(
        words("recommend.ask.tight"),
        key="rec_tight",
        help=words("recommend.ask.tight_help"),
        persist_state="session",
    )
    return bool(found)


def _number(name: str, words: Words, *, low: float, step: float) -> float | None:
    found: float | None = st.number_input(
        words(f"recommend.ask.{name}"),
        min_value=low,
        value=None,
        step=step,
        placeholder=words("recommend.ask.any"),
        key=f"rec_{name}",
        width=130,
        persist_state="session",
    )
    return found


def _tokens(scenario: Scenario, words: Words) -> float:
    """Training tokens: as typed (70 M, 1.5 B, 1000亿), the question's own, else a round number to start from."""
    told = tokens_of(scenario.workload) or TOKENS
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
        said = words.html("recommend.ask.tokens_wrong", given=typed, most=exact_count(MOST_TOKENS, words))
        st.html(f'<div class="msg bad" role="alert">{said}</div>', width="content")
    return float(told)


def _sequences(scenario: Scenario) -> int:
    """The question's own step where it is larger than the usual one."""
    training = scenario.training
    data = scenario.parallel.data or 1
    return max(SEQUENCES, training.micro_batch * training.gradient_accumulation * data)


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


def _cards(document: Document, words: Words) -> tuple[tuple[str, int], ...]:
    """Cards that are there: those of the open question to start with."""
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
    return tuple((gpu_id, _owned(gpu_id, own.get(gpu_id, 1), labels, words)) for gpu_id in chosen)


def _owned(gpu_id: str, count: int, labels: dict[str, Any], words: Words) -> int:
    found = st.number_input(
        words("recommend.ask.owned", gpu=labels.get(gpu_id, gpu_id)),
        min_value=1,
        max_value=MOST_OWNED,
        value=count,
        step=1,
        key=f"rec_owned_{gpu_id}",
        width=150,
        persist_state="session",
    )
    return int(found or count)
