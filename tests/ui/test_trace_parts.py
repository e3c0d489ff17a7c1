"""The pieces of the trace's view: the timeline, the cards, the sentences, what is laid beside the formulas."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

import run
from planner.ledger import Category, Phase
from planner.units import MIB
from profiler.allocator.settings import AllocatorSettings
from profiler.documents import Remark
from profiler.job_types import ExitReason, JobState, Snapshot
from profiler.trace.answer import MAX_POINTS, Point, answer
from profiler.trace.documents import Attention
from profiler.trace.record import Instant
from profiler.trace.request import outside_bytes
from tests.profiler.trace.traces import born, died, phase, small_step, storage, trace
from tests.ui.measure_cases import planned, tiny
from tests.ui.test_measure_results import codes_of
from ui.charts import trace_timeline
from ui.issue_words import field_name
from ui.trace import wording
from ui.trace.cards import AMPERE, Card, card_rows, cards_of
from ui.trace.question import Question, question_of
from ui.trace.result import Result, Results, result_of
from ui.trace.states import ENDED_WITHOUT_RESULT, State, of_job
from ui.trace.view import legend
from ui.words import Words, words_for

CARD = [{"gpu": "h100-sxm-80gb"}]


@pytest.fixture
def words() -> Words:
    return words_for("en")


@pytest.fixture
def question() -> Question:
    found = question_of(tiny(**{"hardware.devices": CARD}))
    assert found is not None
    return found


@pytest.fixture
def result(question: Question) -> Result:
    found = result_of(question, small_step())
    assert found is not None
    return found


def point(event: int, size_mib: int, name: str = "forward", step: int = 1, **more: int) -> Point:
    return Point(
        event=event,
        step=step,
        phase=name,
        allocated_bytes=size_mib * MIB,
        reserved_bytes=2 * size_mib * MIB,
        categories=tuple((category, size * MIB) for category, size in more.items()),
    )


# ---------------------------------------------------------------- timeline


def test_the_stack_is_what_is_allocated(result: Result) -> None:
    points = result.answer.timeline
    layers = trace_timeline.layers(points)
    for i, each in enumerate(points):
        assert sum(sizes[i] for sizes in layers.values()) == each.allocated_bytes
    order = [name for name in trace_timeline.STACK if name in layers]
    assert list(layers) == order


def test_rounding_is_a_layer_of_its_own() -> None:
    layers = trace_timeline.layers([point(0, 10, weights=8), point(1, 12, weights=8, activations=4)])
    assert layers == {
        "weights": [8 * MIB, 8 * MIB],
        "activations": [0, 4 * MIB],
        "allocator_cache": [2 * MIB, 0],
    }


def test_phases_lie_end_to_end_and_points_inside_them(result: Result) -> None:
    points = result.answer.timeline
    spans = trace_timeline.spans(points)
    assert all(before.end == after.start for before, after in pairwise(spans))
    xs = trace_timeline.places(points)
    assert len(xs) == len(points)
    assert xs == sorted(xs)
    assert {span.phase for span in spans} >= {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER_STEP}


def test_the_peak_is_exact_and_marked(result: Result, words: Words) -> None:
    figure = trace_timeline.timeline(result.answer.timeline, words)
    (mark,) = [each for each in figure.data if each.name == "peak"]
    assert mark.y == (result.answer.peak_allocated_bytes / 1024**3,)
    texts = [note.text for note in figure.layout.annotations]
    assert "peak 0.084" in texts
    assert "bwd" in texts


def test_of_equal_peaks_the_last_one_is_marked() -> None:
    points = [point(0, 5), point(1, 9), point(2, 4), point(3, 9, step=2), point(4, 1, step=2)]
    peak = trace_timeline.peak_of(points)
    assert peak is not None
    assert peak.event == 3


def test_points_are_bounded_whatever_the_run(words: Words) -> None:
    changes = [phase("forward", 1)]
    for _ in range(5000):
        one = storage(1, "forward")
        changes += [born(one, "forward", 1), died(one, "forward", 1)]
    timeline = answer(trace(changes), question_settings()).timeline
    figure = trace_timeline.timeline(timeline, words)
    assert all(len(each.x) <= MAX_POINTS for each in figure.data)


def question_settings() -> AllocatorSettings:
    found = question_of(tiny(**{"hardware.devices": CARD}))
    assert found is not None
    return found.asked.settings


def test_a_card_near_the_run_is_drawn_and_a_much_larger_one_is_not(result: Result, words: Words) -> None:
    near = trace_timeline.timeline(result.answer.timeline, words, capacity_bytes=110 * MIB, stop_event=4)
    far = trace_timeline.timeline(result.answer.timeline, words, capacity_bytes=900 * MIB)
    assert any("this card" in note.text for note in near.layout.annotations)
    assert not any("this card" in note.text for note in far.layout.annotations)
    assert far.layout.yaxis.range[1] < near.layout.yaxis.range[1]


def test_a_recorded_run_has_no_phases_and_its_owners_may_be_unknown(words: Words) -> None:
    points = [point(i, 4 + i, name="", step=0, unknown=4 + i) for i in range(5)]
    figure = trace_timeline.timeline(points, words)
    assert {each.name for each in figure.data} == {"unknown", "allocated", "reserved", "peak"}
    assert figure.layout.xaxis.showticklabels is False
    assert "As recorded" in trace_timeline.alternative(points, words).replace("as recorded", "As recorded")
    assert "Owner not recorded" in legend(trace_timeline.layers(points), words, stops=True)


def test_nothing_recorded_is_drawn_and_said(words: Words) -> None:
    assert trace_timeline.timeline((), words).data
    assert trace_timeline.alternative((), words) == "Nothing was recorded."


def test_the_figure_in_words_names_phases_and_peaks(result: Result, words: Words) -> None:
    text = trace_timeline.alternative(result.answer.timeline, words)
    assert "Peak 0.084 GiB allocated" in text
    assert "Backward 0.084" in text


# ---------------------------------------------------------------- cards


def test_cards_are_of_the_targets_kind_and_in_order() -> None:
    plan = planned(tiny(**{"hardware.devices": CARD}))
    cards = cards_of(plan, AMPERE)
    sizes = [card.usable_bytes for card in cards]
    assert sizes == sorted(set(sizes))
    assert len(cards) > 15
    assert "T4 16GB" not in {card.name for card in cards}
    assert "T4 16GB" in {card.name for card in cards_of(plan, (7, 5))}
    assert all(card.usable_bytes - card.capacity_bytes == outside_bytes(plan.worst) for card in cards)


def test_the_smallest_card_has_the_one_that_fails_before_it(question: Question) -> None:
    settings = question.asked.settings
    sizes = (40, 70, 90, 120, 200, 400)
    cards = [Card(name=f"c{n}", usable_bytes=n * MIB, capacity_bytes=n * MIB) for n in sizes]
    own = Card(name="own", usable_bytes=400 * MIB, capacity_bytes=400 * MIB)
    made = small_step()
    rows = card_rows(made, settings, answer(made, settings), cards, own)
    assert [row.card.name for row in rows] == ["c90", "c120", "c200", "own"]
    assert [row.is_smallest for row in rows] == [False, True, False, False]
    stop = rows[0].stop
    assert stop is not None
    assert (stop.phase, stop.at.cause) == ("backward", "fragmentation")
    assert rows[1].stop is None
    assert rows[3].is_own


def test_a_step_that_runs_on_no_card_says_so(question: Question, words: Words, result: Result) -> None:
    settings, made = question.asked.settings, small_step()
    cards = [Card(name="c", usable_bytes=40 * MIB, capacity_bytes=40 * MIB)]
    rows = card_rows(made, settings, answer(made, settings), cards, None)
    assert [row.is_smallest for row in rows] == [False]
    none = replace(result, cards=rows)
    cells = wording.strip(none, words)
    assert cells[3][1] == "–"
    assert cells[4][2] == "no single card of the table"


@pytest.mark.parametrize(("size_mib", "cause"), [(70, "demand"), (90, "fragmentation")])
def test_where_a_card_runs_out_names_the_cause(
    question: Question, result: Result, words: Words, size_mib: int, cause: str
) -> None:
    settings, made = question.asked.settings, small_step()
    own = Card(name="own", usable_bytes=size_mib * MIB, capacity_bytes=size_mib * MIB)
    (row,) = [each for each in card_rows(made, settings, answer(made, settings), [], own) if each.is_own]
    text = wording.stop_text(row, result, words)
    assert f"The cause is {cause}" in text
    assert "mm in no module asks for" in text
    assert "in the backward pass" in text
    assert cause in wording.card_outcome(row, words)
    shown = replace(result, cards=(row,))
    assert wording.strip(shown, words)[3][2] == f"Backward: {cause}"


def test_a_card_smaller_than_the_peak_is_short_by_demand_whatever_came_first(question: Question) -> None:
    settings, made = question.asked.settings, small_step()
    own = Card(name="own", usable_bytes=60 * MIB, capacity_bytes=60 * MIB)
    (row,) = card_rows(made, settings, answer(made, settings), [], own)
    assert row.stop is not None
    early = replace(row, stop=replace(row.stop, at=replace(row.stop.at, cause="fragmentation")))
    assert early.cause == "demand"
    assert replace(early, needs_more=False).cause == "fragmentation"


def test_a_card_too_small_for_the_weights_says_so(question: Question, result: Result, words: Words) -> None:
    settings, made = question.asked.settings, small_step()
    own = Card(name="own", usable_bytes=4 * MIB, capacity_bytes=4 * MIB)
    (row,) = card_rows(made, settings, answer(made, settings), [], own)
    assert "while the weights are loaded: head.weight asks for" in wording.stop_text(row, result, words)


# ---------------------------------------------------------------- beside the formulas


def test_parts_of_a_phase_add_up_to_what_was_traced(result: Result) -> None:
    for compared in result.phases:
        figures = result.answer.figures(compared.phase.value)
        assert figures is not None
        pair = result.phase_pair(compared.phase)
        assert pair.measured_bytes == figures.peak_allocated_bytes
        predicted = sum(row.predicted_bytes or 0 for row in compared.categories)
        assert pair.predicted_bytes == predicted


def test_a_trace_equal_to_its_prediction_is_said_to_agree(result: Result, words: Words) -> None:
    pair = result.allocated
    same = replace(result, allocated=replace(pair, predicted_bytes=pair.measured_bytes), phases=())
    assert "as the formulas say" in wording.summary(same, words)
    assert "Every part agrees" in wording.summary(same, words)
    assert "Within 1 %" in wording.tag(same, words)


@pytest.mark.parametrize(("factor", "said"), [(1.05, "Within 10 %"), (1.5, "More than 10 % off")])
def test_the_tag_says_how_far_off(result: Result, words: Words, factor: float, said: str) -> None:
    pair = result.allocated
    off = replace(pair, predicted_bytes=round(factor * (pair.measured_bytes or 0)))
    assert said in wording.tag(replace(result, allocated=off), words)
    assert "high" in wording.summary(replace(result, allocated=off), words)


def test_a_result_is_made_once_for_a_question() -> None:
    kept = Results(2)
    made: list[str] = []

    def look(name: str) -> None:
        kept.get({"name": name}, "", lambda: made.append(name))

    for name in ("a", "a", "b", "c", "c", "a"):
        look(name)
    assert made == ["a", "b", "c", "a"]


def test_a_trace_without_a_phase_is_no_result(question: Question) -> None:
    assert result_of(question, trace([born(storage(1, "load"), "load", 0)])) is None


# ---------------------------------------------------------------- words and states


def test_every_refusal_of_a_trace_has_words(words: Words) -> None:
    folder = run.ROOT / "profiler" / "trace"
    codes = {code for path in folder.rglob("*.py") for code in codes_of(path)}
    assert len(codes) > 5
    assert sorted(code for code in codes if not words.has(f"measure.remark.{code}")) == []


def test_a_refusal_names_field_and_value(words: Words) -> None:
    remark = Remark(code="runtime_not_measured", field="runtime.name", params={"given": "<b>"})
    text = wording.refusal(remark, words)
    assert "&lt;b&gt;" in text
    assert "its own loop" in text
    assert "brand_new" in wording.refusal(Remark(code="brand_new"), words)


def test_a_refusal_names_fields_and_options_as_people_do(words: Words) -> None:
    paged = Remark(code="optimizer_not_measured", field="training.optimizer.paged", params={"given": True})
    assert "Paged optimizer states" in wording.refusal(paged, words)
    named = Remark(
        code="optimizer_not_measured", field="training.optimizer.name", params={"given": "adamw_8bit"}
    )
    assert "8-bit AdamW" in wording.refusal(named, words)
    fields = fields_refused(run.ROOT / "profiler" / "runnable.py")
    assert len(fields) > 10
    assert sorted(field for field in fields if field_name(field, words) == field) == []


def fields_refused(path: Path) -> set[str]:
    """Fields of training and adapters that a refusal names in full."""
    texts = (
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    )
    return {
        text
        for text in texts
        if isinstance(text, str) and re.fullmatch(r"(training|adapter|runtime)[.][a-z_.]+[a-z]", text)
    } - {"training.precision"}


def test_every_ended_state_and_attention_has_words(words: Words) -> None:
    assert [state for state in ENDED_WITHOUT_RESULT if not words.has(f"trace.ended.{state.value}")] == []
    names = get_args(Attention)
    assert len(names) == 5
    assert [name for name in names if not words.has(f"trace.attention.{name}")] == []


def test_every_reason_to_run_every_layer_has_words(words: Words) -> None:
    codes = set()
    for path in (run.ROOT / "profiler" / "trace").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"FullModeError", "ExtendError"}:
                codes |= {str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant)}
    assert len(codes) > 5
    assert sorted(code for code in codes if not words.has(f"trace.instant.why.{code}")) == []


@pytest.mark.parametrize(
    ("instant", "same", "said"),
    [
        (Instant(layers=(3, 4), period=1), None, "Run with 3 and 4 layers and continued to 3"),
        (Instant(code="few_layers"), None, "Every layer was run: it has few."),
        (None, True, "came event by event to what"),
        (None, False, "It differs"),
        (None, None, "The second step is the one that is read."),
    ],
)
def test_the_foot_says_what_was_run(
    result: Result, words: Words, instant: Instant | None, same: bool | None, said: str
) -> None:
    shown = replace(result, trace=result.trace.model_copy(update={"instant": instant}))
    assert said in wording.foot(shown, words, same=same)
    assert wording.is_extended(shown) is ("continued to" in said)


@pytest.mark.parametrize("category", [*Category, "unknown"])
def test_every_part_has_a_name_and_a_colour(words: Words, category: str) -> None:
    assert wording.part_name(category, words)
    assert "--part:var(--" in legend([category], words, stops=False)


@pytest.mark.parametrize(
    ("reason", "exit_code", "state"),
    [
        (ExitReason.DONE, 0, State.DONE),
        (ExitReason.CRASHED, 4, State.MISSING_PACKAGE),
        (ExitReason.CRASHED, 1, State.CRASHED),
        (ExitReason.STOPPED, -15, State.STOPPED),
        (ExitReason.OUT_OF_MEMORY, 3, State.MEMORY_LIMIT),
        (None, None, State.CRASHED),
    ],
)
def test_how_a_job_ended(reason: ExitReason | None, exit_code: int | None, state: State) -> None:
    seen = Snapshot(state=JobState.ENDED, reason=reason, exit_code=exit_code, started_at="now")
    assert of_job(seen, mine=True) is state


def test_a_running_job_is_somebodys() -> None:
    seen = Snapshot(state=JobState.RUNNING, started_at="now")
    assert of_job(seen, mine=True) is State.RUNNING
    assert of_job(seen, mine=False) is State.BUSY
