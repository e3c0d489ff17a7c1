"""Where each block is laid in what repeats around it, so that every death in there has its storage. No PyTorch.

A block may be laid anywhere in its stretch; what is counted in layers tells where it has to be: the item one
repetition before the block, the block itself and the items behind it must speak of storages that move by whole
repetitions.
"""

from contextlib import suppress
from typing import Final, NamedTuple

from profiler.trace.alignment import NONE, Block, ExtendError, Item, Stream, align

SHARES: Final = (0.5, 0.375, 0.625, 0.25, 0.75, 0.125, 0.875, 0.0, 1.0)
"""Places that are tried in turn: parts of the stretch behind the block, the middle first."""


class Spot(NamedTuple):
    """A place of a stream, counted in repetitions where it lies in a repeating stretch.

    Attributes:
        block: Number of the block, `NONE` outside of such stretches.
        offset: Place in the block, or in the longer stream.
        turn: Repetition: 0 the block itself, -1 what stands in front of it.
    """

    block: int
    offset: int
    turn: int


class Layout:
    """The longer stream beside the shorter one, with the blocks in their places.

    Args:
        short: The shorter run.
        long: The longer one.
        periods: How often each block will be repeated.

    Attributes:
        blocks: In order.
        partner: For every item of the longer stream its place in the shorter one, `NONE` in blocks.

    Raises:
        ExtendError: The streams do not fit together, or a block has no place.
    """

    def __init__(self, short: Stream, long: Stream, periods: int) -> None:
        self.short = short
        self.long = long
        self.periods = periods
        alignment = align(short, long)
        self.partner = list(alignment.partner)
        self.blocks = list(alignment.blocks)
        self._partners = {here: there for there, here in enumerate(self.partner) if here != NONE}
        self._stretches = [NONE] * len(long.items)
        for number in range(len(self.blocks)):
            self._find_place(number)

    def _find_place(self, number: int) -> None:
        given = self.blocks[number]
        for share in SHARES:
            self._lay(number, given.moved(int(max(given.before - given.length, 0) * share)))
            with suppress(ExtendError):
                self._check(number)
                return
        self._check(number)

    def _lay(self, number: int, block: Block) -> None:
        self.blocks[number] = block
        stretch = block.stretch
        matched = [self.partner[place] for place in stretch if self.partner[place] != NONE]
        matched[block.before : block.before] = [NONE] * block.length
        for place, here in zip(stretch, matched, strict=True):
            self.partner[place] = here
            self._stretches[place] = number
            if here != NONE:
                self._partners[here] = place

    def _check(self, number: int) -> None:
        """Every death in the stretch has a storage in every repetition."""
        block = self.blocks[number]
        for place in block.stretch:
            if self.long.items[place].sign >= 0:
                continue
            if block.start <= place < block.end:
                self.spot_of_death(place, 0)
                self.spot_of_death(place, self.periods)
            else:
                self.spot_of_death(place, NONE)

    # --- what moves with the layers

    def model(self, place: int) -> int:
        """What stands one repetition before an item of a block."""
        return place - self.blocks[self._stretches[place]].length

    def beside(self, place: int) -> Item:
        """The item of the shorter stream beside one that is outside of blocks."""
        return self.short.items[self.partner[place]]

    def spot_of_death(self, place: int, turn: int) -> Spot:
        """Where the storage was born that dies here, in the repetitions of the result.

        Args:
            place: Of the death in the longer stream.
            turn: Repetition of the block it lies in, `NONE` outside of blocks.
        """
        here = self._spot(self._born(place))
        if turn == NONE:
            before = self._short_spot(self.short.births[self.beside(place).storage])
            return self._moved(here, before, here.turn - before.turn, self.periods, place)
        model = self.model(place)
        there = self._spot(self._born(model))
        first = self.spot_of_death(model, NONE)
        return self._moved(first, there, here.turn - there.turn, turn + 1, place, here)

    def _moved(
        self, spot: Spot, other: Spot, step: int, times: int, place: int, third: Spot | None = None
    ) -> Spot:
        if spot[:2] != other[:2] or (third is not None and third[:2] != spot[:2]):
            raise self.unclear(place)
        found = spot._replace(turn=spot.turn + times * step)
        if spot.block != NONE:
            block = self.blocks[spot.block]
            far = found.turn * block.length + found.offset
            if not -block.before <= far < (self.periods + 1) * block.length + block.behind:
                raise self.unclear(place)
        return found

    def _born(self, place: int) -> int:
        return self.long.births[self.long.items[place].storage]

    def _spot(self, place: int) -> Spot:
        """A place of the longer stream."""
        number = self._stretches[place]
        if number == NONE:
            return Spot(NONE, place, 0)
        block = self.blocks[number]
        turn, offset = divmod(place - block.start, block.length)
        return Spot(number, offset, turn)

    def _short_spot(self, place: int) -> Spot:
        """A place of the shorter stream: that of its partner, without the block."""
        partner = self._partners[place]
        spot = self._spot(partner)
        behind = spot.block != NONE and partner >= self.blocks[spot.block].end
        return spot._replace(turn=spot.turn - 1) if behind else spot

    def unclear(self, place: int) -> ExtendError:
        """The error for a death without a storage."""
        storage = self.long.storages[self.long.items[place].storage]
        where = f"{storage.phase}: {storage.op} in {storage.module or 'no module'}"
        return ExtendError("storage_unclear", where)
