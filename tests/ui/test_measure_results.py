"""After a measurement: what is said of it, its figures, and that every code of the profiler has words."""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import run
from planner.ledger import Layer, Phase
from profiler.compare import BUNDLES
from profiler.documents import Remark
from profiler.report import OutOfMemory
from tests.ui.measure_cases import GIB, on_a_card, report_of, tiny
from ui.charts import measure_live, measure_parts, measure_steps
from ui.document import get
from ui.measure import wording
from ui.measure.result import ELSE, question_of, result_of, total
from ui.words import Words, words_for

if TYPE_CHECKING:
    from pathlib import Path

    from profiler.documents import DeviceKind

MIB = 1 << 20
PROFILER = run.ROOT / "profiler"
LONG = {"training.sequence_length": 512, "training.micro_batch": 8}


@pytest.fixture
def words() -> Words:
    return words_for("en")


# ---------------------------------------------------------------- results


def test_a_report_that_equals_the_plan_says_so(words: Words) -> None:
    result = result_of(report_of(tiny(), "cpu"))
    assert result.headline_layer is Layer.ALLOCATED
    assert result.headline.gap_bytes == 0
    assert "as predicted" in wording.result_title(result, words)
    assert "Within 1 %" in wording.result_tag(result, words)
    assert "Every part agrees" in wording.result_why(result, words)
    assert result.in_band is None


def test_a_gap_is_explained_by_its_entry_and_its_sign(words: Words) -> None:
    result = result_of(report_of(tiny(**LONG), "cpu", factor=0.9))
    assert result.gaps[0].name == "saved_activations"
    assert (result.gaps[0].gap_bytes or 0) > 0  # too much was predicted
    assert wording.result_title(result, words).endswith("high")
    assert "“Saved activations”" in wording.result_why(result, words)
    assert "more were predicted" in wording.result_why(result, words)
    low = result_of(report_of(tiny(**LONG), "cpu", factor=1.5))
    assert wording.result_title(low, words).endswith("low")
    assert "less were predicted" in wording.result_why(low, words)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gaps_and_parts_add_up_to_the_headline(device: DeviceKind) -> None:
    document = tiny() if device == "cpu" else on_a_card()
    result = result_of(report_of(document, device, factor=0.9))
    for pairs in (result.gaps, result.parts):
        assert total(pairs).measured_bytes == result.headline.measured_bytes
    assert total(result.gaps).predicted_bytes == total(result.parts).predicted_bytes
    assert ELSE not in {pair.name for pair in result.parts}


def test_a_peak_in_another_phase_is_said(words: Words) -> None:
    result = result_of(report_of(tiny(**{"training.sequence_length": 120}), "cpu", factor=0.1))
    assert (result.peak, result.expected) == (Phase.OPTIMIZER_STEP, Phase.LOSS)
    told = wording.result_why(result, words)
    assert told.startswith("The fullest moment came in the optimizer step and was expected while the loss")


def test_a_card_is_judged_by_the_band_of_the_process(words: Words) -> None:
    near = result_of(report_of(on_a_card(), "cuda"))
    assert near.headline_layer is Layer.PROCESS
    assert near.in_band is True
    assert "Inside the band" in wording.result_tag(near, words)
    far = result_of(report_of(on_a_card(), "cuda", factor=0.3))
    assert far.in_band is False
    assert "Outside the band" in wording.result_tag(far, words)


def test_missing_layers_are_a_dash_with_a_reason(words: Words) -> None:
    on_cpu = dict(zip(Layer, wording.strip(result_of(report_of(tiny(), "cpu")), words), strict=False))
    assert on_cpu[Layer.RESERVED][1:] == ("–", "no caching allocator on a processor")
    assert on_cpu[Layer.DEVICE][1:] == ("–", "no GPU in this measurement")
    assert on_cpu[Layer.PROCESS][2] == "host memory, libraries included"
    report = report_of(on_a_card(), "cuda")
    bare = report.model_copy(update={"readings": type(report.readings)()})
    cells = dict(zip(Layer, wording.strip(result_of(bare), words), strict=False))
    assert cells[Layer.PROCESS][1:] == ("–", "NVML does not list this process")
    assert cells[Layer.DEVICE][1:] == ("–", "NVML did not say")


def test_out_of_memory_says_where_and_whether_the_plan_knew(words: Words) -> None:
    where = OutOfMemory(step=1, phase="backward", detail="CUDA out of memory")
    small = report_of(on_a_card(), "cuda", outcome="out_of_memory", out_of_memory=where, steps=())
    result = result_of(small)
    assert wording.result_title(result, words).startswith("Out of memory, in the backward pass, with ")
    assert "The plan said that it fits" in wording.result_why(result, words)
    large = on_a_card(**{"training.micro_batch": 64})
    told = report_of(large, "cuda", outcome="out_of_memory", out_of_memory=where, steps=())
    assert "The plan said so" in wording.result_why(result_of(told), words)
    early = report_of(
        on_a_card(),
        "cuda",
        outcome="out_of_memory",
        phases=(),
        steps=(),
        out_of_memory=where.model_copy(update={"step": 0}),
    )
    assert "while the model was built" in wording.result_title(result_of(early), words)


