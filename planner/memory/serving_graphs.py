"""vLLM's captured graphs: which batch sizes, and what they hold.

Measured as the engine does, by the free memory that capturing takes: graphs themselves, whose bytes grow with
captured batch sizes and layers; the working tensors of the largest one, whose memory all smaller ones use
again; cuBLAS's workspace on the stream of capture; and on Hopper the partial results of FlashAttention 3.
"""

from typing import Final

from planner.hardware import Tables
from planner.ledger import Category, Entry, Layer, Symbol
from planner.memory.runtime import cublas_workspace_bytes
from planner.memory.serving_demand import Demand, is_v0, version_of
from planner.memory.serving_entry import RUNNING, entry
from planner.memory.serving_forward import forward_width
from planner.memory.weight_formats import config_value
from planner.model.spec import Attention, AttentionKind, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import ceil_div

FULL_GRAPHS: Final = (0, 11)
"""From here on decode steps are captured a second time as full graphs."""
LATENT_SPLITS_FROM: Final = (0, 12)
"""From here on latent attention on Hopper runs in FlashAttention too; FlashMLA did before."""
PREFIX_MASKS_FROM: Final = (0, 13)
"""From here on a picture's tokens see each other in some models, which FlashAttention does not do (not in 0.12,
in 0.16)."""
PREFIX_MASKED: Final = frozenset({"gemma3", "paligemma", "bagel", "molmo2"})
SPLITS: Final = 32
"""`flash_attn_max_num_splits_for_cuda_graph`."""
WIDEST_HEAD: Final = 256
"""Widest head of FlashAttention 3; latent attention has a kernel of its own."""
HOPPER: Final = 9
SCORED: Final = frozenset({AttentionKind.FULL, AttentionKind.SLIDING, AttentionKind.CHUNKED})


def captured_batches(largest: int) -> list[int]:
    """Batch sizes a graph is captured for: 1, 2, 4, every 8 below 256, every 16 up to the largest."""
    return [size for size in (1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)) if size <= largest]


def capture_sizes(largest: int) -> int:
    """How many those are."""
    return len(captured_batches(largest))


def graph_entries(
    share: Share, scenario: Scenario, model: ModelSpec, asked: Demand, tables: Tables
) -> list[Entry]:
    """Captured graphs of vLLM: sizes times layers (and one part for embedding and output), and what they share.

    Full graphs of decode steps stand beside the piecewise ones, for batches up to `max_num_seqs`.
    """
    if scenario.serving.cuda_graphs is False:
        return []
    largest = scenario.serving.cuda_graph_max_batch or min(2 * asked.max_sequences, 512)
    decoding = min(largest, asked.max_sequences)
    full = version_of(scenario) >= FULL_GRAPHS and not is_v0(scenario)
    graphs = capture_sizes(largest) + (capture_sizes(decoding) if full else 0)
    width = forward_width(share, model)
    symbols: tuple[Symbol, ...] = (
        ("g", graphs),
        ("c_L", tables.value("vllm_graph_layer_bytes")),
        ("L", len(share.layers)),
        ("T", largest),
        ("m", width.inner),
        ("h", width.hidden),
        ("e", 4 if scenario.serving.weights == "fp32" else 2),
        ("b", cublas_workspace_bytes(share.gpu)),
    )
    formula = "g*c_L*(L + 1) + T*(m + 3*h)*e + b"
    split = split_attention(share, scenario, model) if full else None
    if split is not None:
        formula = f"{formula} + k*H*U*(v + 1)*4"
        heads = ceil_div(split.num_heads, share.tensor)
        symbols = (*symbols, ("k", SPLITS), ("H", heads), ("U", decoding), ("v", _value_width(split)))
    return [
        entry(
            Category.ALLOCATOR, "cuda_graphs", formula, symbols, "vllm_cuda_graphs",
            phases=RUNNING, layer=Layer.RESERVED, estimate=True,
        )
    ]  # fmt: skip


def split_attention(share: Share, scenario: Scenario, model: ModelSpec) -> Attention | None:
    """The widest attention whose partial results full graphs hold; None where none are.

    FlashAttention 3 cuts the cached tokens of a decode step into parts and joins them after. Within a graph
    their number can't change, so buffers of 32 parts are made, in 32 bit, with a sum for each: parts x heads x
    tokens x (width of a value + 1). Other cards, fp32, and masks that it lacks run in other kernels.
    """
    capability = share.gpu.compute_capability
    if capability is None or capability[0] != HOPPER or scenario.serving.weights == "fp32":
        return None
    if version_of(scenario) >= PREFIX_MASKS_FROM and model.model_type in PREFIX_MASKED:
        return None
    found = [la.attention for la in share.layers if _splits(la.attention, scenario, model)]
    return max(found, key=lambda shape: shape.num_heads * _value_width(shape), default=None)


def _value_width(shape: Attention) -> int:
    return shape.kv_lora_rank if shape.kind is AttentionKind.MLA else shape.v_head_dim


def _splits(shape: Attention, scenario: Scenario, model: ModelSpec) -> bool:
    """Whether a layer's attention is FlashAttention's: not of an 8-bit latent, nor of chosen tokens only."""
    if shape.kind is AttentionKind.MLA:
        plain = (scenario.serving.kv_cache or "bf16") in {"bf16", "fp16"}
        chosen = config_value(model, "index_topk") is not None
        return version_of(scenario) >= LATENT_SPLITS_FROM and plain and not chosen
    return shape.kind in SCORED and shape.head_dim <= WIDEST_HEAD
