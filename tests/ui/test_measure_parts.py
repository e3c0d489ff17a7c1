"""The pieces of the Measure page: the machine, small copies, shared jobs, states, results, figures, words."""

from __future__ import annotations

import ast
import dataclasses
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

import run
from planner.ledger import Layer, Phase
from planner.validation import parse_scenario
from profiler import nvml
from profiler.compare import BUNDLES
from profiler.documents import Options, Remark
from profiler.job_types import ExitReason, JobState, Snapshot
from profiler.nvml import Nvml
from profiler.plan_request import predicted_bytes, prepare
from profiler.registry import Busy
from profiler.report import OutOfMemory
from profiler.runnable import why_not_runnable
from profiler.runner import Patience
from tests.profiler import jobs as stub
from tests.profiler.fake_nvml import Card, FakeNvml, failure, memory
from tests.ui.measure_cases import GIB, on_a_card, planned, report_of, tiny
from ui.charts import measure_live, measure_parts, measure_steps
from ui.document import get, put_all
from ui.examples import STORIES, story_document
from ui.measure import machine, wording
from ui.measure.jobs import Jobs, Run
from ui.measure.result import ELSE, question_of, result_of, total
from ui.measure.small_copy import MOST_ON_CPU_BYTES, SHARE_OF_FREE, narrowed, small_copy, with_layers
from ui.measure.states import State, before_start, of_job
from ui.words import Words, words_for

if TYPE_CHECKING:
    from pathlib import Path

    from profiler.documents import DeviceKind
    from profiler.runner import Job

MIB = 1 << 20
PROFILER = run.ROOT / "profiler"
LONG = {"training.sequence_length": 512, "training.micro_batch": 8}


@pytest.fixture
def words() -> Words:
    return words_for("en")


def h100(number: int, used_mib: int = 0) -> Card:
    total_bytes = 81_559 * MIB
    used = used_mib * MIB
    return Card("NVIDIA H100 80GB HBM3", f"GPU-{number}", memory(total_bytes, used, total_bytes - used))


def seen_on(monkeypatch: pytest.MonkeyPatch, library: FakeNvml, torch: str = "2.13.0") -> machine.Here:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(machine, "nvml", lambda: Nvml(library))
    monkeypatch.setattr(machine, "torch_version", lambda: torch)
    return machine.look()


# ---------------------------------------------------------------- the machine


def test_equal_cards_are_one_row_and_what_others_hold_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    here = seen_on(monkeypatch, FakeNvml(h100(0), h100(1), h100(2, used_mib=4096)))
    assert machine.hardware_rows(here.cards) == [
        {"gpu": "h100-sxm-80gb", "count": 2, "memory_bytes": 81_559 * MIB},
        {
            "gpu": "h100-sxm-80gb",
            "count": 1,
            "memory_bytes": 81_559 * MIB,
            "free_bytes": (81_559 - 4096) * MIB,
        },
    ]
    assert (here.spots[0].key, here.spots[0].kind, here.no_cuda) == ("GPU-0", "cuda", "")
    assert here.spots[-1].kind == "cpu"


def test_rows_of_the_machine_are_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Card("NVIDIA Weird 9000", "GPU-9", memory(10 * GIB, 0, 10 * GIB))
    here = seen_on(
        monkeypatch, FakeNvml(odd, Card("NVIDIA Mute", "GPU-8", failure(nvml_code("not_supported"))))
    )
    rows = machine.hardware_rows(here.cards)
    assert [row["gpu"] for row in rows] == ["generic-10gb", "unknown"]
    scenario, issues = parse_scenario(put_all(tiny(), {machine.ROWS: rows}))
    assert scenario is not None, issues
    assert "memory_bytes" not in rows[1]  # unknown is left out, never 0


def nvml_code(reason: str) -> int:
    return next(code for code, name in nvml.REASONS.items() if name == reason)


@pytest.mark.parametrize("reason", ["no_driver", "library_mismatch", "driver_not_loaded", "no_permission"])
def test_no_driver_leaves_the_processor_and_says_why(
    monkeypatch: pytest.MonkeyPatch, words: Words, reason: str
) -> None:
    library = FakeNvml(overrides={"nvmlInit": failure(nvml_code(reason))})
    here = seen_on(monkeypatch, library)
    assert [spot.key for spot in here.spots] == ["cpu"]
    assert here.no_cuda == reason
    assert machine.hardware_rows(here.cards) == []
    assert wording.no_cuda(here, words).startswith(("There is no", "The NVIDIA", "An NVIDIA"))


