"""The open job on a build: how it is divided, the largest model, the longest sequence."""

from __future__ import annotations

from typing import Any

import pytest

from planner.plan_types import Verdict
from ui.answers import answer, tables
from ui.buy.answers import CONTEXT_STEP, largest_model, longest_context, on_build
from ui.document import put, put_all
from ui.examples import default_document

TRAIN: dict[str, Any] = {
    "version": 1,
    "task": "qlora",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "rtx-4090-24gb"}]},
    "adapter": {"method": "lora", "rank": 16, "base": "nf4"},
    "training": {"micro_batch": 1, "sequence_length": 2048, "checkpointing": "full"},
}
SERVE: dict[str, Any] = {
    "version": 1,
    "task": "serve",
    "model": {"id": "meta-llama/Llama-3.1-70B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 4}]},
    "runtime": {"name": "vllm"},
    "parallel": {"tensor": 4},
    "serving": {"max_model_len": 8192},
    "workload": {"concurrency": 4},
}


def test_the_open_question_is_its_own_build() -> None:
    document = default_document()
    found = on_build(document, document["hardware"]["devices"])
    assert (found.divided, found.document) == ("as_asked", document)
    asked = answer(document).plan
    assert found.plan is not None
    assert asked is not None
    assert found.plan.worst == asked.worst


def test_a_job_in_six_stages_is_divided_anew_on_eight_cards() -> None:
    found = on_build(default_document(), [{"gpu": "h100-sxm-80gb", "count": 8}])
    assert found.divided == "sharded"
    assert found.fits
    assert found.plan is not None
    assert found.plan.resolved.hardware.num_devices == 8
    assert found.rate is not None


def test_tensor_parallel_follows_the_number_of_cards() -> None:
    found = on_build(SERVE, [{"gpu": "h200-sxm-141gb", "count": 2}])
    assert found.divided == "tensor"
    assert found.plan is not None
    assert found.plan.resolved.parallel.tensor == 2


def test_cards_that_lack_a_format_do_not_fit() -> None:
    document = put(TRAIN, "training.precision.compute", "bf16")
    found = on_build(document, [{"gpu": "v100-sxm-32gb", "count": 1}])
    assert not found.fits
    assert found.issue is not None
    assert found.rate is None


@pytest.mark.parametrize("document", [TRAIN, SERVE], ids=["train", "serve"])
def test_the_longest_sequence_fits_and_the_next_one_does_not(document: dict[str, Any]) -> None:
    rows = (
        [{"gpu": "rtx-3090-24gb", "count": 1}]
        if document is TRAIN
        else [{"gpu": "a100-sxm-80gb", "count": 4}]
    )
    found = on_build(document, rows)
    longest = longest_context(found)
    assert longest
    field = "training.sequence_length" if document is TRAIN else "serving.max_model_len"
    step = 128 if document is TRAIN else CONTEXT_STEP
    whole = put_all(found.document, {"workload.prompt_tokens": None, "workload.output_tokens": None})
    verdicts = [answer(put(whole, field, tokens)).plan for tokens in (longest, longest + step)]
    assert verdicts[0] is not None
    assert verdicts[0].verdict is Verdict.FITS
    limit = verdicts[0].model.max_position_embeddings or 0
    assert longest + step > limit or (verdicts[1] is not None and verdicts[1].verdict is not Verdict.FITS)


def test_the_largest_model_is_the_largest_that_fits() -> None:
    found = on_build(TRAIN, [{"gpu": "l4-24gb", "count": 1}])
    largest = largest_model(found)
    assert largest is not None
    rows = tables().models
    size = rows[largest]["params_total"]
    for model_id in rows:
        params = rows[model_id].get("params_total")
        if not isinstance(params, int) or not isinstance(size, int) or not size < params < 2 * size:
            continue
        plan = answer(put(found.document, "model", {"id": model_id})).plan
        assert plan is None or plan.verdict is not Verdict.FITS, model_id


def test_nothing_is_said_of_cards_of_unknown_size() -> None:
    found = on_build(TRAIN, [{"gpu": "unknown", "count": 1}])
    assert largest_model(found) is None
    assert longest_context(found) is None