def test_a_report_without_a_plan_is_still_shown(words: Words) -> None:
    report = report_of(tiny(**LONG), "cpu", scenario={"version": 1, "task": "of tomorrow"})
    result = result_of(report)
    assert result.plan is None
    assert wording.result_title(result, words).startswith("Measured 0.")
    assert "No prediction" in wording.result_tag(result, words)
    assert "can’t be planned" in wording.result_why(result, words)
    assert (result.gaps, result.parts) == ((), ())


def test_a_model_that_is_not_in_the_catalogue_goes_by_its_config() -> None:
    report = report_of(tiny(), "cpu")
    elsewhere = {**report.scenario, "model": {"id": "somebody/unheard-of"}}
    assert get(question_of(report.model_copy(update={"scenario": elsewhere})), "model.id") is None


# ---------------------------------------------------------------- figures


def test_the_course_shows_every_phase_of_every_step_in_order(words: Words) -> None:
    result = result_of(report_of(tiny(), "cpu", factor=0.9))
    spans = measure_steps.spans(result)
    assert [span.phase for span in spans] == [
        *(Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER_STEP) * 2
    ]
    assert all(a.end_s == b.start_s for a, b in pairwise(spans))
    figure = measure_steps.memory_over_steps(result, words)
    names = [trace.name for trace in figure.data]
    assert names == ["predicted", "measured"]
    measured = list(figure.data[1].y)
    assert max(measured) == pytest.approx((result.headline.measured_bytes or 0) / GIB)
    assert len(figure.layout.shapes) == 2  # one column for each way back
    alternative = measure_steps.alternative(result, words)
    assert alternative.count("measured") >= 4


def test_a_report_without_steps_has_an_empty_course(words: Words) -> None:
    result = result_of(report_of(tiny(), "cpu", steps=()))
    assert measure_steps.spans(result) == ()
    assert measure_steps.num_steps(result.report) == 0
    assert measure_steps.memory_over_steps(result, words).data[1].y == ()


def test_bars_of_parts_are_the_gaps(words: Words) -> None:
    result = result_of(report_of(on_a_card(), "cuda", factor=0.9))
    figure = measure_parts.part_bars(result.parts, words, 2)
    lengths = {bar.name: bar.x[0] for bar in figure.data}
    for pair in result.parts:
        assert lengths[pair.name] == pytest.approx((pair.gap_bytes or 0) / GIB)
    low, high = figure.layout.xaxis.range
    assert low < min(lengths.values()) <= max(lengths.values()) < high
    assert "Activations" in measure_parts.alternative(result.parts, words, 2)


def test_the_live_line_keeps_the_newest_reading_and_its_phases(words: Words) -> None:
    report = report_of(tiny(), "cpu")
    sample = report.samples[0]
    many = tuple(
        sample.model_copy(
            update={"at_s": n / 10, "resident_bytes": n, "phase": "backward" if n % 2 else None}
        )
        for n in range(1001)
    )
    figure = measure_live.live_memory(many, words)
    assert len(figure.data[0].x) <= measure_live.MOST_POINTS
    assert figure.data[0].x[-1] == many[-1].at_s
    assert len(measure_live.columns(many)) == 500
    nothing = sample.model_copy(update={"resident_bytes": None, "device_used_bytes": None})
    assert measure_live.live_memory((nothing,), words).data[0].y == (None,)  # unknown is a hole, not 0


# ---------------------------------------------------------------- words


def codes_of(path: Path) -> set[str]:
    """Codes that a module of the profiler gives to `Remark`, `_refuse`, `_unless` and `cannot_build`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        place = {"_refuse": 0, "cannot_build": 0, "_unless": 3}.get(called)
        given = [node.args[place]] if place is not None and len(node.args) > place else []
        given += [word.value for word in node.keywords if called == "Remark" and word.arg == "code"]
        found |= {
            each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)
        }
    return found


def test_every_remark_of_the_profiler_has_words(words: Words) -> None:
    codes = {
        code
        for folder in ("", "worker")
        for path in (PROFILER / folder).glob("*.py")
        for code in codes_of(path)
    }
    codes.discard("will_not_fit")  # a state of the page, not a line of it
    assert len(codes) > 15
    assert sorted(code for code in codes if not words.has(f"measure.remark.{code}")) == []


def test_every_bundle_has_words(words: Words) -> None:
    names = {bundle.name for bundle in BUNDLES} | {"cache", "context", ELSE}
    assert sorted(name for name in names if not words.has(f"measure.bundle.{name}")) == []


def test_a_remark_nobody_worded_is_shown_by_its_code(words: Words) -> None:
    assert "brand_new" in wording.remark_text(Remark(code="brand_new"), words)
