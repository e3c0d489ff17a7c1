"""The block pool of vLLM and its forks: groups of layers, bytes of a block, blocks of a sequence.

Layers of one kind form groups of equal size, so that every group can take blocks from one pool; a group that
has no layers left is padded. A model with one kind of layer is one group. A sequence takes blocks from each
group: all of its tokens in a full-attention group, the window plus one batch in a windowed one, one block in
    a recurrent one.
"""

from dataclasses import dataclass
from math import ceil

from planner.memory.kv_cache import STATEFUL, WINDOWED, CacheShape
from planner.model.spec import AttentionKind
from planner.units import ceil_div, round_up

PAD_LIMIT = 1.25
"""Up to this ratio of layer counts, the larger one becomes the group size (1.5 in versions after 0.16)."""
PAD_LIMIT_LATER = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that take blocks together.

    Attributes:
        kind: What they do.
        window: Tokens they see, None for all.
        block_tokens: Tokens of one of their blocks, if other than the pool's.
    """

    kind: AttentionKind
    window: int | None = None
    block_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedPool:
    """The pool of one device.

    Attributes:
        block_tokens: Tokens of a block in a full-attention group.
        group_layers: Layers of a group, padding included.
        page_bytes: Bytes of one block in one layer.
        groups: The groups; empty for a model without any cache.
        batched_tokens: Most tokens of one scheduling step.
        state_blocks: Blocks of a sequence in a recurrent group.
        states_kept: A recurrent group holds one block more for every block of tokens.
    """

    block_tokens: int
    group_layers: int
    page_bytes: int
    groups: tuple[Group, ...]
    batched_tokens: int
    state_blocks: int = 1
    states_kept: bool = False

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over the layers of a group."""
        return self.group_layers * self.page_bytes

    @property
    def token_bytes(self) -> float:
        """Pool bytes per token as the engine prints its tokens: pool / groups; of unequal blocks what grows."""
        unequal = [group.block_tokens for group in self.groups if group.block_tokens]
        if unequal:
            return sum(self.block_bytes / tokens for tokens in unequal)
        return self.block_bytes * len(self.groups) / self.block_tokens

    def blocks_of(self, group: Group, context: int) -> int:
        """Blocks one sequence of `context` tokens holds in a group, as the engine admits it."""
        if group.kind in STATEFUL:
            kept = ceil_div(context, self.block_tokens) if self.states_kept else 0
            return kept + self.state_blocks
        if group.window is None:
            return ceil_div(context, group.block_tokens or self.block_tokens)
        if group.kind is AttentionKind.CHUNKED:
            return ceil_div(min(group.window + self.batched_tokens, context), self.block_tokens)
        return ceil_div(min(group.window - 1 + self.batched_tokens, context), self.block_tokens) + 1

    def blocks_for(self, context: int) -> int:
        """Blocks one sequence of `context` tokens needs over all groups."""
        return sum(self.blocks_of(group, context) for group in self.groups)

    def tokens(self, blocks: int) -> int:
        """Tokens that a number of blocks holds, as the engine prints it."""
        return blocks // len(self.groups) * self.block_tokens if self.groups else 0

    def longest(self, blocks: int, limit: int) -> int:
        """The longest single sequence that `blocks` blocks hold, at most `limit` tokens."""
        if not self.groups or self.blocks_for(limit) <= blocks:
            return limit
        low, high = 0, limit
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.blocks_for(middle) <= blocks else (low, middle)
        return low


