"""Limits, maps and changes are real plans: each is checked by planning it again."""

from __future__ import annotations

import pytest

from planner.advise.training import FIRST_ADAPTER
from planner.plan_types import Plan, Verdict
from ui.answers import answer
from ui.changes import OTHER_JOBS, Outcome, first_that_fits, outcomes
from ui.document import Document, get, put, put_all
from ui.examples import STORIES, story_document
from ui.limits import fit_grid, largest_micro_batch, largest_sequence, size_steps, token_steps
from ui.tasks import TASKS, with_task

SEQUENCE = "training.sequence_length"
MICRO_BATCH = "training.micro_batch"
SMALL: Document = {
    "version": 1,
    "task": "full",
    "model": {"id": "openai-community/gpt2"},
    "hardware": {"devices": [{"gpu": "rtx-3090-24gb", "count": 1}]},
    "training": {"sequence_length": 512},
}


def planned(document: Document) -> Plan:
    found = answer(document)
    assert found.plan is not None, found.issues
    return found.plan


def test_the_largest_micro_batch_fits_and_a_larger_one_does_not() -> None:
    most = largest_micro_batch(SMALL, planned(SMALL))
    assert planned(put(SMALL, MICRO_BATCH, most)).verdict is Verdict.FITS
    assert planned(put(SMALL, MICRO_BATCH, most + 1)).verdict is not Verdict.FITS


def test_the_longest_sequence_stays_within_the_model() -> None:
    assert largest_sequence(SMALL, planned(SMALL)) == 1024
    assert planned(put(SMALL, SEQUENCE, 1024)).verdict is Verdict.FITS


def test_the_longest_sequence_is_the_last_step_that_fits() -> None:
    long = put(SMALL, MICRO_BATCH, 24)
    most = largest_sequence(long, planned(long))
    assert 0 < most < 1024
    assert planned(put(long, SEQUENCE, most)).verdict is Verdict.FITS
    assert planned(put(long, SEQUENCE, most + 128)).verdict is not Verdict.FITS


def test_every_cell_of_the_map_is_the_plan_of_its_sizes() -> None:
    grid = fit_grid(SMALL, planned(SMALL))
    assert grid is not None
    assert grid.current == (0, grid.columns.index(512))
    for size, row in zip(grid.rows, grid.cells, strict=True):
        for tokens, cell in zip(grid.columns, row, strict=True):
            asked = put_all(SMALL, {MICRO_BATCH: size, SEQUENCE: tokens})
            if tokens > 1024:
                assert [issue.code for issue in answer(asked).errors] == ["sequence_beyond_positions"]
                assert (cell.headroom_bytes, cell.verdict) == (None, None)
                continue
            again = planned(asked)
            assert (cell.headroom_bytes, cell.verdict) == (again.worst.headroom_bytes, again.verdict)


@pytest.mark.parametrize("value", [1, 2, 3, 7, 512, 4096, 5000, 100_000])
def test_the_map_holds_the_question_itself(value: int) -> None:
    assert value in size_steps(value)
    assert value in token_steps(value)
    for most in (value, 2 * value, 64 * value):
        assert value in token_steps(value, most)


def test_steps_stop_at_the_models_limit() -> None:
    assert token_steps(131_072, 131_072) == (8192, 16_384, 32_768, 65_536, 131_072)
    assert token_steps(32_768, 131_072) == (8192, 16_384, 32_768, 65_536, 131_072)
    assert token_steps(4096, 131_072) == token_steps(4096)


@pytest.mark.parametrize("story", STORIES)
def test_changes_are_planned_and_ordered(story: str) -> None:
    document = story_document(story)
    plan = planned(document)
    found = outcomes(document, plan)
    assert found
    for outcome in found:
        assert planned(outcome.change.document) == outcome.plan
        assert outcome.delta_bytes == outcome.plan.worst.peak_bytes - plan.worst.peak_bytes
        assert (outcome.delta_bytes > 0) == outcome.change.grows
    best = first_that_fits(found)
    if plan.verdict is not Verdict.FITS and best is not None:
        assert best is found[0]


def test_llama_cpp_is_offered_its_own_formats_and_no_tensor_parallelism() -> None:
    document: Document = {
        "version": 1,
        "task": "serve",
        "model": {"id": "meta-llama/Llama-3.1-8B"},
        "hardware": {"devices": [{"gpu": "rtx-4090-24gb", "count": 1}]},
        "runtime": {"name": "llama_cpp"},
        "serving": {"weights": "fp16", "kv_cache": "fp16", "max_model_len": 16384},
    }
    found = {outcome.change.name: outcome for outcome in outcomes(document, planned(document))}
    assert {"kv_q8_0", "weights_q4_k_m", "double_cards_split"} <= found.keys()
    assert not found.keys() & {"kv_fp8", "weights_fp8", "weights_awq4", "double_cards"}
    assert get(found["double_cards_split"].change.document, "parallel.tensor") in (None, 1)
    assert all(not answer(outcome.change.document).errors for outcome in found.values())


def test_other_jobs_are_names_of_changes() -> None:
    seen = {o.change.name for story in STORIES for o in _outcomes(story)}
    assert OTHER_JOBS & seen


def _outcomes(story: str) -> tuple[Outcome, ...]:
    document = story_document(story)
    return outcomes(document, planned(document))


def test_a_task_takes_its_blocks_along_and_gives_them_back() -> None:
    aside: dict[str, object] = {}
    document = story_document(STORIES[2])
    for task in TASKS:
        changed = with_task(document, task, aside)
        assert get(changed, "task") == task
        assert ("adapter" in changed) == (task in {"lora", "qlora"})
        assert with_task(changed, "qlora", aside)["adapter"]["base"] == "nf4_dq"


def test_a_first_adapter_is_complete() -> None:
    document = with_task(SMALL, "lora", {})
    assert document["adapter"] == FIRST_ADAPTER
    assert answer(document).plan is not None


def test_put_leaves_the_given_document_alone() -> None:
    before = story_document(STORIES[0])
    put(before, "training.micro_batch", 9)
    put(before, "hardware.devices.1.count", 9)
    assert before == story_document(STORIES[0])


def test_taking_a_field_out_takes_empty_blocks_with_it() -> None:
    document: Document = {"parallel": {"offload": {"optimizer": "cpu"}}, "task": "full"}
    assert put(document, "parallel.offload.optimizer", None) == {"task": "full"}
    assert put({"hardware": {"devices": [{"gpu": "a", "count": 1}]}}, "hardware.devices.0.count", None) == {
        "hardware": {"devices": [{"gpu": "a"}]}
    }
