"""vLLM and its fork Aphrodite: weights, the profile run's peak, graphs, and the KV pool.

The engine claims ``memory_utilization`` of the card's total. What weights, the peak of a dummy step and
everything outside PyTorch leave of it becomes the KV pool, whatever the load. A sequence of
``max_model_len`` must fit the pool or the engine refuses to start.
"""

from dataclasses import replace
from typing import Final

from planner.hardware import Gpu, Tables, cuda_context_bytes
from planner.ledger import Category, Entry, Layer, Symbol
from planner.memory.kv_cache import STATEFUL
from planner.memory.serving_cache_entries import cache_entry, pool_entry
from planner.memory.serving_demand import Demand, demand, is_v0, version_of
from planner.memory.serving_draft import cache_reference, cached_shapes, draft_weights
from planner.memory.serving_entry import RUNNING, WORKING, entry
from planner.memory.serving_forward import expert_workspace_width, forward_width
from planner.memory.serving_graphs import graph_entries
from planner.memory.serving_paged import PAD_LIMIT, PAD_LIMIT_LATER, PagedPool, paged_pool
from planner.memory.serving_sharing import common_of, pool_common
from planner.memory.serving_state_blocks import state_blocks, widened
from planner.memory.serving_stored import casts_to_16_bit, held_safetensors, stored_entries
from planner.memory.serving_weight_extras import (
    TRITON_PADS,
    absorbed_entries,
    draft_entries,
    rope_entries,
    slack_entries,
    swizzled_entries,
)
from planner.memory.serving_weights import (
    VISION_TOWER,
    engine_elements,
    expert_replicas,
    expert_split,
    part_entries,
    plain_format,
)
from planner.memory.weight_formats import FORMATS, WeightFormat, engine_format, served_experts
from planner.model.spec import AttentionKind, ModelSpec, Part
from planner.placement import Share
from planner.scenario import Parallel, Scenario
from planner.units import round_up

SMALL_SAMPLER: Final = (0, 17)
"""From here on sampling takes fewer logits-sized copies."""
LATER_NON_TORCH: Final = (0, 18)
GRAPHS_IN_BUDGET: Final = (0, 20)
"""`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS` is on unless switched off from here on (`envs.py`; off in 0.19.1)."""
HYBRID_POOL: Final = (0, 9)
NO_LATENT_CACHE: Final = (0, 7)
"""Before this, latent attention was cached as decompressed heads."""

V0_CONTEXT_FROM: Final = (0, 6, 3)
V0_CONTEXT_UNTIL: Final = (0, 6, 5)
V1_CONTEXT_UNTIL: Final = (0, 9, 1)
MARLIN_UNTIL: Final = (0, 11)
"""From here on mixtures in MXFP4 run in Triton's layout on Hopper; Marlin stays on other cards but data-centre
Blackwell."""

LATENT_WORKSPACE: Final = 64 * 1024
"""Most cached tokens that latent attention gathers at once (`MLACommonMetadataBuilder`)."""

EXPERT_CHUNK: Final = 32 * 1024
"""Tokens that fused experts work on at once (`VLLM_FUSED_MOE_CHUNK_SIZE`)."""

READS_FREE_MEMORY: Final = frozenset({"sglang", "sglang_omni"})
"""Engines whose own figure for weights is the free memory that went, whole allocator pages included."""

WIDE_EXPERTS: Final = (0, 19)
HOPPER: Final = 9
MARLIN_PADS: Final = (256, 128)
"""Marlin's experts: hidden size to a multiple of the first, each rank's intermediate size of the second."""

INSIDE: Final = frozenset({"activation_peak", "non_torch"})


def vllm_entries(share: Share, scenario: Scenario, model: ModelSpec, tables: Tables) -> list[Entry]:
    """Every term of one device."""
    asked = demand(scenario, model, share)
    return [
        *weight_entries(share, scenario, model),
        activation_entry(share, scenario, model, asked, tables),
        *non_torch_entries(share, scenario, tables),
        *graph_entries(share, scenario, model, asked, tables),
        *kv_entries(share, scenario, model, asked),
        *context_entries(share, tables, communicators=communicators(share, model)),
    ]


# --- weights


