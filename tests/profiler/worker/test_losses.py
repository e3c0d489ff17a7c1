"""Losses in pieces: the numbers of the plain loss, and less memory, in the order that their sources promise."""

from typing import Any

import pytest
import torch
from torch.nn import functional

from planner.scenario import Scenario
from profiler.worker.losses import IGNORED, chunked, fused_linear, why_not_replaceable
from profiler.worker.workloads import CannotBuildError, build
from tests.profiler.scenarios import scenario
from tests.profiler.trace.cases import BERT, GEMMA2

VOCAB, WIDTH, ROWS, TOKENS = 301, 24, 2, 40


def _plain(hidden: Any, weight: Any, bias: Any, labels: Any) -> Any:
    logits = functional.linear(hidden, weight, bias)[:, :-1].float()
    return functional.cross_entropy(
        logits.reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=IGNORED
    )


def _gradients(loss: Any, *, biased: bool, scale: float = 1.0) -> list[Any]:
    torch.manual_seed(1)
    leaves = [torch.randn(ROWS, TOKENS, WIDTH), torch.randn(VOCAB, WIDTH) / 5]
    if biased:
        leaves.append(torch.randn(VOCAB))
    for leaf in leaves:
        leaf.requires_grad_()
    labels = torch.randint(0, VOCAB, (ROWS, TOKENS))
    labels[0, 5:9] = IGNORED
    value = loss(leaves[0], leaves[1], leaves[2] if biased else None, labels) * scale
    value.backward()
    return [value.detach(), *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("loss", [chunked, fused_linear])
def test_pieces_add_up_to_the_plain_loss(loss: Any, biased: bool) -> None:
    for found, wanted in zip(
        _gradients(loss, biased=biased, scale=0.25),
        _gradients(_plain, biased=biased, scale=0.25),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["chunked", "fused_linear"])
@pytest.mark.parametrize(("config", "word"), [(GEMMA2, "final_logit_softcapping"), (BERT, "causal")])
def test_models_whose_head_does_more_are_refused(kind: str, config: dict[str, Any], word: str) -> None:
    document = scenario(config, **{"training.loss": kind})
    with pytest.raises(CannotBuildError) as refused:
        build(Scenario.model_validate(document), config, "cpu")
    assert refused.value.remark.field == "training.loss"
    assert word in str(refused.value.remark.params["detail"])


def test_a_head_that_is_no_linear_says_so() -> None:
    class Model:
        config = object()

        def get_output_embeddings(self) -> Any:
            return torch.nn.Embedding(3, 3)

    assert "Embedding" in why_not_replaceable(Model())
