"""A common beginning of the prompts, held once by engines that keep whole blocks by their content.

Only whole blocks of full attention are shared; windows and recurrent states are each sequence's own.
"""

from dataclasses import dataclass
from typing import Final

from planner.memory.kv_cache import STATEFUL
from planner.memory.serving_paged import PagedPool
from planner.scenario import Scenario

BY_CONTENT: Final = frozenset({"vllm", "aphrodite", "pegainfer"})
"""Engines whose profile says whether prefix caching is on (vLLM: the second generation has it on)."""
UNLESS_OFF: Final = frozenset({"sglang", "sglang_omni", "tensorrt_llm", "tgi"})
"""Engines that reuse prefixes unless told otherwise: RadixAttention, KV block reuse, TGI 3."""


@dataclass(frozen=True, slots=True)
class Common:
    """What requests have in common.

    Attributes:
        tokens: Length of the common beginning; 0 where the engine keeps none.
        hit_frac: Share of the requests that begin so.
    """

    tokens: int = 0
    hit_frac: float = 1.0

    def whole_blocks(self, block_tokens: int) -> int:
        """Blocks that are held once."""
        return self.tokens // block_tokens

    def saved_blocks(self, sequences: int, block_tokens: int) -> int:
        """Blocks that `sequences` sequences need not hold again."""
        return max(0, int(sequences * self.hit_frac) - 1) * self.whole_blocks(block_tokens)

    def fitting(self, room: float, each: float, once: float) -> float:
        """Sequences that fit: the common part once, of every further one the rest.

        Args:
            room: Blocks or tokens there are.
            each: What one sequence needs.
            once: How much of that is common.
        """
        own = each - self.hit_frac * once
        return (room - once) / own if once and room > once and own > 0 else room / each


NOTHING: Final = Common()


def shares_prefix(scenario: Scenario) -> bool:
    """Whether the engine holds a common beginning once."""
    on = scenario.serving.prefix_caching
    name = scenario.runtime.name
    return bool(on) if name in BY_CONTENT else name in UNLESS_OFF and on is not False


def common_of(scenario: Scenario) -> Common:
    """The common beginning of the load, as far as the engine makes use of it."""
    load = scenario.workload
    if load is None or not load.shared_prefix_tokens or not shares_prefix(scenario):
        return NOTHING
    hit = 1.0 if load.prefix_hit_frac is None else load.prefix_hit_frac
    return Common(load.shared_prefix_tokens, hit) if hit else NOTHING


def pool_common(pool: PagedPool, common: Common) -> int:
    """Blocks of a common beginning over the groups that share them."""
    groups = sum(group.window is None and group.kind not in STATEFUL for group in pool.groups)
    return groups * common.whole_blocks(pool.block_tokens)