def weight_entries(share: Share, scenario: Scenario, model: ModelSpec) -> list[Entry]:
    """Weights by part, and the table of rotary angles, which every rank holds whole."""
    serving = scenario.serving
    base = engine_format(serving.weights or "bf16", model) or FORMATS["bf16"]
    own = serving.expert_weights or served_experts(serving.weights or "bf16", model)
    experts = engine_format(own, model) if own is not None and own != serving.weights else None
    plain = plain_format(base.id if base.family == "plain" else serving.kv_cache)
    unpacked = experts or base
    packed = _packed(unpacked, share, scenario, model)
    elements = engine_elements(
        share,
        model,
        base,
        packed,
        plain,
        scenario.parallel,
        _feed_ranks(share, scenario, model),
    )
    if serving.host_experts:
        elements = {key: count for key, count in elements.items() if key[0] is not Part.EXPERTS}
    stored = held_safetensors(scenario, model)
    if stored is None:
        parts = part_entries(elements)
    else:
        whole = engine_elements(whole_model(share, model), model, base, unpacked, plain, Parallel())
        parts = stored_entries(
            elements,
            whole,
            stored,
            tied=model.tie_word_embeddings,
            first=share.holds_embedding,
            halved=casts_to_16_bit(scenario, model),
        )
    return [
        *parts,
        *rope_entries(share, scenario, model, int(plain.bytes)),
        *absorbed_entries(share, scenario, int(plain.bytes)),
        *(() if serving.host_experts else swizzled_entries(share, packed, scenario.parallel)),
        *draft_entries(share, scenario, model, int(plain.bytes)),
        *draft_weights(share, scenario),
        *slack_entries(share, base, whole=scenario.runtime.name in READS_FREE_MEMORY),
    ]


def _feed_ranks(share: Share, scenario: Scenario, model: ModelSpec) -> int | None:
    """SGLang with data-parallel attention: all ranks of the experts divide the rest of the feed-forward half too.

    vLLM's replicas keep dense layers, shared experts and the output matrix each for themselves.
    """
    replicas = expert_replicas(scenario.parallel, share.tensor) if model.has_experts else 1
    gathers = scenario.runtime.name in READS_FREE_MEMORY and replicas > 1
    return share.tensor * replicas if gathers else None


def whole_model(share: Share, model: ModelSpec) -> Share:
    """All of a model on one card of the same kind."""
    return replace(
        share,
        stage=0,
        num_stages=1,
        layer_range=(0, model.num_layers),
        layers=model.layers,
        encoder_layers=model.encoder_layers,
        holds_embedding=True,
        holds_head=True,
        tensor=1,
    )


def _packed(experts: WeightFormat, share: Share, scenario: Scenario, model: ModelSpec) -> WeightFormat:
    """The experts' format with the paddings of the kernel that vLLM picks for MXFP4 on the card."""
    capability = share.gpu.compute_capability
    if experts.id != "mxfp4" or scenario.runtime.name not in {"vllm", "aphrodite"} or capability is None:
        return experts
    if capability[0] == HOPPER and version_of(scenario) >= MARLIN_UNTIL:
        pads = TRITON_PADS[0] if version_of(scenario) >= WIDE_EXPERTS else TRITON_PADS[1]
        return replace(experts, expert_pads=pads) if model.model_type == "gpt_oss" else experts
    return experts if capability[0] in {10, 11} else replace(experts, expert_pads=MARLIN_PADS)


# --- working memory


