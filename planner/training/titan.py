"""What torchtitan does by its version, and PyTorch's pipelines and kernels below it.

Versions are months of its main branch, (year, month), () where the scenario has none: the newest habit is meant then.
"""

from typing import Final

NAME: Final = "torchtitan"
GATE_AGAIN_SINCE: Final = (2025, 7)
"""Selective checkpointing neither keeps nor counts the router's product from here on (pull request 1380)."""
EXCHANGE_KEPT_SINCE: Final = (2025, 9)
"""It keeps what the experts' all-to-alls put out (pull request 1672)."""
FUSED_NORM_SINCE: Final = (2025, 8)
"""PyTorch has one CUDA kernel for an RMS norm, which keeps its input and a number a token (pull request 153666)."""
COMBINED_BY_PRODUCT: Final = (2025, 11), (2026, 4)
"""From the first to before the second, experts' outputs are put in the tokens' order and combined by a product with the
routing weights (pull request 1974), then again by `scatter_add` (2775)."""
PRODUCTS_KEPT_SINCE: Final = (2026, 2)
"""Selective checkpointing keeps that product too: PyTorch's list of expensive operators has `aten.bmm` (2357)."""
GROUPS_SINCE: Final = (2026, 2)
"""Attention is asked to group queries; before, keys and values were copied for every query head (2259)."""
WHOLE_GRAPH_SINCE: Final = (2026, 3)
"""Compiled models with routed experts run in its graph trainer: forward, loss and backward pass are one graph, run
operator by operator; the compiler makes kernels of the attention alone (`inductor_compilation="regional"`)."""
OWN_OUTPUTS_SINCE: Final = (2025, 5)
"""Only the last pipeline stage keeps its outputs to the end of the step; before, each did (PyTorch 153383)."""
OUTPUTS_DROPPED_SINCE: Final = (2025, 11)
"""No stage keeps them (`return_outputs=False`, PyTorch 165822)."""
LOSS_ALONE_SINCE: Final = (2025, 8)
LOSS_ALONE: Final = frozenset({"deepseek_v3"})
"""Model types whose own configs compile the loss and leave the model (`components = ["loss"]`)."""


def since(runtime: str, version: tuple[int, ...], first: tuple[int, int]) -> bool:
    """Whether this is torchtitan of that month or later, or of no stated version."""
    return runtime == NAME and (not version or version >= first)


def runs_whole_graph(runtime: str, version: tuple[int, ...], *, compiled: bool, routed: bool) -> bool:
    """Whether the step is captured as one graph; where no version is stated, the plain trainer is meant."""
    return compiled and routed and bool(version) and since(runtime, version, WHOLE_GRAPH_SINCE)


def compiles_loss_alone(runtime: str, version: tuple[int, ...], model_type: str) -> bool:
    """Whether the loss is compiled though the model is not."""
    return model_type in LOSS_ALONE and since(runtime, version, LOSS_ALONE_SINCE)


def combines_by_product(runtime: str, version: tuple[int, ...]) -> bool:
    """Whether all of a rank's tokens have their experts' outputs in fp32 side by side, even where ranks share them."""
    first, after = COMBINED_BY_PRODUCT
    return runtime == NAME and bool(version) and first <= version < after


def spreads_tokens(runtime: str, *, expert: int, expert_tensor: int, tensor: int) -> bool:
    """Whether tensor ranks send out a part of the tokens each, as experts are not cut (`ReordererSequenceParallel`)."""
    return runtime == NAME and expert > 1 and expert_tensor == 1 and tensor > 1
