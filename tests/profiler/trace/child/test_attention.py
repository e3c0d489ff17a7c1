"""Every kernel is reached, by the cards, formats and calls that PyTorch gives it."""

from typing import Any

import pytest

from planner.scenario import Scenario
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Attention, Target
from profiler.trace.record import Trace
from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.cases import BERT, BF16, FP16, GEMMA3, PACKED, PADDING_FREE, SDPA

TURING, AMPERE, GEFORCE, HOPPER = (7, 5), (8, 0), (8, 9), (9, 0)
KERNELS = {
    "flash": "aten::_scaled_dot_product_flash_attention",
    "efficient": "aten::_scaled_dot_product_efficient_attention",
    "cudnn": "aten::_scaled_dot_product_cudnn_attention",
    "math": "aten::_safe_softmax",
    "eager": "aten::_softmax",
    "lengths": "aten::_flash_attention_forward",
}
ONE_LAYER = LLAMA | {"num_hidden_layers": 1}
"""A kernel is chosen by a layer's heads, so one layer shows it."""
WIDE_HEADS = ONE_LAYER | {"head_dim": 200}
ODD_HEADS = ONE_LAYER | {"head_dim": 26}


def _traced(
    config: dict[str, Any],
    changes: dict[str, Any],
    capability: tuple[int, int],
    attention: Attention = "auto",
) -> Trace:
    document = scenario(config, **changes)
    target = Target(compute_capability=capability, attention=attention)
    return make_trace(Scenario.model_validate(document), document, config, target)


def _kernels(trace: Trace) -> set[str]:
    words = set(trace.storages.words)
    return {name for name, op in KERNELS.items() if op in words}


@pytest.mark.parametrize(
    ("config", "changes", "capability", "kernel"),
    [
        (ONE_LAYER, BF16 | SDPA, AMPERE, {"flash"}),
        (ONE_LAYER, BF16 | SDPA, HOPPER, {"cudnn"}),
        (ONE_LAYER, FP16 | SDPA, TURING, {"math"}),  # keys are grouped: no kernel of that card takes them
        (BERT, FP16 | SDPA, TURING, {"efficient"}),
        (BERT, SDPA, AMPERE, {"efficient"}),  # fp32
        (ONE_LAYER, SDPA, HOPPER, {"math"}),  # fp32 and grouped
        (ONE_LAYER, BF16 | SDPA | PACKED, AMPERE, {"efficient"}),  # a mask
        (ONE_LAYER, BF16 | SDPA | PACKED, HOPPER, {"cudnn"}),
        (WIDE_HEADS, BF16 | SDPA, HOPPER, {"flash"}),  # beyond cuDNN's heads
        (WIDE_HEADS, BF16 | SDPA, GEFORCE, {"math"}),  # no backward pass for such heads on smaller chips
        (ODD_HEADS, BF16 | SDPA, HOPPER, {"flash"}),  # padded to a multiple of 8
        (ONE_LAYER, BF16, HOPPER, {"eager"}),
    ],
)
def test_the_kernel_is_the_one_pytorch_takes(
    config: dict[str, Any], changes: dict[str, Any], capability: tuple[int, int], kernel: set[str]
) -> None:
    assert _kernels(_traced(config, changes, capability)) == kernel


@pytest.mark.parametrize(
    ("asked", "kernel"), [("efficient", "efficient"), ("cudnn", "cudnn"), ("math", "math")]
)
def test_a_kernel_can_be_asked_for(asked: Attention, kernel: str) -> None:
    assert _kernels(_traced(BERT, BF16 | SDPA, HOPPER, asked)) == {kernel}


@pytest.mark.parametrize("changes", [PACKED, PADDING_FREE])
def test_flash_is_told_documents_by_their_lengths(changes: dict[str, Any]) -> None:
    trace = _traced(ONE_LAYER, BF16 | SDPA | changes, AMPERE, "flash")
    assert _kernels(trace) == {"lengths"}
    assert "flash_backward_workspace" in {one.name for one in trace.workspaces}
    square = [shape for shape in trace.storages.shapes if shape[-2:] in {(40, 40), (80, 80)}]
    assert square == []


def test_a_sliding_window_within_the_sequence_needs_a_mask() -> None:
    """Windows of 16 in 40 positions: of the layers, those with a window get a mask, the others flash."""
    assert _kernels(_traced(GEMMA3, BF16 | SDPA, AMPERE)) == {"efficient"}
    assert _kernels(_traced(GEMMA3 | {"sliding_window": 64}, BF16 | SDPA, AMPERE)) == {"flash"}
