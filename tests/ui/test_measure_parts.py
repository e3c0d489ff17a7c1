"""Before and around a measurement: the machine, small copies, shared jobs, states."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import pytest

import run
from planner.trial import with_layers
from planner.validation import parse_scenario
from profiler import nvml
from profiler.documents import Options
from profiler.job_types import ExitReason, JobState, Snapshot
from profiler.nvml import Nvml
from profiler.plan_request import predicted_bytes, prepare
from profiler.registry import Busy
from profiler.runnable import why_not_runnable
from profiler.runner import Patience
from tests.profiler import jobs as stub
from tests.profiler.fake_nvml import Card, FakeNvml, failure, memory
from tests.ui.measure_cases import GIB, on_a_card, planned, report_of, tiny
from ui.document import put_all
from ui.examples import STORIES, story_document
from ui.measure import machine, wording
from ui.measure.jobs import Jobs, Run
from ui.measure.small_copy import MOST_ON_CPU_BYTES, SHARE_OF_FREE, narrowed, small_copy
from ui.measure.states import State, before_start, of_job
from ui.words import Words, words_for

if TYPE_CHECKING:
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
