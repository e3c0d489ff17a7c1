"""The caching allocator of one device and one stream, without the device.

Follows `DeviceCachingAllocator` in `c10/cuda/CUDACachingAllocator.cpp` of PyTorch 2.13: `malloc`,
`get_free_block`, `alloc_block`, `alloc_found_block`, `free_block`, `try_merge_blocks`,
`garbage_collect_cached_blocks`, `release_available_cached_blocks`, `release_cached_blocks`. Not simulated:
several streams (a block freed while another stream uses it comes back late), CUDA graphs' private pools.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from planner.units import GIB
from profiler.allocator.blocks import Block, FreeList
from profiler.allocator.rules import ROUND_LARGE_BYTES, SMALL_BYTES, is_split, round_request, segment_bytes
from profiler.allocator.settings import AllocatorSettings

DEFAULTS: Final = AllocatorSettings()
BASE_ADDRESS: Final = GIB
"""Of the first segment; only the order of addresses matters."""

Cause = Literal["demand", "fragmentation"]


class OutOfMemoryError(Exception):
    """No memory for a request.

    Attributes:
        requested_bytes: What was asked for.
        segment_bytes: What the device was asked for.
        allocated_bytes: Blocks in use.
        reserved_bytes: Segments held, after everything that could be given back was given back.
        live_bytes: What the blocks in use were asked for.
        cause: `demand`: live bytes and the request exceed the limit, whatever the allocator does;
            `fragmentation`: they would fit, were the memory in one piece.
    """

    def __init__(
        self,
        *,
        requested_bytes: int,
        needed_bytes: int,
        allocated_bytes: int,
        reserved_bytes: int,
        live_bytes: int,
        cause: Cause,
    ) -> None:
        super().__init__(f"{requested_bytes} bytes on top of {allocated_bytes} of {reserved_bytes}: {cause}")
        self.requested_bytes = requested_bytes
        self.segment_bytes = needed_bytes
        self.allocated_bytes = allocated_bytes
        self.reserved_bytes = reserved_bytes
        self.live_bytes = live_bytes
        self.cause = cause


@dataclass(slots=True)
class Counters:
    """What the allocator counts, in bytes unless said otherwise. Peaks are kept by the one who asks.

    Attributes:
        allocated: Blocks in use (`allocated_bytes.all.current`).
        requested: What they were asked for (`requested_bytes.all.current`).
        reserved: Segments (`reserved_bytes.all.current`).
        retries: How often everything cached was given back to try again (`num_alloc_retries`).
    """

    allocated: int = 0
    requested: int = 0
    reserved: int = 0
    retries: int = 0


class CachingAllocator:
    """Hands out blocks and keeps the freed ones.

    Args:
        settings: How it behaves.
        capacity_bytes: What the device can give it, None for no limit.
        total_bytes: Memory of the whole card, which `memory_frac` is a share of; None: the capacity.
    """

    def __init__(
        self,
        settings: AllocatorSettings = DEFAULTS,
        capacity_bytes: int | None = None,
        total_bytes: int | None = None,
    ) -> None:
        self._settings = settings
        self._capacity_bytes = capacity_bytes
        self._total_bytes = capacity_bytes if total_bytes is None else total_bytes
        share, whole = settings.memory_frac, self._total_bytes
        self._allowed_bytes = None if share is None or whole is None else int(share * whole)
        self._collects = settings.garbage_collection_frac > 0 and self._allowed_bytes is not None
        self._free = {True: FreeList(), False: FreeList()}
        self._searches = {True: 0, False: 0}
        self._live: dict[int, Block] = {}
        self._next_address = BASE_ADDRESS
        self.count = Counters()

    @property
    def limit_bytes(self) -> int | None:
        """The most that can be reserved: the card's capacity or the process's share of it."""
        limits = [limit for limit in (self._capacity_bytes, self._allowed_bytes) if limit is not None]
        return min(limits, default=None)

    def allocate(self, name: int, size_bytes: int) -> None:
        """Serve a request. Asking for nothing takes nothing.

        Args:
            name: Key that `free` is called with.
            size_bytes: What is asked for.

        Raises:
            OutOfMemoryError: Not even after giving back everything that is cached.
        """
        if size_bytes == 0:
            return
        needed = round_request(size_bytes, self._settings.roundup_power2_divisions)
        small = needed <= SMALL_BYTES
        block = self._find(needed, small) or self._get(needed, small)
        if block is None:
            raise self._out_of_memory(size_bytes, segment_bytes(needed, self._settings))
        if is_split(block.bytes - needed, needed, small=small, settings=self._settings):
            self._split(block, needed)
        block.is_free = False
        block.requested_bytes = size_bytes
        self._live[name] = block
        self.count.allocated += block.bytes
        self.count.requested += size_bytes

    def free(self, name: int) -> None:
        """Take a block back; unknown names (empty requests) are nothing."""
        block = self._live.pop(name, None)
        if block is None:
            return
        self.count.allocated -= block.bytes
        self.count.requested -= block.requested_bytes
        block.requested_bytes = 0
        self._merge(block, block.before)
        self._merge(block, block.after)
        self._put(block)

    def release_cached(self) -> None:
        """Give back every segment that is not in use (`torch.cuda.empty_cache`)."""
        for small in (False, True):
            for block in self._free[small]:
                if block.is_whole:
                    self._release(block)

    def blocks(self) -> Iterator[Block]:
        """All blocks, segment by segment in order of address, unmapped ones left out."""
        every = (*self._live.values(), *self._free[True], *self._free[False])
        return iter(sorted(every, key=lambda block: block.address))

    # --- finding a block

    def _find(self, needed: int, small: bool) -> Block | None:
        """Best fit among the free blocks (`get_free_block`)."""
        if self._collects:
            self._searches[small] += 1
        pool = self._free[small]
        place = pool.place_of(needed)
        if place == len(pool):
            return None
        limit = self._settings.max_split_bytes
        if limit is not None and not self._may_take(pool.at(place).bytes, needed, limit):
            return None
        return pool.pop(place)

    def _may_take(self, found: int, needed: int, limit: int) -> bool:
        """A block too large to be split is only for requests of about its size."""
        if needed < limit:
            return found < limit
        slack = self._settings.max_non_split_rounding_bytes
        return found < needed + (self._settings.large_segment_bytes if slack is None else slack)

    def _get(self, needed: int, small: bool) -> Block | None:
        """A block from the device, giving back cached memory where that helps (`malloc`)."""
        if self._collects:
            self._collect()
        block = self._from_device(needed, small)
        if block is None and self._release_available(needed, small):
            block = self._from_device(needed, small)
        if block is None:
            self.release_cached()
            self.count.retries += 1
            block = self._from_device(needed, small)
        return block

    def _from_device(self, needed: int, small: bool) -> Block | None:
        """A new segment as one block, None if it is too much (`alloc_block`)."""
        size = segment_bytes(needed, self._settings)
        if not self._is_allowed(size) or not self._take(size):
            return None
        block = Block(self._next_address, size, small=small, segment=self._next_address)
        self._next_address += size + ROUND_LARGE_BYTES
        return block

    def _is_allowed(self, size: int) -> bool:
        allowed = self._allowed_bytes
        return allowed is None or self.count.reserved + size <= allowed

    def _take(self, size: int) -> bool:
        """Count memory as reserved if the device has it."""
        reserved = self.count.reserved + size
        if self._capacity_bytes is not None and reserved > self._capacity_bytes:
            return False
        self.count.reserved = reserved
        return True

    def _split(self, block: Block, needed: int) -> None:
        """Cut the rest off and keep it as a free block."""
        rest = Block(
            block.address + needed,
            block.bytes - needed,
            small=block.small,
            segment=block.segment,
            expandable=block.is_expandable,
        )
        block.bytes = needed
        rest.put_after(block)
        self._put(rest)

    # --- freeing

    def _put(self, block: Block) -> None:
        block.is_free = True
        block.idle_since = self._searches[block.small]
        self._free[block.small].add(block)

    def _merge(self, block: Block, neighbour: Block | None) -> None:
        """Take in a free neighbour (`try_merge_blocks`)."""
        if neighbour is not None and neighbour.is_free and neighbour.is_mapped == block.is_mapped:
            self._forget(neighbour)
            block.swallow(neighbour)

    def _forget(self, block: Block) -> None:
        """Take a free block out of the list that holds it."""
        self._free[block.small].remove(block)

    def _release(self, block: Block) -> None:
        self._free[block.small].remove(block)
        self.count.reserved -= block.bytes

    # --- giving back

    def _release_available(self, needed: int, small: bool) -> bool:
        """Give back blocks that are never split, just enough of them (`release_available_cached_blocks`)."""
        limit = self._settings.max_split_bytes
        if limit is None:
            return False
        pool, least = self._free[small], max(needed, limit)
        place = pool.place_of(least)
        if place < len(pool):
            self._release(pool.at(place))
            return True
        released = 0
        for block in reversed(list(pool)):
            if released >= least or block.bytes < limit:
                break
            released += block.bytes
            self._release(block)
        return released >= least

    def _collect(self) -> None:
        """Give back blocks that have been idle longer than average (`garbage_collect_cached_blocks`)."""
        target = self.count.reserved - int(
            self._settings.garbage_collection_frac * (self._allowed_bytes or 0)
        )
        waiting = [block for block in self._free[False] if block.is_whole and not block.is_expandable]
        released = 0
        while waiting and target - released > 0:
            now = self._searches[False]
            average = sum(now - block.idle_since for block in waiting) / len(waiting)
            old = [block for block in waiting if now - block.idle_since >= average]
            for block in old:
                released += block.bytes
                self._release(block)
            waiting = [block for block in waiting if now - block.idle_since < average]

    def _out_of_memory(self, size: int, needed: int) -> OutOfMemoryError:
        limit = self.limit_bytes or 0
        return OutOfMemoryError(
            requested_bytes=size,
            needed_bytes=needed,
            allocated_bytes=self.count.allocated,
            reserved_bytes=self.count.reserved,
            live_bytes=self.count.requested,
            cause="demand" if self.count.requested + size > limit else "fragmentation",
        )
