"""The Measure page as Streamlit runs it, in every state, with a child that does as it is told."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import TYPE_CHECKING

import pytest
from streamlit.testing.v1 import AppTest

from profiler.documents import Options
from profiler.report import MAX_REPORT_BYTES
from tests.profiler import jobs as stub
from tests.profiler.fake_nvml import FakeNvml, failure
from tests.ui.conftest import charts, checked, headline, html
from tests.ui.measure_cases import GIB, as_file, on_a_card, report_of, tiny
from ui.document import put
from ui.examples import STORIES, story_document
from ui.measure import jobs as shared
from ui.measure.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ui.document import Document

from tests.ui.measure_driver import (
    ROOMY,
    Child,
    finished,
    h100,
    has,
    measure_page,
    on_machine,
    opened,
    press,
    start,
    upload,
)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    made = Jobs(lambda _: True)
    monkeypatch.setattr(shared, "jobs", lambda: made)
    monkeypatch.setattr(shared, "KEEP_EVERY_S", 0.05)
    yield made
    made.close()


@pytest.fixture
def child(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Child:  # noqa: ARG001  # ends what it started
    """A roomy machine without a card, whose measurements are done by the stub."""
    made = Child()
    monkeypatch.setattr(shared, "runner", made.runner)
    on_machine(monkeypatch, FakeNvml(overrides={"nvmlInit": failure(12)}), free=ROOMY)
    return made


@pytest.mark.usefixtures("child")
def test_without_a_driver_the_processor_measures_tensors_and_says_so() -> None:
    page = opened()
    assert headline(page) == "Ready to measure one step on the processor"
    text = html(page)
    assert "There is no NVIDIA driver on this machine." in text
    assert "bytes of PyTorch’s tensors, phase by phase, not GPU memory" in text
    assert not page.button(key="measure_start").disabled
    assert "python -m profiler run" in page.code[-1].value


def test_a_start_runs_to_a_result(child: Child) -> None:
    page = opened()
    start(page)
    page = finished(page)
    assert headline(page).startswith("Measured 0.0000 GiB, predicted 0.0")
    assert child.started[0].device == "cpu"
    assert child.started[0].memory_limit_bytes == int(ROOMY * 0.95)
    assert has(page, "measure_again")
    assert "measure_parts" in "".join(charts(page))
    assert page.download_button(key="measure_download").label == "Report"


def test_a_result_is_started_again_or_put_away(child: Child) -> None:
    page = opened()
    start(page)
    page = press(finished(page), "measure_again")
    page = finished(page)
    assert len(child.started) == 2
    page = press(page, "measure_close")
    assert headline(page).startswith("Ready")


def test_a_result_of_an_earlier_question_says_so(child: Child) -> None:
    page = opened()
    start(page)
    page = finished(page)
    assert "asked earlier" not in html(page)
    checked(page.number_input(key="training.sequence_length").set_value(64).run())
    assert "asked earlier" in html(page)
    press(page, "measure_load")
    assert "asked earlier" not in html(page)
    assert child.started


def test_while_it_runs_progress_is_shown_and_stop_ends_it(child: Child) -> None:
    child.mode = "hang"
    page = opened()
    job = start(page)
    stub.until(lambda: bool(job.snapshot().samples))
    checked(page.run())
    assert headline(page) == "Measuring on the processor"
    assert page.get("progress")[0].proto.text.startswith("Step 1 of 2: forward")
    assert not has(page, "measure_start")
    press(page, "measure_stop")
    page = finished(page)
    assert headline(page) == "Stopped, as asked"
    assert "Nothing is left running" in html(page)
    assert has(page, "measure_start")
    pid = job.snapshot().pid
    assert pid is not None
    assert not stub.is_running(pid)


def test_a_crash_says_its_code_and_its_last_words(child: Child) -> None:
    child.mode = "crash"
    page = opened()
    start(page)
    page = finished(page)
    assert headline(page) == "The measuring process crashed"
    assert "exit code 7" in html(page)
    assert any("ValueError: broken" in code.value for code in page.code)
    child.mode = "ok"
    assert page.button(key="measure_start").label == "Measure again"
    start(page)
    assert headline(finished(page)).startswith("Measured")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_kill_from_outside_is_named(child: Child) -> None:
    child.mode = "signal"
    page = opened()
    start(page)
    page = finished(page)
    assert headline(page) == "The measuring process crashed"
    assert "ended from outside by SIGKILL" in html(page)


@pytest.mark.parametrize(
    ("mode", "title", "text"),
    [
        ("limit", "Stopped at the memory limit of 60.8 GiB", "before it took all"),
        ("refused", "The libraries here cannot run this question", "impossible"),
        ("bad_report", "The measuring process crashed", "could not be read"),
        ("nowhere", "The measuring process could not be started", "FileNotFoundError"),
        ("silent_exit", "The measuring process crashed", "exit code 0"),
    ],
)
def test_other_ends_without_a_result(child: Child, mode: str, title: str, text: str) -> None:
    child.mode = mode
    page = opened()
    start(page)
    page = finished(page)
    assert headline(page) == title
    assert text in html(page)
    assert has(page, "measure_start")


def test_a_refusal_of_the_child_names_the_field(child: Child) -> None:
    child.mode = "refused"
    page = opened()
    start(page)
    text = html(finished(page))
    assert "Fields that cannot be measured" in text
    assert "Tensor" in text


def test_a_hang_ends_at_the_time_allowed(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    child.mode = "hang"
    monkeypatch.setattr("ui.measure.actions.options", lambda spot: Options(device=spot.kind, timeout_s=0.5))
    page = opened()
    start(page)
    page = finished(page)
    assert headline(page) == "Stopped after 0 s, the time allowed"
    assert "Allow more time below" in html(page)


def test_a_closed_page_ends_its_measurement_and_the_next_one_is_told(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    child.mode, child.patience = "hang", dataclasses.replace(stub.SHORT, abandon_after_s=0.5)
    gone = Jobs(lambda _: False)
    monkeypatch.setattr(shared, "jobs", lambda: gone)
    page = opened()
    start(page)
    page = finished(page)
    assert headline(page) == "Stopped because the page that started it was closed"


def test_a_failure_is_forgotten_when_the_question_changes(child: Child) -> None:
    child.mode = "crash"
    page = opened()
    start(page)
    page = finished(page)
    checked(page.number_input(key="training.sequence_length").set_value(64).run())
    assert headline(page).startswith("Ready")


def test_the_second_of_two_users_sees_who_and_when(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    child.mode = "hang"
    names = {"now": "first"}
    monkeypatch.setattr(shared, "this_session", lambda: names["now"])
    first = opened()
    names["now"] = "second"
    second = opened()
    names["now"] = "first"
    start(first)
    names["now"] = "second"
    press(second, "measure_start")  # both had seen a free device
    assert headline(second) == "The processor is busy with another measurement"
    text = html(second)
    assert re.search(
        r"(Another page on this computer|A page at .+) started it at 20\d\d-\d\d-\d\d \d\d:\d\d UTC", text
    )
    assert "a moment earlier" in text
    assert len(child.started) == 1
    assert not has(second, "measure_stop")
    checked(second.run())
    assert "a moment earlier" not in html(second)
    names["now"] = "first"
    assert headline(checked(first.run())) == "Measuring on the processor"


def test_a_result_of_another_page_can_be_looked_at(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"now": "first"}
    monkeypatch.setattr(shared, "this_session", lambda: names["now"])
    page = opened()
    start(page)
    finished(page)
    names["now"] = "second"
    other = opened()
    assert headline(other).startswith("Ready")
    assert "made from another page" in html(other)
    press(other, "measure_show")
    assert headline(other).startswith("Measured")
    assert child.started


@pytest.mark.usefixtures("child")
def test_fields_that_cannot_run_are_named_with_their_reasons() -> None:
    page = opened(story_document(STORIES[0]))
    assert headline(page) == "This question cannot be measured as it is"
    text = html(page)
    for part in ("Pipeline", "one step runs on one device", "Attention", "this kernel runs on GPUs only"):
        assert part in text
    assert page.button(key="measure_start").disabled


def test_a_small_copy_is_one_click(child: Child) -> None:
    page = opened(story_document(STORIES[0]))
    text = html(page)
    assert "Small copy" in text
    assert "<b>512</b>" in text  # its sequence
    press(page, "measure_small")
    page = finished(page)
    assert headline(page).startswith("Measured")
    assert "This is a small copy of the question" in html(page)
    assert len(child.started) == 1
    press(page, "measure_load")
    found: Document = page.session_state["scenario_document"]
    assert found["training"]["sequence_length"] == 512
    assert "model" in found


def test_after_a_small_copy_has_crashed_its_own_fields_are_listed(child: Child) -> None:
    child.mode = "crash"
    page = opened(story_document(STORIES[0]))
    press(page, "measure_small")
    page = finished(page)
    text = html(page)
    assert "This is a small copy of the question" in text
    assert ">1 × 512<" in text
    assert ">1 × 4,096<" not in text
    assert "Fields that cannot be measured" not in text
    assert not page.button(key="measure_small").disabled


@pytest.mark.usefixtures("child")
def test_a_server_is_refused_without_a_copy() -> None:
    page = opened(story_document(STORIES[3]))
    assert page.button(key="measure_start").disabled
    assert "no small copy of it" in html(page)
    assert not has(page, "measure_small")


def test_what_will_not_fit_starts_only_when_the_user_insists(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_machine(monkeypatch, FakeNvml(), free=1 << 28)
    page = opened()
    assert headline(page).startswith("This step won’t fit here: it needs 0.6 GiB, 0.2")
    assert page.button(key="measure_start").disabled
    checked(page.checkbox(key="measure_insist").check().run())
    assert not page.button(key="measure_start").disabled
    start(page)
    finished(page)
    assert child.started[0].insist
    assert child.started[0].memory_limit_bytes == int((1 << 28) * 0.95)


def test_without_pytorch_it_says_what_to_install(child: Child, monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch, FakeNvml(), torch="")
    page = opened()
    assert headline(page) == "PyTorch is needed to measure"
    assert "pip install torch" in html(page)
    assert page.button(key="measure_start").disabled
    assert child.started == []


def test_a_card_is_where_it_runs_unless_the_user_says_otherwise(
    child: Child, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_machine(monkeypatch, FakeNvml(h100()))
    page = opened(on_a_card())
    assert headline(page) == "Ready to measure one step on NVIDIA H100 80GB HBM3"
    checked(page.button_group(key="measure_where").set_value("cpu").run())
    assert headline(page) == "Ready to measure one step on the processor"
    checked(page.button_group(key="measure_where").set_value("GPU-1").run())
    press(page, "measure_start")
    run = jobs.run("GPU-1")
    assert run is not None
    stub.finish(run.job)
    assert child.started[0].device == "cuda"
    assert child.started[0].memory_limit_bytes is None


@pytest.mark.usefixtures("child")
def test_a_card_that_others_hold_is_told_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch, FakeNvml(h100(used=60 * GIB)))
    page = opened(on_a_card())
    assert headline(page).startswith("This step won’t fit here: it needs ")
    assert "60.0 held by others" in html(page)


@pytest.mark.usefixtures("child")
def test_this_machine_fills_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch, FakeNvml(h100(), dataclasses.replace(h100(), uuid="GPU-2")))
    page = opened()
    for key in ("measure_use", "quiet_use_machine"):
        page.session_state["scenario_document"] = tiny()
        press(checked(page.run()), key)
        assert page.session_state["scenario_document"]["hardware"]["devices"] == [
            {"gpu": "h100-sxm-80gb", "count": 2, "memory_bytes": 80 * GIB}
        ]


@pytest.mark.usefixtures("child")
def test_this_machine_without_a_card_says_why() -> None:
    page = opened()
    before = page.session_state["scenario_document"]
    press(page, "quiet_use_machine")
    assert html(page).count('role="status">There is no NVIDIA driver on this machine.') == 1
    assert page.session_state["scenario_document"] == before


@pytest.mark.usefixtures("child")
def test_a_report_from_elsewhere_is_opened_and_put_away() -> None:
    page = upload(opened(), as_file(report_of(on_a_card(), "cuda", factor=0.9)))
    assert headline(page).startswith("Measured ")
    assert headline(page).endswith(" high")
    text = html(page)
    assert "Opened from a file. It was made at 2026-11-29 18:47 UTC on NVIDIA H100 80GB HBM3." in text
    assert "+6.0" in text
    assert "Saved activations" in text
    assert any("memory summary" in code.value for code in page.code)
    assert {"measure_steps", "measure_parts"} <= set(charts(page))
    press(page, "measure_load")
    assert page.session_state["scenario_document"]["training"]["sequence_length"] == 2048
    page = press(page, "measure_close")
    assert not headline(page).startswith("Measured")


@pytest.mark.usefixtures("child")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x80\x04pickle", "This is no report: a report is a JSON file"),
        (b'{"kind": "headroom.report", "version": 99}', "headroom.report"),
        (b'{"kind": "headroom_measurement", "version": 9}', "of version 9"),
        (
            as_file(report_of(tiny(), "cpu")).replace(b'"params_total": ', b'"params_total": -'),
            "“params_total”",
        ),
        (b" " * (MAX_REPORT_BYTES + 1), "larger than 8 MiB"),
        (b'{"a":' * 100_000, "This is no report"),
    ],
    ids=["pickle", "kind", "version", "negative", "large", "deep"],
)
def test_a_file_that_is_no_report_is_told_and_changes_nothing(data: bytes, text: str) -> None:
    page = upload(opened(), data)
    assert text in html(page)
    assert headline(page).startswith("Ready")


@pytest.mark.usefixtures("child")
def test_what_a_report_says_is_never_markup() -> None:
    report = report_of(tiny(), "cpu")
    evil = report.environment.model_copy(update={"device_name": "<img src=x>", "system": "<script>"})
    page = upload(opened(), as_file(report.model_copy(update={"environment": evil})))
    text = html(page)
    assert "&lt;img src=x&gt;" in text
    assert "<img" not in text
    assert "<script>" not in text


@pytest.mark.usefixtures("child")
def test_a_question_with_errors_keeps_the_page_usable() -> None:
    page = AppTest.from_function(measure_page, default_timeout=60)
    page.session_state["scenario_document"] = put(tiny(), "training.micro_batch", -1)
    checked(page.run())
    assert headline(page) == "Nothing to measure yet"
    page = upload(page, as_file(report_of(tiny(), "cpu")))
    assert headline(page).startswith("Measured")


@pytest.mark.usefixtures("child")
def test_the_page_opens_from_the_navigation(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    assert "Use this machine" in [button.label for button in page.button]


def test_settings_outlive_other_pages(child: Child) -> None:
    page = opened()
    checked(page.number_input(key="measure_steps").set_value(5).run())
    start(page)
    finished(page)
    assert child.started[0].steps == 5
    assert page.session_state["measure_settings"]["measure_steps"] == 5


def test_nothing_here_loads_torch(child: Child) -> None:
    loaded = set(sys.modules)  # other tests of this process may have loaded it before
    page = opened()
    start(page)
    finished(page)
    assert child.started
    assert {"torch", "transformers"} & (sys.modules.keys() - loaded) == set()
