"""From two runs with few layers to the run with all of them: every event, not an estimate. No PyTorch here.

What a run does layer by layer stands in the longer run as a block that the shorter one lacks (`alignment`). The
block is repeated once per further period. What is counted in layers (a module's number, which layer's storage
dies) moves from one repetition to the next as it did from the one before the block to the block, and for all
other items as it did from the shorter run to the longer one. Where that gives no storage that is alive and of
the right kind, the runs are refused.
"""

from collections.abc import Iterator

from profiler.trace.alignment import NONE, Reader, with_layer
from profiler.trace.layout import Layout, Spot
from profiler.trace.record import Change, Columns, Trace, columns_from
from profiler.worker.storages import Storage


def extend(shorter: Trace, longer: Trace, stack: str, periods: int) -> Columns:
    """The run of the model with more layers.

    Args:
        shorter: A run with few layers.
        longer: The same with one period of layers more.
        stack: Path of the list of layers, as `model.layers`.
        periods: Periods of layers to add to the longer one.

    Raises:
        ExtendError: The two runs do not say what the longer one would do.
    """
    reader = Reader(stack)
    short, long = reader.read(shorter), reader.read(longer)
    return columns_from(_Extension(Layout(short, long, periods)).changes())


class _Extension:
    """The longer stream with its blocks repeated."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._long = layout.long
        self._periods = layout.periods
        self._starts: list[int] = []
        self._places: list[int] = []
        added = done = 0
        for block in layout.blocks:
            self._starts.append(block.start + added)
            self._places += range(done + added, block.end + added)
            added += self._periods * block.length
            done = block.end
        self._places += range(done + added, len(self._long.items) + added)

    def changes(self) -> Iterator[Change]:
        """The result in order."""
        alive: dict[int, tuple[Storage, int]] = {}
        for place, (item_place, turn) in enumerate(self._order()):
            item = self._long.items[item_place]
            if item.mark is not None:
                yield Change(None, 0, item.mark.phase, item.mark.step)
            elif item.sign > 0:
                storage = self._storage(item_place, turn)
                alive[place] = storage, self._long.tokens[item_place]
                yield Change(storage, storage.bytes, storage.phase, storage.born_in_step)
            else:
                yield self._death(alive, item_place, turn)

    def _order(self) -> Iterator[tuple[int, int]]:
        """Items of the longer stream in the result's order, with the repetition (`NONE` outside of blocks)."""
        done = 0
        for block in self._layout.blocks:
            for place in range(done, block.start):
                yield place, NONE
            for turn in range(self._periods + 1):
                for place in range(block.start, block.end):
                    yield place, turn
            done = block.end
        for place in range(done, len(self._long.items)):
            yield place, NONE

    def _death(self, alive: dict[int, tuple[Storage, int]], place: int, turn: int) -> Change:
        born = self._place_of(self._layout.spot_of_death(place, turn))
        storage, token = alive.pop(born, (None, NONE))
        expected = self._long.tokens[self._long.births[self._long.items[place].storage]]
        if storage is None or token != expected:
            raise self._layout.unclear(place)
        return Change(storage, -storage.bytes, storage.died_in or "", storage.born_in_step)

    def _place_of(self, spot: Spot) -> int:
        if spot.block == NONE:
            return self._places[spot.offset]
        length = self._layout.blocks[spot.block].length
        return self._starts[spot.block] + spot.turn * length + spot.offset

    def _storage(self, place: int, turn: int) -> Storage:
        number = self._long.items[place].storage
        one = self._long.storages[number]
        size, shape = one.bytes, one.shape
        if turn == NONE:
            before = self._layout.short.storages[self._layout.beside(place).storage]
            size += self._periods * (size - before.bytes)
            pairs = zip(shape, before.shape, strict=True)
            shape = tuple(now + self._periods * (now - then) for now, then in pairs)
        return Storage(
            bytes=size,
            phase=one.phase,
            module=with_layer(self._long.paths[number], self._layer(place, turn)),
            op=one.op,
            shape=shape,
            dtype=one.dtype,
            kind=one.kind,
            detail=one.detail,
            born_in_step=one.born_in_step,
            died_in=one.died_in,
        )

    def _layer(self, place: int, turn: int) -> int:
        """The layer's number in the path of a storage's module."""
        layers = self._long.layers
        here = layers[self._long.items[place].storage]
        if here == NONE:
            return NONE
        if turn == NONE:
            return here + self._periods * (
                here - self._layout.short.layers[self._layout.beside(place).storage]
            )
        model = self._layout.model(place)
        step = here - layers[self._long.items[model].storage]
        return self._layer(model, NONE) + (turn + 1) * step
