"""Checking by tracing on the Plan page, in every state, with a child that does as it is told."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.units import MIB
from profiler.trace.cache import TraceCache
from profiler.trace.documents import TraceOptions
from profiler.trace.record import Instant
from profiler.trace.request import outside_bytes
from profiler.trace.runner import TraceJob, TraceRunner
from tests.profiler import jobs as stub
from tests.profiler.trace.traces import small_step
from tests.ui.conftest import charts, checked, html
from tests.ui.measure_cases import planned, tiny
from ui.document import canonical, put
from ui.examples import story_document
from ui.measure.jobs import Jobs
from ui.trace import jobs as shared
from ui.trace.question import question_of
from ui.trace.result import Results

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ui.document import Document

CHILD = Path(__file__).with_name("trace_child.py")
CARD = [{"gpu": "h100-sxm-80gb"}]


def plan_page() -> None:
    from ui.pages import plan  # noqa: PLC0415

    plan.draw()


@dataclasses.dataclass
class Stub:
    """How the next child behaves, and what the server keeps."""

    trace: Path
    jobs: Jobs
    mode: str = "ok"
    started: int = 0
    options: list[TraceOptions] = dataclasses.field(default_factory=list)

    def answers(self, **changes: Any) -> None:
        made = small_step().model_copy(update=changes)
        self.trace.write_text(json.dumps(made.model_dump(mode="json")), encoding="utf-8")

    def runner(self) -> TraceRunner:
        self.started += 1
        stubbed = self

        class Noting(TraceRunner):
            def start(
                self, scenario_document: Mapping[str, Any], config: Mapping[str, Any], options: TraceOptions
            ) -> TraceJob:
                stubbed.options.append(options)
                return super().start(scenario_document, config, options)

        command = (sys.executable, "-S", "-E", str(CHILD), self.mode, str(self.trace))
        return Noting(("/nowhere/at/all",) if self.mode == "nowhere" else command, stub.SHORT)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stub]:
    path = tmp_path / "trace.json"
    jobs, traces, results = Jobs(lambda _: True), TraceCache(4), Results(4)
    made = Stub(path, jobs)
    made.answers()
    monkeypatch.setattr(shared, "jobs", lambda: jobs)
    monkeypatch.setattr(shared, "traces", lambda: traces)
    monkeypatch.setattr(shared, "results", lambda: results)
    monkeypatch.setattr(shared, "runner", made.runner)
    yield made
    jobs.close()


def asked(**changes: Any) -> Document:
    return tiny(**{"hardware.devices": CARD, **changes})


def opened(document: Document | None = None) -> AppTest:
    page = AppTest.from_function(plan_page, default_timeout=60)
    page.session_state["scenario_document"] = document or asked()
    return checked(page.run())


def press(page: AppTest, key: str) -> AppTest:
    return checked(page.button(key=key).click().run())


def has(page: AppTest, key: str) -> bool:
    return any(button.key == key for button in page.button)


def finished(page: AppTest, child: Stub) -> AppTest:
    run = child.jobs.run(shared.SLOT)
    assert run is not None
    stub.finish(run.job)
    return checked(page.run())


def traced(child: Stub, document: Document | None = None) -> AppTest:
    page = press(opened(document), "trace_start")
    return finished(page, child)


def change_sequence(page: AppTest, tokens: int) -> AppTest:
    return checked(page.number_input(key="training.sequence_length").set_value(tokens).run())


def test_it_is_quiet_until_it_is_asked_for(child: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.trace.panel.question_of", lambda _: pytest.fail("worked out unasked"))
    page = opened()
    assert page.button(key="trace_start").label == "Check by tracing"
    assert page.button(key="trace_start").proto.type == "secondary"
    assert "trace_timeline" not in charts(page)
    assert child.started == 0


def test_a_press_leads_to_the_answer_beside_the_formulas(child: Stub) -> None:
    page = traced(child)
    text = html(page)
    assert "Checked by tracing" in text
    assert "Traced <b>0.0840 GiB</b> allocated at the peak, in the backward pass" in text
    assert "Most of the difference is" in text
    assert "trace_timeline" in charts(page)
    for title in ("Beside the formulas", "Phase by phase", "Cards for this step"):
        assert title in text
    assert "head.weight" in text
    assert any("largest tensors at the peak" in expander.label for expander in page.expander)
    assert not has(page, "trace_start")
    assert child.started == 1


def test_the_phase_of_the_table_is_chosen(child: Stub) -> None:
    page = traced(child)
    control = next(each for each in page.segmented_control if (each.key or "").startswith("trace_phase"))
    assert control.value == "backward"
    before = html(page)
    checked(control.set_value("forward").run())
    assert html(page) != before


def test_put_away_and_asked_again_it_is_there_at_once(child: Stub) -> None:
    page = press(traced(child), "quiet_trace_close")
    assert "trace_timeline" not in charts(page)
    page = press(page, "trace_start")
    assert "trace_timeline" in charts(page)
    assert child.started == 1


def test_another_question_does_not_get_the_old_answer(child: Stub) -> None:
    page = change_sequence(traced(child), 64)
    assert "trace_timeline" not in charts(page)
    assert "The last trace answers an earlier question" in html(page)
    assert "sequence 40" in html(page)
    assert has(page, "trace_start")
    page = press(page, "trace_show")
    assert "trace_timeline" in charts(page)
    assert "The last trace answers an earlier question" in html(page)
    assert "trace_timeline" not in charts(press(page, "trace_hide"))
    page = press(page, "trace_load")
    assert "trace_timeline" in charts(page)
    assert "earlier question" not in html(page)


def test_another_card_of_the_same_kind_needs_no_other_trace(child: Stub) -> None:
    small = question_of(asked(**{"hardware.devices": [{"gpu": "h100-sxm-80gb", "memory_bytes": 1 << 30}]}))
    large = question_of(asked())
    assert small is not None
    assert large is not None
    assert small.key == large.key
    page = press(traced(child), "quiet_trace_close")
    assert child.started == 1
    page.session_state["scenario_document"] = small.document
    page = press(checked(page.run()), "trace_start")
    assert "trace_timeline" in charts(page)
    assert child.started == 1


def test_every_layer_can_be_run_to_see_that_it_comes_to_the_same(child: Stub) -> None:
    child.answers(instant=Instant(layers=(2, 3), period=1))
    page = traced(child)
    assert "Run with 2 and 3 layers" in html(page)
    child.answers()
    page = finished(press(page, "quiet_trace_full"), child)
    assert [options.instant for options in child.options] == [True, False]
    assert "came event by event to what short models" in html(page)
    assert not has(page, "quiet_trace_full")


def test_an_answer_stays_while_every_layer_is_run(child: Stub) -> None:
    child.answers(instant=Instant(layers=(2, 3), period=1))
    page = traced(child)
    child.mode = "hang"
    page = press(page, "quiet_trace_full")
    assert "trace_timeline" in charts(page)
    page = finished(press(page, "trace_stop"), child)
    assert "Cancelled, as asked" in html(page)
    assert "trace_timeline" in charts(page)


def test_while_it_runs_progress_is_shown_and_cancel_ends_it(child: Stub) -> None:
    child.mode = "hang"
    page = press(opened(), "trace_start")
    run = child.jobs.run(shared.SLOT)
    assert run is not None
    stub.until(lambda: run.job.snapshot().progress is not None)
    checked(page.run())
    assert page.get("progress")[0].proto.text == "Step 2 of 2: backward"
    press(page, "trace_stop")
    page = finished(page, child)
    assert "Cancelled, as asked" in html(page)
    assert has(page, "trace_start")
    pid = run.job.snapshot().pid
    assert pid is not None
    assert not stub.is_running(pid)


def test_somebody_elses_trace_is_waited_for(child: Stub) -> None:
    child.mode = "hang"
    first = press(opened(asked(**{"training.sequence_length": 24})), "trace_start")
    run = child.jobs.run(shared.SLOT)
    assert run is not None
    object.__setattr__(run, "session", "another page")
    child.mode = "ok"
    second = press(opened(), "trace_start")
    assert second.get("progress")[0].proto.text == "Another page is tracing; this one is next"
    assert not has(second, "trace_stop")
    run.job.stop()
    stub.finish(run.job)
    second = checked(second.run())
    second = finished(second, child)
    assert "trace_timeline" in charts(second)
    assert has(first, "trace_stop")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("crash", "ended without an answer (7)"),
        ("missing", "No module named &#x27;torch&#x27;"),
        ("refused", "cannot build this question"),
        ("nowhere", "could not be started"),
    ],
)
def test_an_end_without_an_answer_says_why(child: Stub, mode: str, said: str) -> None:
    child.mode = mode
    page = press(opened(), "trace_start")
    page = finished(page, child)
    assert said in html(page)
    if mode == "crash":
        assert any("broken in the middle" in code.value for code in page.code)
    child.mode = "ok"
    page = finished(press(page, "trace_start"), child)
    assert "trace_timeline" in charts(page)


def test_an_end_is_forgotten_with_its_question(child: Stub) -> None:
    child.mode = "crash"
    page = finished(press(opened(), "trace_start"), child)
    assert "ended without an answer" not in html(change_sequence(page, 64))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runtime.name": "torchtune"}, "its own loop and kernels are not installed here"),
        ({"runtime.compile": True}, "a compiled step allocates as the compiler decides"),
        ({"hardware.devices": [{"gpu": "unknown"}]}, "its kernels are not CUDA’s"),
    ],
)
def test_what_cannot_be_traced_is_said_and_has_no_button(
    child: Stub, changes: dict[str, Any], said: str
) -> None:
    page = opened(asked(**changes))
    assert said in html(page)
    assert not has(page, "trace_start")
    assert child.started == 0


def test_serving_is_not_traced(child: Stub) -> None:
    page = opened(story_document("llama-70b-awq-two-l40s"))
    assert "Tracing follows training steps" in html(page)
    assert not has(page, "trace_start")
    assert child.started == 0


def test_a_card_too_small_says_where_and_why(child: Stub) -> None:
    size = outside_bytes(planned(asked()).worst) + 70 * MIB
    text = html(
        traced(child, asked(**{"hardware.devices": [{"gpu": "h100-sxm-80gb", "memory_bytes": size}]}))
    )
    assert "Runs out" in text
    assert "runs out</span> in the backward pass: demand" in text
    assert "The cause is demand" in text
    assert "mm in no module asks for" in text


def test_questions_are_told_apart_by_their_documents() -> None:
    assert canonical(asked()) != canonical(put(asked(), "training.sequence_length", 64))
    first, second = question_of(asked()), question_of(put(asked(), "training.sequence_length", 64))
    assert first is not None
    assert second is not None
    assert first.key != second.key