def test_a_torch_without_cuda_leaves_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    here = seen_on(monkeypatch, FakeNvml(h100(0)), torch="2.13.0+cpu")
    assert [spot.key for spot in here.spots] == ["cpu"]
    assert here.no_cuda == "torch_without_cuda"
    assert len(machine.hardware_rows(here.cards)) == 1  # planning for the card needs no PyTorch


def test_every_reason_of_the_driver_has_words(words: Words) -> None:
    for reason in (*nvml.REASONS.values(), "no_device", "hidden", "never_heard_of"):
        assert wording.reason(reason, words)


def test_unknown_free_memory_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_bytes", lambda: None)
    here = seen_on(monkeypatch, FakeNvml())
    assert here.spots[0].free_bytes is None
    assert here.spots[0].taken_bytes is None


# ---------------------------------------------------------------- small copies


@pytest.mark.parametrize(("device", "free_gib"), [("cpu", 6), ("cpu", None), ("cuda", 23), ("cuda", 8)])
@pytest.mark.parametrize("story", STORIES[:3])
def test_a_small_copy_runs_here_and_fits(story: str, device: DeviceKind, free_gib: int | None) -> None:
    document = story_document(story)
    free = None if free_gib is None else free_gib * GIB
    copy = small_copy(document, planned(document), device, free)
    assert copy is not None
    assert why_not_runnable(copy.plan.resolved, device) == ()
    assert copy.plan.resolved.training.micro_batch == 1
    assert len(copy.plan.devices) == 1
    if free is not None:
        assert prepare(copy.plan, device, free).needed_bytes <= free * SHARE_OF_FREE
    if device == "cpu":
        assert predicted_bytes(copy.plan, device) <= MOST_ON_CPU_BYTES
    changed = {each.field for each in copy.differences}
    assert "model.config.num_hidden_layers" in changed
    assert all(each.asked != each.copy for each in copy.differences)


def test_a_small_copy_keeps_what_can_stay() -> None:
    document = on_a_card(**{"training.micro_batch": 4})
    copy = small_copy(document, planned(document), "cuda", 30 * GIB)
    assert copy is not None
    assert copy.plan.resolved.training.attention == "eager"
    assert copy.plan.resolved.training.precision == planned(document).resolved.training.precision
    assert [each.field for each in copy.differences] == [
        "model.config.num_hidden_layers",
        "training.micro_batch",
    ]


def test_a_server_has_no_small_copy() -> None:
    document = story_document(STORIES[3])
    assert small_copy(document, planned(document), "cpu", 10 * GIB) is None


def test_lists_by_layer_are_cut_with_the_layers() -> None:
    config = {"num_hidden_layers": 4, "layer_types": ["a", "b", "a", "b"], "other": [1, 2]}
    cut = with_layers(config, 2)
    assert cut == {"num_hidden_layers": 2, "layer_types": ["a", "b"], "other": [1, 2]}
    assert with_layers({"model_type": "x"}, 2) is None


def test_widths_are_divided_together_or_not_at_all() -> None:
    config = {
        "hidden_size": 64,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 1001,
        "eos_token_id": 900,
    }
    assert narrowed(config, 4) == {
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "vocab_size": 250,
        "eos_token_id": 0,
    }
    assert narrowed(config | {"hidden_size": 66}, 4) is None
    assert narrowed(config | {"kv_lora_rank": 8}, 4) is None


# ---------------------------------------------------------------- shared jobs


def started(jobs: Jobs, mode: str, session: str = "a", patience: Patience = stub.SHORT) -> Run | Busy:
    def begin() -> Job:
        return stub.start(mode, patience=patience)

    def describe(job: Job) -> Run:
        return Run(job=job, session=session, address="", document={}, asked={}, options=Options())

    return jobs.start("cpu", begin, describe)


def test_two_users_at_once_get_one_job() -> None:
    jobs = Jobs(lambda _: True)
    first = started(jobs, "hang", "a")
    second = started(jobs, "hang", "b")
    assert isinstance(first, Run)
    assert isinstance(second, Busy)
    assert jobs.run("cpu") is first
    jobs.close()
    assert first.job.is_over
    again = started(jobs, "ok", "b")
    assert isinstance(again, Run)
    stub.finish(again.job)


