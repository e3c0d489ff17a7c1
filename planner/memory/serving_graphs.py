"""vLLM's captured graphs: which batch sizes, and what they hold."""

from typing import Final

from planner.hardware import Tables
from planner.ledger import Category, Entry, Layer, Symbol
from planner.memory.serving_demand import Demand, is_v0, version_of
from planner.memory.serving_entry import RUNNING, entry
from planner.model.spec import AttentionKind
from planner.placement import Share
from planner.scenario import Scenario

FULL_GRAPHS: Final = (0, 11)
"""From here on decode steps are captured a second time as full graphs."""


def captured_batches(largest: int) -> list[int]:
    """Batch sizes a graph is captured for: 1, 2, 4, every 8 below 256, every 16 up to the largest."""
    return [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)) if size <= largest]


def capture_sizes(largest: int) -> int:
    """How many those are."""
    return len(captured_batches(largest))


def graph_entries(share: Share, scenario: Scenario, asked: Demand, tables: Tables) -> list[Entry]:
    """Captured graphs: a fixed part and a part per layer for each captured batch size.

    Full graphs of decode steps stand beside the piecewise ones, for batches up to `max_num_seqs`. Latent
    attention holds a workspace of its own in them.
    """
    if scenario.serving.cuda_graphs is False:
        return []
    largest = scenario.serving.cuda_graph_max_batch or min(2 * asked.max_sequences, 512)
    graphs = capture_sizes(largest)
    if version_of(scenario) >= FULL_GRAPHS and not is_v0(scenario):
        graphs += capture_sizes(min(largest, asked.max_sequences))
    symbols: tuple[Symbol, ...] = (
        ("g", graphs),
        ("c_0", tables.value("vllm_graph_bytes")),
        ("c_L", tables.value("vllm_graph_layer_bytes")),
        ("L", len(share.layers)),
    )
    formula = "g*(c_0 + c_L*L)"
    if any(layer.attention.kind is AttentionKind.MLA for layer in share.layers):
        formula = f"{formula} + c_m"
        symbols = (*symbols, ("c_m", tables.value("vllm_graph_latent_bytes")))
    return [
        entry(
            Category.ALLOCATOR, "cuda_graphs", formula, symbols, "vllm_cuda_graphs",
            phases=RUNNING, layer=Layer.RESERVED, estimate=True,
        )
    ]  # fmt: skip
