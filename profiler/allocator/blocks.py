"""Blocks of memory and the pools of free ones."""

from bisect import bisect_left, insort
from collections.abc import Iterator

Key = tuple[int, int, "Block"]


class Block:
    """A stretch of a segment. Blocks of a segment form a chain in order of address.

    Attributes:
        address: First byte.
        bytes: Size.
        requested_bytes: What was asked for; 0 while free.
        is_free: Whether it can be handed out.
        small: Pool it belongs to.
        before: Block in front of it in the segment.
        after: Block behind it.
        is_mapped: Backed by memory; False for the reserved addresses of an expandable segment.
        segment: Base address of the segment.
        is_expandable: In an expandable segment.
        idle_since: The pool's count of searches when it became free.
    """

    __slots__ = (
        "address", "after", "before", "bytes", "idle_since", "is_expandable", "is_free", "is_mapped",
        "requested_bytes", "segment", "small",
    )  # fmt: skip

    def __init__(
        self, address: int, size_bytes: int, *, small: bool, segment: int, expandable: bool = False
    ) -> None:
        self.address = address
        self.bytes = size_bytes
        self.requested_bytes = 0
        self.is_free = False
        self.small = small
        self.before: Block | None = None
        self.after: Block | None = None
        self.is_mapped = True
        self.segment = segment
        self.is_expandable = expandable
        self.idle_since = 0

    @property
    def is_whole(self) -> bool:
        """The only block of its segment."""
        return self.before is None and self.after is None

    def put_after(self, other: "Block") -> None:
        """Take the place behind `other` in its chain."""
        self.before, self.after = other, other.after
        if other.after is not None:
            other.after.before = self
        other.after = self

    def swallow(self, other: "Block") -> None:
        """Take in a neighbour, which is then no longer part of the chain."""
        if other is self.before:
            self.address = other.address
            self.before = other.before
            if other.before is not None:
                other.before.after = self
        else:
            self.after = other.after
            if other.after is not None:
                other.after.before = self
        self.bytes += other.bytes


class FreeList:
    """Free blocks in order of size, then address (`BlockComparatorSize`)."""

    def __init__(self) -> None:
        self._keys: list[Key] = []

    def __iter__(self) -> Iterator[Block]:
        """The blocks in order; a copy, so that the list may change meanwhile."""
        return iter([block for _, _, block in self._keys])

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, block: Block) -> None:
        """Put a block in."""
        insort(self._keys, (block.bytes, block.address, block))

    def remove(self, block: Block) -> None:
        """Take a block out, with the size and address it went in with."""
        del self._keys[bisect_left(self._keys, (block.bytes, block.address))]

    def place_of(self, size_bytes: int) -> int:
        """Position of the smallest block of at least that size; the length if there is none."""
        return bisect_left(self._keys, (size_bytes, 0))

    def at(self, place: int) -> Block:
        """The block at a position."""
        return self._keys[place][2]

    def pop(self, place: int) -> Block:
        """Take out the block at a position."""
        return self._keys.pop(place)[2]