def activation_entry(
    share: Share, scenario: Scenario, model: ModelSpec, asked: Demand, tables: Tables
) -> Entry:
    """The peak of the profile run: a full step of tokens, or the sampler over a full batch.

    A pipeline's stage holds the hidden state and the residual that it hands over. A model with a vision
    tower holds what the tower made of a full step of image tokens (`encoder_cache`). Latent attention keeps a
    workspace into which chunks of a cached prompt are gathered. Experts that several replicas share see the
    tokens of all of them, gathered, in chunks.
    """
    width = forward_width(share, model)
    element = 4 if scenario.serving.weights == "fp32" else 2
    small = version_of(scenario) >= SMALL_SAMPLER and not is_v0(scenario)
    copies = tables.value(
        "vllm_sampler_bytes_per_logit" if small else "vllm_sampler_bytes_per_logit_before_017"
    )
    residuals = tables.value("vllm_v0_hidden_copies" if is_v0(scenario) else "vllm_hidden_copies")
    forward = "T*(m + a*h)*w"
    symbols: tuple[Symbol, ...] = (
        ("T", asked.batched_tokens),
        ("m", width.inner),
        ("a", residuals),
        ("h", width.hidden),
        ("w", element),
    )
    replicas = expert_replicas(scenario.parallel, share.tensor) if model.has_experts else 1
    if replicas > 1:
        gathered = "T*R*h*w + min(T*R, M)*xg*w"
        forward = f"max({forward}, T*a*h*w + {gathered})"
        each = expert_split(scenario.parallel, share.tensor)[1]
        symbols = (
            *symbols,
            ("R", replicas),
            ("M", EXPERT_CHUNK),
            ("xg", expert_workspace_width(share, model, each)),
        )
    if share.holds_head and model.head is not None:
        sequences = min(asked.max_sequences, asked.batched_tokens)
        symbols = (*symbols, ("S", sequences), ("V", model.vocab_size), ("c", copies + element - 2))
        kept = expert_workspace_width(share, model) if small and scenario.serving.weights != "mxfp4" else 0
        sampler = "S*V*c + 2*T*h*w"
        if kept:
            sampler = f"{sampler} + T*x*w"
            symbols = (*symbols, ("x", kept))
        forward = f"max({forward}, {sampler})"
    if share.num_stages > 1:
        forward = f"{forward} + 2*T*h*w"
    if not is_v0(scenario) and any(block.name == VISION_TOWER for block in model.blocks):
        forward = f"{forward} + T*h*w"
    latent = next((la.attention for la in share.layers if la.attention.kind is AttentionKind.MLA), None)
    if latent is not None and version_of(scenario) >= NO_LATENT_CACHE:
        forward = f"{forward} + K*D*w"
        pages = max(8 * asked.longest_tokens, 4 * asked.max_sequences * (scenario.serving.block_size or 16))
        symbols = (*symbols, ("K", min(pages, LATENT_WORKSPACE)))
        symbols = (*symbols, ("D", latent.kv_lora_rank + latent.qk_rope_head_dim))
    return entry(
        Category.ACTIVATIONS,
        "activation_peak",
        forward,
        symbols,
        "vllm_profile_run",
        phases=WORKING,
        estimate=True,
    )


def counts_context(scenario: Scenario) -> bool:
    """Whether the profile run counts everything on the card that PyTorch did not allocate, its context too.

    The second generation did until 0.9.1, the first in 0.6.3 and 0.6.4; before and after, only what the run
    added.
    """
    version = version_of(scenario)
    if is_v0(scenario):
        return V0_CONTEXT_FROM <= version < V0_CONTEXT_UNTIL
    return version < V1_CONTEXT_UNTIL


def non_torch_entries(share: Share, scenario: Scenario, tables: Tables) -> list[Entry]:
    """What the profile run finds outside PyTorch: libraries, and NCCL buffers of joined ranks.

    Nothing beside the process's context in the versions that count that (`counts_context`).
    """
    if counts_context(scenario):
        return []
    later = version_of(scenario) >= LATER_NON_TORCH and not is_v0(scenario)
    if share.tensor > 1 and switched(share.gpu):
        name = (
            "vllm_non_torch_tensor_parallel_bytes"
            if later
            else "vllm_non_torch_tensor_parallel_before_018_bytes"
        )
    elif share.num_stages > 1 and share.tensor == 1:
        name = "vllm_non_torch_pipeline_bytes"
    else:
        name = "vllm_non_torch_bytes" if later else "vllm_non_torch_before_018_bytes"
    category = Category.COMMUNICATION if share.tensor > 1 else Category.CONTEXT
    return [
        entry(
            category, "non_torch", "c", (("c", tables.value(name)),), "vllm_profile_run",
            phases=RUNNING, layer=Layer.PROCESS, estimate=True,
        )
    ]  # fmt: skip


def switched(gpu: Gpu) -> bool:
    """Whether cards of this kind come joined by NVLink or a switch, for which NCCL keeps large buffers.

    Cards on PCIe, bridges included, showed no more than single cards.
    """
    link = gpu.interconnect or ""
    return link.startswith("NVLink") and "bridge" not in link


