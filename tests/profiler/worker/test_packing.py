"""Batches of several documents a row."""

from typing import Any

import pytest

from planner.scenario import Scenario, Training
from profiler.worker.packing import is_packed, lengths, positions
from profiler.worker.workloads import CannotBuildError, build
from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.cases import BERT, KEPT, PACKED, PADDING_FREE


def _training(**fields: Any) -> Training:
    return Training(**({"micro_batch": 2, "sequence_length": 5} | fields))


def test_positions_begin_anew_with_every_document() -> None:
    packed = _training(packing="packed")
    assert positions(packed, "cpu").tolist() == [[0, 1, 2, 0, 1]] * 2
    free = _training(packing="padding_free")
    assert positions(free, "cpu").tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]]
    assert lengths(free) == (1, 10, 5)


def test_one_document_a_row_is_not_packed() -> None:
    assert not is_packed(_training())
    assert not is_packed(_training(packing="none"))
    assert not is_packed(_training(packing="padding_free", micro_batch=1))
    assert not is_packed(_training(packing="packed", sequence_length=1))
    assert is_packed(_training(packing="packed"))


@pytest.mark.parametrize("changes", [PACKED, PADDING_FREE, PACKED | KEPT])
def test_documents_do_not_see_each_other(changes: dict[str, Any]) -> None:
    """The second document's loss does not change with the first one's tokens."""
    work = build(Scenario.model_validate(scenario(LLAMA, **changes)), LLAMA, "cpu")
    batch = work.make_batch()
    second = int((batch["position_ids"][0] == 0).nonzero()[1])
    inputs = {"input_ids": batch["input_ids"], "position_ids": batch["position_ids"]}
    before = work.model(**inputs).logits[:, second:].detach().clone()
    batch["input_ids"][:, :second] = 7
    after = work.model(**inputs).logits[:, second:]
    assert (before - after).abs().max() < 1e-5


def test_an_encoder_is_not_packed() -> None:
    document = scenario(BERT, **PACKED)
    with pytest.raises(CannotBuildError) as refused:
        build(Scenario.model_validate(document), BERT, "cpu")
    assert refused.value.remark.field == "training.packing"
