"""Every kind of checkpointing gives the plain gradients and keeps less."""

from typing import Any

import pytest
import torch

from planner.scenario import Scenario
from profiler.worker.checkpoints import EAGER, MARK
from profiler.worker.tracker import Tracker
from profiler.worker.workloads import CannotBuildError, Workload, build
from tests.profiler.scenarios import GPT2, LLAMA, scenario
from tests.profiler.trace.cases import (
    BY_ATTENTION,
    BY_OPERATOR,
    CHECKPOINTED,
    EVERY_TWO,
    QV,
    REENTRANT,
    SDPA,
    T5,
)

DEEP = LLAMA | {"num_hidden_layers": 4}
KINDS: dict[str, dict[str, Any]] = {
    "full": CHECKPOINTED,
    "reentrant": REENTRANT,
    "every_two": EVERY_TWO,
    "attention": BY_ATTENTION,
    "operator": BY_OPERATOR,
}


def _built(config: dict[str, Any], **changes: Any) -> Workload:
    torch.manual_seed(0)
    return build(Scenario.model_validate(scenario(config, **changes)), config, "cpu")


def _backward(work: Workload) -> tuple[int, list[Any]]:
    """Bytes alive between the passes beyond the weights, and the gradients."""
    torch.manual_seed(1)
    batch = work.make_batch()
    with Tracker("cpu") as tracker:
        outputs = work.model(**batch)
        loss = outputs["loss"]
        del outputs
        kept = tracker.live_bytes
    loss.backward()
    return kept, [parameter.grad for parameter in work.model.parameters() if parameter.requires_grad]


@pytest.mark.parametrize("config", [DEEP, GPT2], ids=["llama", "gpt2"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_plain_step(kind: str, config: dict[str, Any]) -> None:
    plain_bytes, plain = _backward(_built(config, **{"runtime.name": "hf_trainer"}))
    kept_bytes, found = _backward(_built(config, **KINDS[kind]))
    assert kept_bytes < plain_bytes
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_kept_falls_in_the_order_of_the_kinds() -> None:
    kept = {kind: _backward(_built(DEEP, **SDPA, **changes))[0] for kind, changes in KINDS.items()}
    assert kept["every_two"] < kept["full"] < kept["operator"] < kept["attention"]


def test_adapters_train_under_a_reentrant_checkpoint() -> None:
    _, gradients = _backward(_built(LLAMA, **QV, **REENTRANT))
    assert len(gradients) == 2 * 2 * 3
    assert all(gradient is not None for gradient in gradients)


def test_other_models_of_the_process_are_left_alone() -> None:
    """The attention function is wrapped once, and asks each model whether it is meant."""
    _built(LLAMA, **BY_ATTENTION)
    again = _built(LLAMA, **BY_ATTENTION)
    module = __import__(type(again.model).__module__, fromlist=[EAGER])
    assert hasattr(getattr(module, EAGER), MARK)
    plain = _built(LLAMA)
    assert not getattr(plain.model.config, MARK, False)
    assert _backward(plain)[0] > _backward(again)[0]


def test_layers_of_an_encoder_decoder_are_not_grouped() -> None:
    with pytest.raises(CannotBuildError) as refused:
        _built(T5, **EVERY_TWO)
    assert refused.value.remark.field == "training.checkpointing"
