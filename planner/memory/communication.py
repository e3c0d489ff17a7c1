"""Buffers that exist because a job is divided: buckets, gathered parameters, gradients before they are scattered."""

from typing import Final

ZERO_BUCKET: Final = 500_000_000
"""DeepSpeed `reduce_bucket_size` and `allgather_bucket_size`, in elements."""

ZERO3_LIVE: Final = 1_000_000_000
"""DeepSpeed `stage3_max_live_parameters` and `stage3_max_reuse_distance`, in elements."""

ZERO3_PREFETCH: Final = 50_000_000
"""DeepSpeed `stage3_prefetch_bucket_size`, in elements."""


def ddp_bucket_bytes(params: int, e: int) -> int:
    """DDP copies every gradient into a bucket (`gradient_as_bucket_view=False`). PyTorch `Reducer`."""
    return params * e


def zero3_live_params(params: int) -> int:
    """ZeRO-3 keeps gathered what is used again within the reuse distance, and prefetches one bucket more."""
    return min(params, ZERO3_LIVE + ZERO3_PREFETCH)


def zero3_forward_params(params: int, largest: int) -> int:
    """What is kept for its next use fills the limit, and a module that is needed is fetched beyond it."""
    return min(params, ZERO3_LIVE + largest)


def expert_exchange_bytes(tokens: int, routed_width: int, e: int) -> int:
    """All-to-all of routed tokens: what is sent and what is received, at balanced load."""
    return 2 * tokens * routed_width * e
