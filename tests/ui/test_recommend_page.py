"""The Recommend page as Streamlit runs it, its figure, its list and its sentences."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from planner.plan_types import Verdict
from planner.scenario import to_document
from planner.search.types import Fails, Machine, Rejected, Technique
from tests.ui.conftest import charts, checked, headline, html
from ui import answers
from ui.answers import answer
from ui.charts.cost_time import alternative, cost_time
from ui.cost.wording import duration
from ui.document import put_all
from ui.recommend import ask as ask_module
from ui.recommend import listing, serving, wording
from ui.recommend.ask import Ask, Kind, Reply, cards_of, reply
from ui.recommend.serving import ServingAsk
from ui.words import Words, words_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ui.document import Document

TODAY = date(2026, 11, 30)
QUESTION: Document = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 4}]},
    "runtime": {"name": "torchtitan"},
    "training": {"micro_batch": 1, "sequence_length": 4096},
}
LAMBDA = Ask(providers=frozenset({"Lambda"}), most_cards=8)


@pytest.fixture(autouse=True)
def _fresh_cache() -> Iterator[None]:
    ask_module._reply.cache_clear()
    yield
    ask_module._reply.cache_clear()


@pytest.fixture(params=["en", "zh"])
def words(request: pytest.FixtureRequest) -> Words:
    return words_for(request.param)


@cache
def _found(ask: Ask) -> Reply:
    return reply(QUESTION, ask, answers.tables().offers, TODAY)


def recommend_page() -> None:
    from ui.pages import recommend  # noqa: PLC0415

    recommend.draw()


def opened(document: Document, **state: object) -> AppTest:
    page = AppTest.from_function(recommend_page, default_timeout=90)
    page.session_state["scenario_document"] = document
    for name, value in {"rec_provider": ["Lambda"], "rec_most": 8, **state}.items():
        page.session_state[name] = value
    return checked(page.run())


def test_the_page_shows_the_cheapest_plan_the_line_and_the_tree() -> None:
    page = opened(QUESTION)
    assert headline(page).startswith("Cheapest plan: $")
    text = html(page)
    for part in ("Best plans", "What does not fit", "decision tree", "with one thing otherwise", "Left out:"):
        assert part in text
    assert "with DeepSpeed, which is not allowed above" in text
    assert "allow other frameworks to search it" in text
    assert len(charts(page)) == 1


def test_a_plan_opens_as_the_question_and_fits() -> None:
    found = _found(LAMBDA).result.cheapest
    assert found is not None
    document = to_document(found.choice.scenario)
    told = answer(document).plan
    assert told is not None
    assert told.verdict is Verdict.FITS
    assert told.worst.peak_bytes == found.peak_bytes


@pytest.mark.parametrize(
    ("training", "label", "sequences"),
    [
        ({"micro_batch": 2, "gradient_accumulation": 3, "sequence_length": 4096}, "Sequences a step", 24),
        ({"sequence_length": 4096}, "Sequences a step, assumed", 64),
    ],
)
def test_the_batch_of_a_step_starts_from_the_open_question(
    training: dict[str, int], label: str, sequences: int
) -> None:
    page = opened({**QUESTION, "training": training})
    field = next(each for each in page.number_input if str(each.key).startswith("rec_sequences"))
    assert (field.label, field.value) == (label, sequences)
    assert f"{sequences} sequences a step" in html(page)


def test_a_deadline_that_nothing_meets_is_said() -> None:
    page = opened(QUESTION, rec_deadline=0.01)
    assert headline(page).startswith("No plan within 14.4 minutes; the fastest takes ")
    assert not charts(page)


def test_a_budget_that_nothing_keeps_to_is_said_though_plans_of_unknown_time_fit() -> None:
    words = words_for("en")
    free, poor = _found(LAMBDA).result, _found(replace(LAMBDA, budget_usd=1.0)).result
    assert free.best is not None
    beside = replace(poor, unknown=(replace(free.best, cost=None),))
    for result in (poor, beside):
        assert wording.headline(result, words).startswith("No plan within $1.00; the cheapest costs $")
        assert "bad" in wording.tag(result, words)
    told = wording.why(Reply(result=beside, left=()), LAMBDA, words)
    assert "1 more plan fits, but how long it takes is not known" in told


@pytest.mark.parametrize(
    ("days", "said"),
    [(0.0083, "12.0 minutes"), (0.01, "14.4 minutes"), (0.5, "12.0 hours"), (12345.6, "12,345.6 days")],
)
def test_a_time_is_told_as_finely_as_it_is_short(days: float, said: str) -> None:
    assert duration(days, words_for("en")) == said


def test_own_cards_start_from_the_open_question() -> None:
    assert cards_of(QUESTION) == (("h100-sxm-80gb", 4),)
    page = opened(QUESTION, rec_kind="own")
    assert headline(page).startswith("Fastest plan: ")
    assert "H100" in headline(page)


def test_another_language_has_its_own_chips_and_the_same_choice() -> None:
    page = opened(QUESTION)
    (english,) = [each for each in page.multiselect if str(each.key).startswith("rec_techniques")]
    checked(english.set_value(["sharding", "checkpointing"]).run())
    for language, word in (("zh", words_for("zh")("recommend.technique.tensor")), ("en", "tensor parallel")):
        page.session_state["language"] = language
        checked(page.run())
        (chips,) = [each for each in page.multiselect if str(each.key).startswith("rec_techniques")]
        assert chips.key == f"rec_techniques_{language}"
        assert chips.value == ["sharding", "checkpointing"]
        assert word in chips.options
        checked(chips.set_value(["sharding", "checkpointing"]).run())


SERVES = put_all(QUESTION, {"task": "serve", "runtime": {"name": "vllm"}, "training": None})


def test_a_job_that_serves_gets_machines_with_price_and_pace() -> None:
    page = opened(SERVES)
    assert headline(page).startswith("Cheapest machine that serves it: $")
    text = html(page)
    for part in ("Best machines", "tokens a second under this load", "latency first, fp8", "Left out:"):
        assert part in text


def test_own_cards_can_serve_too() -> None:
    page = opened(SERVES, rec_kind="own")
    assert headline(page).endswith("serve it")


def test_every_sentence_about_servers_has_its_words(words: Words) -> None:
    for ask in (
        LAMBDA,
        replace(LAMBDA, most_cards=1),
        replace(LAMBDA, kind=Kind.OWN, cards=(("t4-16gb", 1),)),
    ):
        asked = ServingAsk(ask=ask, weights=("fp8",))
        result = serving.serving_reply(SERVES, asked, answers.tables().offers, TODAY)
        texts = [
            serving.headline(result, words),
            serving.tag(result, words),
            serving.why(result, asked, words),
            *serving.reason_lines(result.rejected, words),
            *(cell for row in serving.short_rows(result.rejected) for cell in row),
            *(cell for cells in serving.strip(result, words) for cell in cells),
            serving.tree_line(result.latency, "latency", words),
            serving.tree_line(None, "throughput", words),
            *(serving.told(found, words) for found in result.found),
        ]
        assert all("{" not in text for text in texts)
        assert tuple(serving.columns(result.found, words)) == serving.COLUMNS


def test_the_cards_of_the_question_change_nothing() -> None:
    other = put_all(QUESTION, {"hardware.devices": [{"gpu": "l4-24gb", "count": 2}]})
    assert reply(QUESTION, LAMBDA, answers.tables().offers, TODAY) is reply(
        other, LAMBDA, answers.tables().offers, TODAY
    )


def test_every_sentence_has_its_words(words: Words) -> None:
    limited = (
        LAMBDA,
        replace(LAMBDA, budget_usd=1.0),
        replace(LAMBDA, deadline_days=0.001),
        replace(LAMBDA, deadline_days=9.0, budget_usd=1.0),
        replace(LAMBDA, most_cards=1, techniques=frozenset()),
        replace(LAMBDA, kind=Kind.OWN, cards=(("h100-sxm-80gb", 4),)),
        Ask(kind=Kind.SPOT, providers=frozenset({"AWS"}), most_cards=4),
    )
    for ask in limited:
        told = _found(ask)
        result = told.result
        texts = [
            wording.headline(result, words),
            wording.tag(result, words),
            wording.why(told, ask, words),
            wording.tree_lines(result, words),
            wording.foot(told, ask, words),
            *wording.limit_lines(told, words),
            *(cell for row in wording.other_rows(result.others, words) for cell in row),
            *(cell for row in wording.short_rows(result.rejected, words) for cell in row),
            *(cell for cells in wording.strip(told, words) for cell in cells),
        ]
        assert all("{" not in text for text in texts)


def test_cards_of_one_name_are_told_apart_by_form_factor() -> None:
    def short(gpu_id: str) -> Rejected:
        gpu = answers.tables().gpus[gpu_id]
        machine = Machine(name=gpu_id, gpu=gpu, devices=2, usd_per_hour=1.0)
        return Rejected(machine=machine, reason=Fails.MEMORY, short_bytes=10**10, devices=2)

    listed = [short(name) for name in ("a100-sxm-80gb", "a100-pcie-80gb", "l4-24gb")]
    for rows in (wording.short_rows(listed, words_for("en")), serving.short_rows(listed)):
        sxm, pcie, other = (row[0] for row in rows)
        assert "SXM" in sxm
        assert "PCIe" in pcie
        assert other == "2 × L4"


def test_every_reason_technique_and_kind_has_words(words: Words) -> None:
    for reason in Fails:
        assert words.has(f"recommend.reason.{reason.value}.short")
        assert words.has(f"recommend.reason.{reason.value}.line")
    for technique in Technique:
        assert words.has(f"recommend.technique.{technique.value}")
    for kind in Kind:
        assert words.has(f"recommend.kind.{kind.value}")
    for name in listing.COLUMNS:
        assert words.has(f"recommend.column.{name}")


def test_the_figure_has_the_line_and_its_bands(words: Words) -> None:
    result = _found(LAMBDA).result
    others = [found for found in result.found if found not in result.frontier]
    figure = cost_time(others, result.frontier, words)
    line = figure.data[-1]
    assert list(line.x) == [found.days for found in result.frontier]
    assert list(line.y) == [found.usd for found in result.frontier]
    assert all(high > 0 for high in line.error_x.array)
    assert all(low > 0 for low in line.error_x.arrayminus)
    assert alternative(result.found, result.frontier, words)


def test_the_list_and_its_csv_hold_every_plan(words: Words) -> None:
    result = _found(LAMBDA).result
    columns = listing.columns(result.found, words)
    assert tuple(columns) == listing.COLUMNS
    assert columns["usd"] == [found.usd for found in result.found]
    rows = list(csv.DictReader(io.StringIO(listing.plan_csv(result.found))))
    assert len(rows) == len(result.found)
    assert float(rows[0]["usd"]) == pytest.approx(result.found[0].usd)
    assert rows[0]["checkpointing"] in ("none", "full")


def test_tokens_are_typed_as_a_person_writes_them() -> None:
    page = opened(QUESTION)
    cheapest = headline(page)
    typed = next(each for each in page.text_input if str(each.key).startswith("rec_tokens"))
    assert typed.value == "1\u00a0B"
    checked(typed.set_value("70\u4ebf").run())
    more = headline(page)
    assert more != cheapest
    typed = next(each for each in page.text_input if str(each.key).startswith("rec_tokens"))
    checked(typed.set_value("many").run())
    assert headline(page) == more
    assert "Tokens: many was given" in html(page)
    assert "the last one that could be worked out" in html(page)


@pytest.mark.parametrize(
    ("field", "given", "told"),
    [
        ("rec_deadline", -3.0, "Deadline, days: \u22123 was given; allowed: 0.01 or more."),
        ("rec_sequences", 0, "Sequences a step: 0 was given; allowed: 1 to 1,000,000."),
    ],
)
def test_a_number_out_of_range_is_named_and_the_answer_marked_as_an_earlier_one(
    field: str, given: float, told: str
) -> None:
    page = opened(QUESTION)
    first = headline(page)
    typed = next(each for each in page.number_input if str(each.key).startswith(field))
    checked(typed.set_value(given).run())
    assert told in html(page).replace("\u202f", ",")
    assert "the last one that could be worked out" in html(page)
    assert headline(page) == first
    typed = next(each for each in page.number_input if str(each.key).startswith(field))
    checked(typed.set_value(256).run())
    assert "was given; allowed" not in html(page)


def test_a_number_of_own_cards_out_of_range_leaves_the_last_servers_marked() -> None:
    served: Document = {
        **{key: QUESTION[key] for key in ("version", "model", "hardware")},
        "task": "serve",
        "runtime": {"name": "vllm"},
        "serving": {"max_model_len": 8192},
        "workload": {"concurrency": 8, "prompt_tokens": 512, "output_tokens": 128},
    }
    page = opened(served)
    checked(page.segmented_control(key="rec_kind").set_value("own").run())
    first = headline(page)
    typed = next(each for each in page.number_input if str(each.key).startswith("rec_owned"))
    checked(typed.set_value(0).run())
    assert "how many: 0 was given; allowed: 1 to 4,096." in html(page)
    assert headline(page) == first
