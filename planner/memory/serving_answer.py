"""What one device of a server holds."""

from dataclasses import dataclass

from planner.placement import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAnswer:
    """Figures of one device; the fields of `ServingAnswer` before the limiting device is picked.

    Attributes:
        kv_bytes_per_token: The most one more token takes: every growing layer, windows not yet full included.
        state_bytes_per_sequence: Cache of fixed size per sequence.
        budget_bytes: What the engine claims in all, None without a budget.
        pool_bytes: What is left for, or taken by, the caches.
        tokens: Tokens the pool holds.
        longest_tokens: Longest single sequence.
        concurrency: Sequences of the asked context at once.
        reserves_bytes: What the engine takes whatever the load.
        blocks: Blocks of the pool, 0 where there are none.
        state_pool_bytes: Slots for recurrent states.
        state_slots: Sequences those slots serve.
    """

    kv_bytes_per_token: int
    state_bytes_per_sequence: int
    budget_bytes: int | None
    pool_bytes: int
    tokens: int
    longest_tokens: int
    concurrency: float
    reserves_bytes: int
    blocks: int = 0
    state_pool_bytes: int = 0
    state_slots: int = 0


def usable_bytes(share: Share) -> int | None:
    """What a process may use on the card: what others leave free, else what it can see in all."""
    return share.device.free_bytes if share.device.free_bytes is not None else share.gpu.usable_bytes
