"""Engines that turn what is left of a card into one pool of KV blocks: what is left, and what it holds."""

from dataclasses import dataclass, replace
from typing import Final

from planner.hardware import Tables
from planner.ledger import Category, Ledger
from planner.memory.kv_cache import STATEFUL
from planner.memory.serving_answer import DeviceAnswer, usable_bytes
from planner.memory.serving_cache_entries import KV_NAMES, STATE_NAME
from planner.memory.serving_demand import demand, version_of, workload_tokens
from planner.memory.serving_draft import cached_shapes
from planner.memory.serving_paged import PagedPool
from planner.memory.serving_plain import ring_bytes
from planner.memory.serving_sharing import common_of, pool_common
from planner.memory.serving_vllm import budget_bytes, inside_names, vllm_pool
from planner.model.spec import ModelSpec
from planner.placement import Share
from planner.scenario import Scenario

TOKENS_BY_CONCURRENCY: Final = (0, 20)
"""From here on the tokens of a hybrid model are sequences of the longest length times that length."""
CACHES: Final = (*KV_NAMES, STATE_NAME)


def weights_bytes(ledger: Ledger) -> int:
    """Bytes of every weight entry."""
    return sum(e.bytes for e in ledger.entries if e.category is Category.WEIGHTS)


def non_cache_bytes(ledger: Ledger) -> int:
    """The peak without the caches of the asked load."""
    return ledger.peak()[1] - ledger.total(*CACHES)


# --- vLLM


def vllm_available(share: Share, ledger: Ledger, scenario: Scenario, _tables: Tables) -> int | None:
    """Share of the total, less weights, the profile run's peak and what it finds outside PyTorch."""
    budget = budget_bytes(share, scenario)
    if budget is None:
        return None
    return budget - weights_bytes(ledger) - ledger.total(*inside_names(scenario))


def vllm_answer(
    share: Share, ledger: Ledger, scenario: Scenario, model: ModelSpec, tables: Tables
) -> DeviceAnswer:
    """Blocks, tokens and sequences of the pool, in vLLM's own rounding."""
    available = vllm_available(share, ledger, scenario, tables)
    pool_bytes = ledger.total(*CACHES) if available is None else max(0, available)
    outside = non_cache_bytes(ledger) - weights_bytes(ledger) - ledger.total(*inside_names(scenario))
    budget = budget_bytes(share, scenario)
    taken = ledger.peak()[1] if budget is None else budget + outside
    pool = vllm_pool(share, scenario, model)
    found = pool_answer(pool, pool_bytes, share, scenario, model, budget, taken)
    if version_of(scenario) < TOKENS_BY_CONCURRENCY:
        return found
    return by_sequences(found, pool, demand(scenario, model, share).longest_tokens)


