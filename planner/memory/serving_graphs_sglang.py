"""Captured graphs of engines without a profile run; SGLang's with their logits and its graphs of prompts."""

from typing import Final

from planner.hardware import Tables
from planner.ledger import Category, Entry, Layer, Symbol
from planner.memory.runtime import cublas_workspace_bytes
from planner.memory.serving_demand import Demand, version_of
from planner.memory.serving_entry import RUNNING, entry
from planner.memory.serving_forward import forward_width
from planner.memory.serving_graphs import captured_batches
from planner.memory.serving_weights import expert_replicas
from planner.model.spec import AttentionKind, ModelSpec
from planner.placement import Share
from planner.scenario import Scenario
from planner.units import MIB

SGLANG_FAMILY: Final = frozenset({"sglang", "sglang_omni"})
KEEPS_EVERY_LOGIT_UNTIL: Final = (0, 4, 7)
"""SGLang captured the smallest batch first up to here, so that no graph could use another's memory."""
ONE_LOGIT_BUFFER_FROM: Final = (0, 5, 4)
"""From about here on all graphs write their logits into one buffer."""
BY_STEPS_FROM: Final = (0, 5, 3)
"""From here on batches of 12 and, above 512, every 32 are captured (`_generate_cuda_graph_batch_sizes`)."""
PROMPT_GRAPHS_FROM: Final = (0, 5, 10)
"""From here on prompts run in graphs too, unless switched off: one for each piece of a layer and token count."""
LATENT_PROMPT_TOKENS: Final = 2048
"""Most tokens of a prompt's graph where attention is latent."""
NO_PROMPT_GRAPHS: Final = frozenset({"deepseek_v4"})
GRAPH_POOL_BYTES: Final = 22 * MIB
"""The first two segments of a graph's own pool: PyTorch takes 20 MiB for a tensor above 1 MiB, 2 MiB below."""


def plain_graph_entries(
    share: Share, scenario: Scenario, model: ModelSpec, asked: Demand, tables: Tables
) -> list[Entry]:
    """Decode graphs, one for each captured batch size, priced like vLLM's; SGLang's with logits and prompts."""
    if not scenario.serving.cuda_graphs:
        return []
    sglang = scenario.runtime.name in SGLANG_FAMILY
    largest = scenario.serving.cuda_graph_max_batch or min(asked.max_sequences, 160)
    batches = decode_batches(scenario, largest) if sglang else captured_batches(largest)
    prompts = prompt_sizes(scenario, model, asked.batched_tokens) if sglang else ()
    width = forward_width(share, model)
    formula, reference = "g*c_L*(L + 1) + max(T*(m + 3*h)*2, p) + b", "vllm_cuda_graphs"
    symbols: tuple[Symbol, ...] = (
        ("g", len(batches) + len(prompts)),
        ("c_L", tables.value("vllm_graph_layer_bytes")),
        ("L", len(share.layers)),
        ("T", _held_tokens(scenario, largest, batches, prompts)),
        ("m", width.inner),
        ("h", width.hidden),
        ("p", GRAPH_POOL_BYTES),
        ("b", cublas_workspace_bytes(share.gpu)),
    )
    if sglang and share.holds_head and model.head is not None:
        rows, size = _kept_logits(scenario, share.tensor, largest, batches)
        formula, reference = f"{formula} + B*V*w", "sglang_cuda_graphs"
        symbols = (*symbols, ("B", rows), ("V", model.vocab_size), ("w", size))
    return [
        entry(
            Category.ALLOCATOR, "cuda_graphs", formula, symbols, reference,
            phases=RUNNING, layer=Layer.RESERVED, estimate=True,
        )
    ]  # fmt: skip


def _held_tokens(scenario: Scenario, largest: int, batches: list[int], prompts: tuple[int, ...]) -> int:
    """Tokens whose working tensors the pool holds: those of the largest graph, or of all where none fits another."""
    if scenario.runtime.name in SGLANG_FAMILY and version_of(scenario) < KEEPS_EVERY_LOGIT_UNTIL:
        return sum(batches)
    return max((largest, *prompts))


def _kept_logits(scenario: Scenario, tensor: int, largest: int, batches: list[int]) -> tuple[int, float]:
    """Rows of logits that SGLang's graphs keep, and bytes of one logit.

    Where nothing is used again these are in 16 bit, as gathered from all ranks and put in order too, and in 32.
    """
    version = version_of(scenario)
    if version >= ONE_LOGIT_BUFFER_FROM:
        return largest, 4
    if version >= KEEPS_EVERY_LOGIT_UNTIL:
        return sum(batches), 4
    return sum(batches), 6 if tensor == 1 else 8 + 2 / tensor


def decode_batches(scenario: Scenario, largest: int) -> list[int]:
    """Batches that SGLang captures a decode step for, the largest always among them."""
    version = version_of(scenario)
    if version < BY_STEPS_FROM and version != (0, 5):
        return captured_batches(largest)
    sizes = (1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32))
    return sorted({size for size in sizes if size <= largest} | {largest})


def prompt_sizes(scenario: Scenario, model: ModelSpec, chunk: int) -> tuple[int, ...]:
    """Token counts that SGLang captures prompts for; none where it switches that off by itself.

    Off with speculation, several replicas of attention, a pipeline, and models that see pictures.

    Args:
        scenario: The question.
        model: The model.
        chunk: `chunked_prefill_size`.
    """
    parallel, serving = scenario.parallel, scenario.serving
    seeing = any(block.name == "vision_tower" for block in model.blocks)
    off = (
        version_of(scenario) < PROMPT_GRAPHS_FROM
        or serving.cuda_graphs is False
        or serving.speculative is not None
        or attention_replicas(scenario, model) > 1
        or parallel.pipeline > 1
        or seeing
        or model.model_type in NO_PROMPT_GRAPHS
    )
    if off:
        return ()
    longest = min(chunk, LATENT_PROMPT_TOKENS) if is_latent(model) else chunk
    longest = min(longest, serving.max_total_tokens or longest)
    sizes = (
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *range(576, 1025, 64),
        *range(1280, 4097, 256),
        *range(4608, longest + 1, 512),
    )
    return tuple(size for size in sizes if size <= longest)


def attention_replicas(scenario: Scenario, model: ModelSpec) -> int:
    """Replicas of attention that share one server's experts (`--enable-dp-attention`), 1 where there are none."""
    return expert_replicas(scenario.parallel, scenario.parallel.tensor) if model.has_experts else 1


def is_latent(model: ModelSpec) -> bool:
    """Whether any layer's attention is latent."""
    return any(layer.attention.kind is AttentionKind.MLA for layer in model.layers)