def test_a_job_ends_when_its_page_is_gone_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.measure.jobs.KEEP_EVERY_S", 0.05)
    connected = {"a"}
    jobs = Jobs(lambda session: session in connected)
    patience = dataclasses.replace(stub.SHORT, abandon_after_s=1.0)
    begun = started(jobs, "hang", "a", patience)
    assert isinstance(begun, Run)
    time.sleep(2.0)  # twice the patience: the keeper speaks for the page, whichever page is open
    assert not begun.job.is_over
    connected.clear()
    assert begun.job.wait(stub.LIMIT_S)
    assert begun.job.snapshot().reason is ExitReason.ABANDONED


def test_the_keeper_ends_with_the_last_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ui.measure.jobs.KEEP_EVERY_S", 0.01)
    jobs = Jobs(lambda _: True)
    begun = started(jobs, "ok")
    assert isinstance(begun, Run)
    stub.finish(begun.job)
    stub.until(lambda: jobs._keeper is None)
    assert isinstance(started(jobs, "ok"), Run)  # and starts again with the next
    assert jobs._keeper is not None
    jobs.close()


@pytest.mark.parametrize(
    ("address", "told"), [("", "Another page on this computer"), ("10.0.0.3", "A page at 10.0.0.3")]
)
def test_whose_job_it_is(words: Words, address: str, told: str) -> None:
    jobs = Jobs(lambda _: True)
    begun = started(jobs, "ok")
    assert isinstance(begun, Run)
    assert wording.who(dataclasses.replace(begun, address=address), words) == told
    jobs.close()


# ---------------------------------------------------------------- states


def snapshot(reason: ExitReason | None, **changes: object) -> Snapshot:
    base = Snapshot(state=JobState.ENDED if reason else JobState.RUNNING, reason=reason, started_at="")
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (snapshot(ExitReason.STOPPED), State.STOPPED),
        (snapshot(ExitReason.TIMEOUT), State.TIMEOUT),
        (snapshot(ExitReason.ABANDONED), State.ABANDONED),
        (snapshot(ExitReason.OUT_OF_MEMORY), State.MEMORY_LIMIT),
        (snapshot(ExitReason.COULD_NOT_START), State.COULD_NOT_START),
        (snapshot(ExitReason.REFUSED), State.REFUSED_BY_WORKER),
        (snapshot(ExitReason.CRASHED, exit_code=7), State.CRASHED),
        (snapshot(ExitReason.CRASHED, exit_code=6), State.NO_CUDA),
        (snapshot(ExitReason.CRASHED, exit_code=4), State.MISSING_PACKAGE),
        (snapshot(ExitReason.DONE, report=report_of(tiny(), "cpu")), State.DONE),
        (
            snapshot(ExitReason.DONE, report=report_of(tiny(), "cpu", outcome="out_of_memory")),
            State.OUT_OF_MEMORY,
        ),
        (snapshot(None), State.RUNNING),
        (snapshot(None, state=JobState.STOPPING), State.STOPPING),
    ],
)
def test_every_end_of_a_job_is_a_state(seen: Snapshot, state: State) -> None:
    assert of_job(seen, mine=True) is state


def test_a_running_job_of_somebody_else_is_busy() -> None:
    assert of_job(snapshot(None), mine=False) is State.BUSY


def test_a_start_is_refused_before_it_is_made() -> None:
    plan = planned(tiny())
    assert before_start(prepare(plan, "cpu", 10**12), torch="2") is State.READY
    assert before_start(prepare(plan, "cpu", 10**12), torch="") is State.NO_PYTORCH
    assert before_start(prepare(plan, "cpu", 10**6), torch="2") is State.TOO_LARGE
    refused = planned(tiny(**{"runtime.name": "torchtune"}))
    assert before_start(prepare(refused, "cpu", 10**12), torch="2") is State.REFUSED


def test_every_state_has_its_words(words: Words) -> None:
    for state in State:
        assert words.has(f"measure.tag.{state.value}") or state is State.DONE
        assert words.has(f"measure.title.{state.value}")
        special = {State.READY, State.CRASHED, State.DONE, State.OUT_OF_MEMORY}
        assert words.has(f"measure.why.{state.value}") or state in special


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
