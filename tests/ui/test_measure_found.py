"""What a result says beside sizes, its ranks, and the runs kept for later plans."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from streamlit.testing.v1 import AppTest

from planner.estimate import plan as plan_for
from planner.plan_types import Known
from planner.scenario import Scenario
from profiler import findings as looked_at
from profiler.kept import KeptError, KeptRuns, kept_from
from profiler.report_parts import Communication, RankFigures, StepMemory
from tests.ui.conftest import html
from tests.ui.measure_cases import GIB, on_a_card, planned, report_of, tiny
from ui import kept_runs, limits
from ui.answers import answer, tables
from ui.measure.findings_panel import finding_row, finding_text
from ui.measure.ranks_panel import alternative, held, rank_bars
from ui.words import languages, words_for

if TYPE_CHECKING:
    from pathlib import Path

    from profiler.report import Report


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path))
    return tmp_path


def rank(number: int, gib: int, step_s: float = 1.0, **changes: Any) -> RankFigures:
    talk = Communication(time_s=0.4 * step_s, step_s=step_s, calls={"all_gather": 3})
    figures = {"peak_allocated_bytes": (gib - 1) * GIB, "peak_reserved_bytes": gib * GIB, "step_s": step_s}
    return RankFigures(rank=number, host="a", communication=talk, **{**figures, **changes})


def rich() -> Report:
    """A report with something to say on every topic."""
    steps = tuple(
        StepMemory(step=n, time_s=1.0, peak_allocated_bytes=GIB, after_allocated_bytes=GIB + n * GIB // 64)
        for n in range(1, 17)
    )
    stats = {
        "reserved_bytes.all.peak": 10 * GIB,
        "allocated_bytes.all.peak": 6 * GIB,
        "inactive_split_bytes.all.peak": 3 * GIB,
        "num_alloc_retries": 2,
        "num_ooms": 1,
    }
    ranks = (rank(0, 20), rank(1, 30, 1.4), rank(2, 20, outcome="failed", detail="killed"))
    return report_of(on_a_card(), "cuda", memory_stats=stats, memory_by_step=steps, ranks=ranks)


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("report", [rich(), report_of(tiny(), "cpu")], ids=["rich", "plain"])
def test_every_finding_has_its_words(report: Report, language: str) -> None:
    words = words_for(language)
    for found in looked_at.findings(report):
        cells = finding_row(found, words)
        assert all(cells)
        assert found.setting in cells[2]


def test_every_code_of_the_findings_is_worded() -> None:
    """Codes that these reports don't have; the checklist's in every state it can be in."""
    words = words_for("en")
    seen = {found.code for found in looked_at.findings(rich()) if found.topic != "checklist"}
    assert {"allocator_retries", "fragmented", "grows", "talks_much", "rank_ended", "times_differ"} <= seen
    for code in ("no_allocator_counters", "much_cached", "not_fragmented", "too_few_steps", "does_not_grow"):
        assert words.has(f"measure.finding.{code}")
    for name in looked_at.checklist(rich()):
        states = ("good", "attention") if name.code == "offload" else ("good", "attention", "unknown")
        assert all(words.has(f"measure.check.{name.code}.{state}") for state in states)


def test_sizes_and_shares_are_written_with_their_units() -> None:
    said = {found.code: finding_text(found, words_for("en")) for found in looked_at.findings(rich())}
    assert "3.00 GiB of 10.00 GiB" in said["fragmented"]
    assert "(30\u00a0%)" in said["fragmented"]
    assert "<code>PYTORCH_ALLOC_CONF=expandable_segments:True</code>" in said["fragmented"]
    assert "Rank 2 spent 40\u00a0%" in said["talks_much"]


def test_ranks_are_drawn_in_order_and_told_in_words() -> None:
    ranks, words = [rank(0, 20), rank(1, 30)], words_for("en")
    figure = rank_bars(ranks, words)
    widths = [shape.x1 for shape in figure.layout.shapes]
    assert widths == [30, 20, 30, 30]
    assert alternative(ranks, words) == "What each rank held at most: rank 0 20.00 GiB; rank 1 30.00 GiB."
    assert held(RankFigures(rank=3, resident_peak_bytes=5)) == 5


def test_a_kept_run_moves_plan_and_map(folder: Path) -> None:
    document = on_a_card()
    before = planned(document)
    assert before.known is not Known.MEASURED
    other = on_a_card(**{"training.micro_batch": 1})
    KeptRuns(folder / "kept").add(kept_from(report_of(other, "cuda", factor=1.2), planned(other), "mine"))
    after = planned(document)
    assert after.known is Known.MEASURED
    assert before.worst.band is not None
    assert after.worst.band is not None
    assert (after.worst.band.basis, after.worst.band.num_rows) == ("kept", 1)
    narrower = after.worst.band.high_bytes / after.worst.band.low_bytes
    assert narrower < before.worst.band.high_bytes / before.worst.band.low_bytes
    grid = limits.fit_grid(document, after)
    assert grid is not None
    assert grid.current is not None
    row, column = grid.current
    assert grid.cells[row][column].verdict is after.verdict


def test_the_same_question_is_answered_by_its_own_run(folder: Path) -> None:
    document = on_a_card()
    report = report_of(document, "cuda", factor=1.1)
    KeptRuns(folder / "kept").add(kept_from(report, planned(document), "mine"))
    band = planned(document).worst.band
    assert band is not None
    assert band.basis == "kept_same"


def test_another_card_or_runtime_is_left_alone(folder: Path) -> None:
    document = on_a_card()
    KeptRuns(folder / "kept").add(kept_from(report_of(document, "cuda"), planned(document), "mine"))
    other = on_a_card(**{"hardware.devices": [{"gpu": "a100-sxm-80gb"}]})
    assert planned(other) == plan_for(Scenario.model_validate(other), tables())
    assert kept_runs.tables_for(Scenario.model_validate(other)) is tables()


def test_removing_the_run_gives_the_published_band_back(folder: Path) -> None:
    document = on_a_card()
    before = planned(document).worst.band
    store = KeptRuns(folder / "kept")
    run = kept_from(report_of(document, "cuda"), planned(document), "mine")
    store.add(run)
    assert planned(document).worst.band != before
    store.remove(run.id)
    assert planned(document).worst.band == before
    assert answer(document).plan is not None


def page() -> None:
    from ui.pages import measure  # noqa: PLC0415

    measure.draw()


@pytest.mark.usefixtures("folder")
def test_a_result_is_kept_listed_and_removed_on_the_page() -> None:
    test = AppTest.from_function(page, default_timeout=60)
    test.session_state["measure_opened"] = rich()
    test.run()
    assert not test.exception
    test.text_input(key="measure_keep_name").set_value("<b>mine</b>").run()
    test.button(key="measure_keep_do").click().run()
    assert not test.exception
    (run,) = KeptRuns().list()
    assert run.name == "<b>mine</b>"
    assert "&lt;b&gt;mine" in html(test)
    test.button(key=f"measure_kept_remove_{run.id}").click().run()
    assert not test.exception
    assert KeptRuns().list() == ()


@pytest.mark.usefixtures("folder")
def test_a_run_that_says_nothing_is_refused_with_its_reason() -> None:
    with pytest.raises(KeptError, match="not_on_a_gpu"):
        kept_from(report_of(tiny(), "cpu"), planned(tiny()), "x")
    codes = json.dumps(list(words_for("en").names("measure.kept.problem")))
    for code in ("not_on_a_gpu", "card_not_known", "no_scenario", "not_completed", "no_driver", "bad_value"):
        assert code in codes