def communicators(share: Share, model: ModelSpec) -> int:
    """Groups of ranks a device talks in: all of them, its tensor or pipeline group, and one for experts."""
    if (share.tensor == 1 and share.num_stages == 1) or not switched(share.gpu):
        return 0
    return 3 if model.has_experts and share.tensor > 1 else 2


def context_entries(share: Share, tables: Tables, *, communicators: int) -> list[Entry]:
    """What the process holds before its first tensor; each group of joined ranks adds its buffers."""
    base = cuda_context_bytes(share.gpu, tables)
    if base is None:
        return []
    formula = "c"
    symbols: tuple[Symbol, ...] = (("c", base),)
    if communicators:
        buffers = round(tables.value("nccl_communicator_bytes"))
        formula, symbols = "c + g*n", (("c", base), ("g", communicators), ("n", buffers))
    return [
        entry(
            Category.CONTEXT,
            "cuda_context",
            formula,
            symbols,
            "cuda_context",
            layer=Layer.PROCESS,
            estimate=True,
        )
    ]


# --- KV cache


def kv_formats(scenario: Scenario) -> tuple[str, str]:
    """Formats of keys and values."""
    key = scenario.serving.kv_cache or "bf16"
    return key, scenario.serving.kv_cache_v or key


def vllm_pool(share: Share, scenario: Scenario, model: ModelSpec) -> PagedPool:
    """The block pool of one device."""
    version = version_of(scenario)
    expand = version < NO_LATENT_CACHE
    key, value = kv_formats(scenario)
    kept = state_blocks(scenario, model)
    pool = paged_pool(
        widened(cached_shapes(share, scenario, model, expand_mla=expand), scenario, model),
        key_format=key,
        value_format=value,
        block_tokens=scenario.serving.block_size or 16,
        batched_tokens=demand(scenario, model, share).batched_tokens,
        hybrid=version >= HYBRID_POOL and not is_v0(scenario),
        pad_limit=PAD_LIMIT_LATER if version >= SMALL_SAMPLER else PAD_LIMIT,
        state_step=kept.step_tokens,
    )
    return replace(pool, state_blocks=kept.fixed, states_kept=kept.each_block)


def kv_entries(share: Share, scenario: Scenario, model: ModelSpec, asked: Demand) -> list[Entry]:
    """The cache of the asked load in whole blocks.

    At least one sequence of the longest length: without room for that vLLM doesn't start.
    """
    pool = vllm_pool(share, scenario, model)
    if not pool.groups:
        return []
    common = common_of(scenario)
    saved = max(0, int(asked.sequences * common.hit_frac) - 1) * pool_common(pool, common)
    load = asked.sequences * pool.blocks_for(asked.context_tokens) - saved
    sequences, context = asked.sequences, asked.context_tokens
    if load < pool.blocks_for(asked.longest_tokens):
        sequences, context, saved = 1, asked.longest_tokens, 0
    if len(pool.groups) > 1 or pool.group_layers > 1:
        source = "vllm_state_blocks" if any(g.kind in STATEFUL for g in pool.groups) else "vllm_kv_groups"
        return [pool_entry(pool, sequences, context, source, saved)]
    key, value = kv_formats(scenario)
    cells = sequences * round_up(context, pool.block_tokens) - saved * pool.block_tokens
    shapes = cached_shapes(share, scenario, model, expand_mla=version_of(scenario) < NO_LATENT_CACHE)
    return [
        cache_entry(shape, count, cells, key, value, cache_reference(scenario, shape))
        for shape, count in shapes.items()
    ]


def budget_bytes(share: Share, scenario: Scenario) -> int | None:
    """What the engine claims in all; None where the card's size is not known."""
    total = share.gpu.usable_bytes
    return None if total is None else int(total * (scenario.serving.memory_utilization or 0.9))


def inside_names(scenario: Scenario) -> frozenset[str]:
    """Entries that the claimed share has to hold, weights and cache aside."""
    names = INSIDE | {"cuda_graphs"} if version_of(scenario) >= GRAPHS_IN_BUDGET else INSIDE
    return names | {"cuda_context"} if counts_context(scenario) else names


def refuses_at_start(share: Share, scenario: Scenario) -> bool:
    """Whether other processes leave less free than the engine claims, which the second generation refuses."""
    budget = budget_bytes(share, scenario)
    free = share.device.free_bytes
    return budget is not None and free is not None and free < budget and not is_v0(scenario)
