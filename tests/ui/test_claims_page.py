"""The Claims page as Streamlit runs it: every topic, every claim in words, rules on every story."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from planner.claims import CLAIMS, Figure, Outcome
from planner.claims.own_plan import rules
from tests.ui.conftest import checked, headline, html
from ui.answers import answer, tables
from ui.claims.figures import number_text, off_text, value_text, working
from ui.claims.listing import TOPICS, _Prices, answered, claim_html, rule_table
from ui.document import put
from ui.examples import STORIES, default_document, story_document
from ui.words import Words, languages, words_for

if TYPE_CHECKING:
    from ui.document import Document


def _claims() -> None:
    from ui.pages import claims as page  # noqa: PLC0415

    page.draw()


def opened(tab: str = "own", document: Document | None = None) -> AppTest:
    page = AppTest.from_function(_claims, default_timeout=60)
    page.session_state["claims_tabs"] = words_for("en")(f"claims.tab.{tab}")
    if document is not None:
        page.session_state["scenario_document"] = document
    return checked(page.run())


@pytest.fixture
def words() -> Words:
    return words_for("en")


def test_it_opens_with_the_rules_of_thumb_on_the_open_plan() -> None:
    page = opened()
    assert headline(page).startswith(f"Of {len(CLAIMS)} claims that people repeat, ")
    text = html(page)
    assert "Activations are a tenth of the weights" in text
    assert "Plan to four fifths of the card" in text


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_lists_its_claims(topic: str) -> None:
    text = html(opened(topic))
    for name in TOPICS[topic]:
        assert words_for("en").html(f"claims.{name}.claim") in text
    assert "{" not in re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)


def test_every_claim_has_its_place() -> None:
    assert sorted(name for names in TOPICS.values() for name in names) == sorted(CLAIMS)


@pytest.mark.parametrize("language", languages())
def test_every_claim_and_figure_has_its_words(language: str) -> None:
    words = words_for(language)
    for name in CLAIMS:
        claim = answered(name)
        assert claim_html(name, words)
        assert [
            figure.name
            for figure in claim.figures
            if not figure.detail and not words.has(f"claims.{name}.figure.{figure.name}")
        ] == []
    assert all(words.has(f"claims.outcome.{outcome.value}") for outcome in Outcome)


@pytest.mark.parametrize("story", STORIES)
def test_every_rule_of_every_story_has_its_words(story: str, words: Words) -> None:
    made = answer(story_document(story)).plan
    assert made is not None
    found = rules(made, tables())
    assert len(found) >= 3
    assert [rule.figure.name for rule in found if not words.has(f"claims.rule.{rule.figure.name}")] == []


def test_the_rules_follow_the_plan() -> None:
    before, after = (
        html(opened(document=document))
        for document in (default_document(), put(default_document(), "training.micro_batch", 4))
    )
    assert "b = 1" in before
    assert "b = 4" in after


def test_a_question_with_errors_keeps_the_claims() -> None:
    page = opened("bytes", put(default_document(), "model", {}))
    assert "Optimizer states of 7B" in html(page)


def test_fetched_prices_stand_for_the_tables_of_the_same_machine() -> None:
    own = {figure.name: figure.found for figure in answered("g21").figures}
    old = next(offer for offer in tables().offers if offer.instance_type == "p4d.24xlarge")
    fetched = _Prices(("2026-11-30T00:00:00", (replace(old, usd_per_hour=99.0, price_kind="on_demand"),)))
    new = {figure.name: figure.found for figure in answered("g21", fetched).figures}
    assert new["hourly_aws"] == 99
    assert own["hourly_aws"] < 99
    assert new["hourly_gcp"] == own["hourly_gcp"]
    assert "$99.00" in claim_html("g21", words_for("en"), fetched)


def test_a_refused_job_is_told_with_its_reason() -> None:
    assert "is 16; there are 8 cards" in html(opened("training"))


@pytest.mark.parametrize(
    ("figure", "said", "off"),
    [
        (Figure(name="x", said=48e9, found=5.4e9, unit="bytes"), "48.0 GB", "×8.9 too high"),
        (Figure(name="x", said=0.875, found=0.75, unit="frac"), "87.5\u00a0%", "12.5 points too high"),
        (Figure(name="x", said=100.0, found=100.2, unit="number"), "100", "the same"),
        (Figure(name="x", said=1.0, found=0.0, unit="flags"), "yes", "–"),
        (Figure(name="x", said=9.0, found=10.0, unit="s"), "9 s", "10\u00a0% too low"),
        (Figure(name="x", said=0.0, found=115_605_504, unit="bytes"), "0.0 GB", "–"),
    ],
)
def test_how_far_off(figure: Figure, said: str, off: str, words: Words) -> None:
    assert value_text(figure.said or 0.0, figure, words) == said
    assert off_text(figure, words) == off


def test_small_numbers_are_powers_of_ten() -> None:
    assert number_text(6.1035e-5) == "6.10\u00a0×\u00a010⁻⁵"
    assert number_text(12.5) == "12.5"


def test_what_counts_as_activations_is_said_in_the_working() -> None:
    said = words_for("en")("claims.counts.activations")
    by_name = {figure.name: working(figure, words_for("en")) for figure in answered("g6").figures}
    assert said in by_name["flash_doubled"]
    assert said not in by_name["eager_scores_doubled"]


def test_every_symbol_of_a_rule_on_the_open_plan_is_explained() -> None:
    for story in STORIES:
        plan = answer(story_document(story)).plan
        assert plan is not None
        shown = rule_table(rules(plan, tables()), words_for("en"))
        symbols = sum(len(rule.figure.symbols) for rule in rules(plan, tables()))
        assert shown.count("<abbr title=") == symbols > 0