def paged_pool(
    shapes: dict[CacheShape, int],
    *,
    key_format: str,
    value_format: str,
    block_tokens: int,
    batched_tokens: int,
    hybrid: bool,
    pad_limit: float = PAD_LIMIT_LATER,
    state_step: int = 16,
) -> PagedPool:
    """The pool for the layers of one device.

    Args:
        shapes: Distinct caches with how many layers have them.
        key_format: Format of keys.
        value_format: Format of values.
        block_tokens: Tokens of a block.
        batched_tokens: Most tokens of one step.
        hybrid: Whether the version groups layers by kind; if not, windows are priced as full attention.
        pad_limit: Ratio of layer counts below which the larger is the group size.
        state_step: Tokens that a block beside recurrent layers is a multiple of.
    """
    per_token = {shape: shape.token_bytes(key_format, value_format) for shape in shapes}
    if any(shape.ring for shape in shapes):
        return _beside_windows(shapes, per_token, block_tokens, batched_tokens)
    states = [shape for shape in shapes if shape.kind in STATEFUL]
    block = max(block_tokens, _block_for_states(states, per_token, block_tokens, state_step))
    counts = _kind_counts(shapes, hybrid=hybrid)
    if not counts:
        return PagedPool(
            block_tokens=block, group_layers=0, page_bytes=0, groups=(), batched_tokens=batched_tokens
        )
    if len(counts) == 1 and not states:
        total = sum(ceil(per_token[shape] * block) * count for shape, count in shapes.items())
        group = next(iter(counts))
        return PagedPool(
            block_tokens=block,
            group_layers=1,
            page_bytes=total,
            groups=(group,),
            batched_tokens=batched_tokens,
        )
    page = max((ceil(size * block) for size in per_token.values()), default=0)
    page = max([page, *(_state_bytes(shape) for shape in states)])
    size = _group_size(tuple(counts.values()), pad_limit)
    groups = tuple(group for group, count in counts.items() for _ in range(ceil_div(count, size)))
    return PagedPool(
        block_tokens=block, group_layers=size, page_bytes=page, groups=groups, batched_tokens=batched_tokens
    )


def _beside_windows(
    shapes: dict[CacheShape, int], per_token: dict[CacheShape, float], block_tokens: int, batched_tokens: int
) -> PagedPool:
    """Windows beside compressed entries: pages of one size, so that a page of entries spans more tokens."""
    ring = sum(per_token[shape] * count for shape, count in shapes.items() if shape.ring)
    growing = sum(per_token[shape] * count for shape, count in shapes.items() if not shape.ring)
    page = ceil(ring * block_tokens)
    window = max(shape.window or 0 for shape in shapes if shape.ring)
    groups = [Group(kind=AttentionKind.SLIDING, window=window)]
    if growing:
        groups.append(Group(kind=AttentionKind.FULL, block_tokens=max(1, int(page // growing))))
    return PagedPool(
        block_tokens=block_tokens,
        group_layers=1,
        page_bytes=page,
        groups=tuple(groups),
        batched_tokens=batched_tokens,
    )


def _kind_counts(shapes: dict[CacheShape, int], *, hybrid: bool) -> dict[Group, int]:
    counts: dict[Group, int] = {}
    for shape, count in shapes.items():
        windowed = hybrid and shape.kind in WINDOWED
        stateful = shape.kind in STATEFUL
        kind = shape.kind if windowed or stateful else AttentionKind.FULL
        group = Group(kind=kind, window=shape.window if windowed else None)
        counts[group] = counts.get(group, 0) + count
    return counts


def _group_size(counts: tuple[int, ...], pad_limit: float) -> int:
    """Layers of a group: the fewest of any kind, or the most where that adds little padding."""
    return max(counts) if max(counts) < min(counts) * pad_limit else min(counts)


def _state_bytes(shape: CacheShape) -> int:
    """A recurrent state in fp32 beside a convolution state in 16 bit."""
    return shape.state * 4 + shape.conv * 2


def _block_for_states(
    states: list[CacheShape], per_token: dict[CacheShape, float], block_tokens: int, step: int
) -> int:
    """Tokens of an attention block so large that its page holds a whole recurrent state."""
    token = max((size for size in per_token.values()), default=0)
    if not states or not token:
        return block_tokens
    return round_up(ceil(max(map(_state_bytes, states)) / token), max(block_tokens, step))
