"""The caching allocator with expandable segments: reserved addresses that memory is mapped into page by page.

Follows `ExpandableSegment`, `find_expandable_block`, `map_block`, `try_allocate_expandable_block` and
`unmap_block` in `c10/cuda/CUDACachingAllocator.cpp` of PyTorch 2.13.
"""

from bisect import insort
from operator import attrgetter
from typing import Final

from profiler.allocator.blocks import Block
from profiler.allocator.caching import CachingAllocator
from profiler.allocator.rules import ROUND_LARGE_BYTES, SMALL_SEGMENT_BYTES, segment_bytes
from profiler.allocator.settings import AllocatorSettings

UNLIMITED_BYTES: Final = 1 << 48
"""Addresses of a segment where the card's memory is not limited."""

_ADDRESS: Final = attrgetter("address")


class ExpandableAllocator(CachingAllocator):
    """As `CachingAllocator`; segments are one per pool and grow."""

    def __init__(
        self,
        settings: AllocatorSettings,
        capacity_bytes: int | None = None,
        total_bytes: int | None = None,
    ) -> None:
        super().__init__(settings, capacity_bytes, total_bytes)
        self._unmapped: dict[bool, list[Block]] = {True: [], False: []}

    def release_cached(self) -> None:
        """Unmap every whole page that no block in use lies on."""
        for small in (False, True):
            for block in self._free[small]:
                self._unmap(block)

    def _find(self, needed: int, small: bool) -> Block | None:
        """Best fit, a block before unmapped addresses counting as large as it could grow."""
        if self._collects:
            self._searches[small] += 1
        pool = self._free[small]
        place, end = pool.place_of(needed), len(pool)
        if place == end:
            return None
        while place + 1 < end and _reach(pool.at(place + 1)) < _reach(pool.at(place)):
            place += 1
        limit = self._settings.max_split_bytes
        if limit is not None and not self._may_take(pool.at(place).bytes, needed, limit):
            return None
        return pool.pop(place)

    def _from_device(self, needed: int, small: bool) -> Block | None:
        """Map pages until a block is large enough; None if memory ends before that."""
        if not self._is_allowed(segment_bytes(needed, self._settings)):
            return None
        block = self._room(needed, small)
        if not block.is_mapped and not self._map(block, min(block.bytes, needed)):
            return None
        while block.bytes < needed:
            behind = block.after
            if behind is None or not self._map(behind, min(needed - block.bytes, behind.bytes)):
                return None
            block = behind
        self._free[small].remove(block)
        return block

    def _room(self, needed: int, small: bool) -> Block:
        """The lowest addresses where the block could lie: free or unmapped blocks in a row, or a new segment."""
        for unmapped in self._unmapped[small]:
            before = unmapped.before
            first = before if before is not None and before.is_free else unmapped
            if _has_room(first, needed):
                return first
        page = self._page(small)
        space = UNLIMITED_BYTES if self._total_bytes is None else self._total_bytes + self._total_bytes // 8
        size = -(-max(space, needed) // page) * page
        block = Block(self._next_address, size, small=small, segment=self._next_address, expandable=True)
        self._next_address += size + ROUND_LARGE_BYTES
        self._put_unmapped(block)
        return block

    def _page(self, small: bool) -> int:
        return SMALL_SEGMENT_BYTES if small else self._settings.large_segment_bytes

    def _map(self, block: Block, size: int) -> bool:
        """Back the start of an unmapped block with pages; what lies behind them stays unmapped."""
        page = self._page(block.small)
        mapped = -(-size // page) * page
        if not self._take(mapped):
            return False
        self._unmapped[block.small].remove(block)
        if mapped < block.bytes:
            rest = Block(
                block.address + mapped,
                block.bytes - mapped,
                small=block.small,
                segment=block.segment,
                expandable=True,
            )
            rest.put_after(block)
            self._put_unmapped(rest)
            block.bytes = mapped
        block.is_mapped = True
        self._merge(block, block.before)
        self._merge(block, block.after)
        self._put(block)
        return True

    def _unmap(self, block: Block) -> None:
        """Give back the whole pages within a free block."""
        page = self._page(block.small)
        start = -(-(block.address - block.segment) // page) * page + block.segment
        end = (block.address + block.bytes - block.segment) // page * page + block.segment
        if start >= end:
            return
        self._free[block.small].remove(block)
        if end < block.address + block.bytes:
            self._put(self._part(block, block, end, block.address + block.bytes - end))
        if start > block.address:
            self._put(self._part(block, block.before, block.address, start - block.address))
        block.address, block.bytes = start, end - start
        self.count.reserved -= block.bytes
        block.is_mapped = False
        self._merge(block, block.before)
        self._merge(block, block.after)
        self._put_unmapped(block)
        if block.is_whole:
            self._unmapped[block.small].remove(block)

    def _part(self, block: Block, behind: Block | None, address: int, size: int) -> Block:
        """A piece of `block` as a block of its own, behind `behind` in the chain (None: at its start)."""
        part = Block(address, size, small=block.small, segment=block.segment, expandable=True)
        if behind is not None:
            part.put_after(behind)
        else:
            part.after, block.before = block, part
        return part

    def _put_unmapped(self, block: Block) -> None:
        block.is_free, block.is_mapped = True, False
        insort(self._unmapped[block.small], block, key=_ADDRESS)

    def _forget(self, block: Block) -> None:
        if block.is_mapped:
            super()._forget(block)
        else:
            self._unmapped[block.small].remove(block)


def _reach(block: Block) -> int:
    """Bytes a free block could grow to."""
    behind = block.after
    return block.bytes if behind is None or behind.is_mapped else block.bytes + behind.bytes


def _has_room(first: Block, needed: int) -> bool:
    size, block = 0, first
    while True:
        size += block.bytes
        if size >= needed:
            return True
        if block.after is None or not block.after.is_free:
            return False
        block = block.after