def by_sequences(found: DeviceAnswer, pool: PagedPool, longest_tokens: int) -> DeviceAnswer:
    """The tokens of unequal groups as those of sequences of the longest length."""
    if len(pool.groups) < 2:
        return found
    return replace(found, tokens=found.blocks * longest_tokens // pool.blocks_for(longest_tokens))


def pool_answer(
    pool: PagedPool,
    pool_bytes: int,
    share: Share,
    scenario: Scenario,
    model: ModelSpec,
    budget: int | None,
    taken: int,
) -> DeviceAnswer:
    """What a pool of blocks holds.

    Args:
        pool: Its layout.
        pool_bytes: Its size.
        share: The device.
        scenario: The question.
        model: The model.
        budget: What the engine claims in all.
        taken: What it takes whatever the load.
    """
    asked = demand(scenario, model, share)
    context = asked.context_tokens if workload_tokens(scenario) else asked.longest_tokens
    cap = scenario.serving.max_total_tokens
    if not pool.groups:
        sequences = float(asked.max_sequences)
        return DeviceAnswer(
            kv_bytes_per_token=0, state_bytes_per_sequence=0, budget_bytes=budget, pool_bytes=pool_bytes,
            tokens=int(sequences) * context, longest_tokens=asked.longest_tokens, concurrency=sequences,
            reserves_bytes=taken,
        )  # fmt: skip
    blocks = pool_bytes // pool.block_bytes
    if cap is not None:
        blocks = min(blocks, cap * len(pool.groups) // pool.block_tokens)
    states = sum(group.kind in STATEFUL for group in pool.groups)
    growing = len(pool.groups) - (0 if pool.states_kept else states)
    common = common_of(scenario)
    return DeviceAnswer(
        kv_bytes_per_token=round(pool.token_bytes * growing / len(pool.groups)),
        state_bytes_per_sequence=states * pool.state_blocks * pool.block_bytes,
        budget_bytes=budget,
        pool_bytes=min(pool_bytes, blocks * pool.block_bytes) if cap is not None else pool_bytes,
        tokens=pool.tokens(blocks),
        longest_tokens=pool.longest(blocks, asked.longest_tokens),
        concurrency=common.fitting(blocks, pool.blocks_for(context), pool_common(pool, common)),
        reserves_bytes=taken,
        blocks=blocks,
    )


# --- engines that take a share of what is left


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRule:
    """How an engine sizes its pool.

    Attributes:
        share: `memory_utilization` where the user gives none.
        of_left: The share is of what is left after everything else, not of the card.
        counts_working: Working memory has to fit into the claimed share too.
    """

    share: float
    of_left: bool
    counts_working: bool


LEFT_RULES: Final[dict[str, LeftRule]] = {
    "tensorrt_llm": LeftRule(share=0.9, of_left=True, counts_working=True),
    "tgi": LeftRule(share=1.0, of_left=False, counts_working=True),
    "mlc_llm": LeftRule(share=0.85, of_left=False, counts_working=True),
}


def left_available(share: Share, ledger: Ledger, scenario: Scenario, _tables: Tables) -> int | None:
    """What such an engine leaves for its pool."""
    total = usable_bytes(share)
    if total is None:
        return None
    rule = LEFT_RULES.get(scenario.runtime.name, LEFT_RULES["tgi"])
    fraction = scenario.serving.memory_utilization or rule.share
    other = non_cache_bytes(ledger)
    return int((total - other) * fraction) if rule.of_left else int(total * fraction) - other


def left_answer(
    share: Share, ledger: Ledger, scenario: Scenario, model: ModelSpec, tables: Tables
) -> DeviceAnswer:
    """What the pool of such an engine holds."""
    available = left_available(share, ledger, scenario, tables)
    pool_bytes = ledger.total(*CACHES) if available is None else max(0, available)
    taken = non_cache_bytes(ledger) + pool_bytes
    budget = None if available is None else taken
    pool = vllm_pool(share, scenario, model)
    found = pool_answer(pool, pool_bytes, share, scenario, model, budget, taken)
    if not any(group.kind in STATEFUL for group in pool.groups):
        return found
    return by_sequences(found, pool, demand(scenario, model, share).longest_tokens)


# --- SGLang


def sglang_start_bytes(share: Share, ledger: Ledger) -> int | None:
    """Free memory before the weights: the card less what the process already holds."""
    total = usable_bytes(share)
    return None if total is None else total - ledger.total("cuda_context")


def sglang_available(share: Share, ledger: Ledger, scenario: Scenario, _tables: Tables) -> int | None:
    """Static share of the free memory at the start, less the weights; working memory lives in the rest."""
    start = sglang_start_bytes(share, ledger)
    if start is None:
        return None
    return int(start * (scenario.serving.memory_utilization or 0.88)) - weights_bytes(ledger)


STATE_RATIO: Final = 0.9
"""Recurrent states against keys and values in SGLang's division of the pool (`mamba_full_memory_ratio`)."""
SLOTS_OF_A_REQUEST: Final = 3
"""Slots that SGLang counts for a running request where prefixes are kept (its own, the matched and the donated
one), so that this share of them bounds how many run (`MAMBA_CACHE_SIZE_MAX_RUNNING_REQUESTS_RATIO`)."""
PREFIX_SLOTS_FROM: Final = (0, 5, 4)
SPARE_SLOTS: Final = 1
"""`MambaPool` makes room for one slot more than it hands out; the division of the pool does not count it."""


def state_slots(pool_bytes: int | None, state_bytes: int, sequences: int) -> int:
    """Slots for recurrent states that SGLang makes; those of the load where the pool is not known."""
    if not state_bytes:
        return 0
    if pool_bytes is None:
        return sequences
    return int(pool_bytes * STATE_RATIO / (1 + STATE_RATIO) // state_bytes)


def sglang_answer(
    share: Share, ledger: Ledger, scenario: Scenario, model: ModelSpec, tables: Tables
) -> DeviceAnswer:
    """Tokens of the pool; where a model has recurrent layers, their slots take their part first."""
    available = sglang_available(share, ledger, scenario, tables)
    asked = demand(scenario, model, share)
    context = asked.context_tokens if workload_tokens(scenario) else asked.longest_tokens
    shapes = cached_shapes(share, scenario, model)
    key = scenario.serving.kv_cache or "bf16"
    value = scenario.serving.kv_cache_v or key
    token = sum(n * s.token_bytes(key, value) for s, n in shapes.items() if not s.ring)
    ring = ring_bytes(shapes, key, value)
    state = sum(n * (s.state * 4 + s.conv * 2) for s, n in shapes.items())
    pool = ledger.total(*CACHES) if available is None else max(0, available)
    slots = state_slots(None if available is None else pool, state, asked.sequences)
    caches = max(0, pool - slots * state)
    common = common_of(scenario)
    tokens = int(caches // token) if token else max(slots, 1) * context
    if scenario.serving.max_total_tokens is not None:
        tokens = min(tokens, scenario.serving.max_total_tokens)
    kept = scenario.serving.prefix_caching is not False and version_of(scenario) >= PREFIX_SLOTS_FROM
    running = slots // SLOTS_OF_A_REQUEST if kept and available is not None else slots
    states = (slots + SPARE_SLOTS) * state
    working = ledger.peak()[1] - ledger.total(*CACHES)
    taken = working + round(tokens * token) + states
    return DeviceAnswer(
        kv_bytes_per_token=round(token),
        state_bytes_per_sequence=state,
        budget_bytes=None if available is None else weights_bytes(ledger) + available,
        pool_bytes=round(tokens * token),
        tokens=tokens,
        longest_tokens=min(tokens, asked.longest_tokens) if running or not state else 0,
        concurrency=min(
            common.fitting(tokens, context + (ring / token if token else 0), common.tokens),
            float(running if state else tokens),
        ),
        reserves_bytes=taken,
        state_pool_bytes=states,
        state_slots=slots,
    )
