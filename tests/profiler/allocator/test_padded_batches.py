"""A loop over batches padded to their longest text: on a full card a block of the logits is pinned.

Tensors of a seven-billion-parameter model's step with a vocabulary of 152,064, sharded over four cards, in the order in
which they come and go. Only sizes; nothing is allocated.
"""

import pytest

from planner.units import GIB
from profiler.allocator.caching import CachingAllocator, OutOfMemoryError

LAYERS, HIDDEN, KEYS, WIDTH, VOCABULARY = 28, 3584, 512, 18944, 152_064
ROOM_BYTES = 78 * GIB
RESTING_BYTES = 23 * GIB
UNIT_BYTES = 466_000_000
SHARD_BYTES = 233_000_000


class Loop:
    """Requests with their sizes remembered."""

    def __init__(self) -> None:
        self.allocator = CachingAllocator(capacity_bytes=ROOM_BYTES)
        self.sizes: dict[int, int] = {}
        self.count = self.live = self.peak = 0
        self.new(RESTING_BYTES)

    def new(self, size: int) -> int:
        self.count += 1
        self.allocator.allocate(self.count, size)
        self.sizes[self.count] = size
        self.live += size
        self.peak = max(self.peak, self.live)
        return self.count

    def free(self, *names: int) -> None:
        for name in names:
            self.allocator.free(name)
            self.live -= self.sizes.pop(name)

    def forward_layer(self, tokens: int) -> int:
        stream, wide = tokens * HIDDEN * 2, tokens * WIDTH * 2
        unit, norm = self.new(UNIT_BYTES), self.new(2 * stream)
        heads = [self.new(stream), self.new(tokens * KEYS * 2), self.new(tokens * KEYS * 2), self.new(stream)]
        self.free(norm)
        inner = [self.new(wide), self.new(wide), self.new(wide)]
        out = self.new(stream)
        self.free(*heads, *inner, unit)
        return out

    def backward_layer(self, tokens: int, gradient: int, given: int) -> tuple[int, int]:
        stream, wide = tokens * HIDDEN * 2, tokens * WIDTH * 2
        unit = self.new(UNIT_BYTES)
        kept = [*(self.new(2 * stream) for _ in range(4)), *(self.new(stream) for _ in range(5))]
        kept += [self.new(wide) for _ in range(4)]
        inner = [self.new(wide) for _ in range(3)]
        self.free(*inner)
        whole, below, shard = self.new(UNIT_BYTES), self.new(stream), self.new(SHARD_BYTES)
        self.free(*kept, gradient, whole, unit, given)
        return below, shard

    def step(self, sequences: int, length: int) -> None:
        tokens, shifted = sequences * length, sequences * (length - 1)
        inputs = [self.new(tokens * HIDDEN * 2)]
        inputs.extend(self.forward_layer(tokens) for _ in range(LAYERS))
        logits = self.new(tokens * VOCABULARY * 2)
        copy = self.new(tokens * VOCABULARY * 4)
        self.free(logits)
        shift, softmax = self.new(shifted * VOCABULARY * 4), self.new(shifted * VOCABULARY * 4)
        self.free(copy, shift)
        first, second = self.new(shifted * VOCABULARY * 4), self.new(shifted * VOCABULARY * 4)
        self.free(softmax, first)
        gradient = self.new(tokens * HIDDEN * 2)
        self.free(second, inputs.pop())
        shards = []
        for given in reversed(inputs):
            gradient, shard = self.backward_layer(tokens, gradient, given)
            shards.append(shard)
        self.free(gradient, *shards)


LENGTHS = (497, 494, 305, 413, 430, 500, 502, 361, 420, 364, 482, 427)


def run(sequences: int) -> Loop:
    loop = Loop()
    for length in LENGTHS:
        loop.step(sequences, length)
    return loop


def test_what_would_fit_in_one_piece_does_not_when_lengths_change() -> None:
    with pytest.raises(OutOfMemoryError) as failure:
        run(48)
    block = 48 * 512 * VOCABULARY * 4
    assert failure.value.cause == "fragmentation"
    assert failure.value.live_bytes + failure.value.requested_bytes < ROOM_BYTES
    assert ROOM_BYTES - failure.value.live_bytes - failure.value.requested_bytes < block


def test_a_smaller_batch_goes_on_by_giving_back_what_is_cached() -> None:
    loop = run(36)
    assert loop.allocator.count.retries > 0
    assert loop.peak < ROOM_BYTES
