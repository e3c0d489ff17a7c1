"""Two runs of one model, the second with one period of layers more, laid side by side. No PyTorch here.

A run is read as a stream of births, deaths and starts of phases. Where the layers' numbers are left aside, the
longer stream is the shorter one with blocks put in: one block wherever something is done layer by layer. A block
has to repeat what stands in front of it, or it isn't a layer's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from profiler.trace.record import Mark, Trace
from profiler.worker.storages import Storage

NONE: Final = -1
"""No layer, no partner, no storage."""


class ExtendError(ValueError):
    """Runs that cannot be extended exactly.

    Attributes:
        code: Why: `streams_differ`, `storage_unclear`.
        detail: Where.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Item(NamedTuple):
    """An element of a stream.

    Attributes:
        sign: 1 a birth, -1 a death, 0 a phase begins.
        storage: Number of the storage, `NONE` for phases.
        mark: The phase that begins.
    """

    sign: int
    storage: int
    mark: Mark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A run in order. Deaths in a row, whose order means nothing, stand in order of birth.

    Attributes:
        items: What happens.
        tokens: The same as numbers: equal where only layers' numbers differ.
        loose: Equal where layers' numbers and sizes differ.
        storages: By number.
        paths: Module paths of the storages, the layer's number taken out.
        layers: The number taken out, `NONE` where there is none.
        births: Place of each storage's birth in the stream.
    """

    items: Sequence[Item]
    tokens: Sequence[int]
    loose: Sequence[int]
    storages: Sequence[Storage]
    paths: Sequence[str]
    layers: Sequence[int]
    births: Sequence[int]


class Reader:
    """Reads runs of one model into streams whose tokens can be compared.

    Args:
        stack: Path of the list of layers, as `model.layers`.
    """

    def __init__(self, stack: str) -> None:
        self._number = re.compile(rf"((?:^|\.){re.escape(stack)}\.)(\d+)(?=\.|$)")
        self._places: dict[Any, int] = {}

    def read(self, trace: Trace) -> Stream:
        """The stream of a run."""
        storages = trace.storages.storages()
        split = [self._split(storage.module) for storage in storages]
        items = list(deaths_in_order(trace))
        births = [0] * len(storages)
        tokens, loose = [], []
        words = [_words(storage, path) for storage, (path, _) in zip(storages, split, strict=True)]
        for place, item in enumerate(items):
            if item.mark is not None:
                token: Any = (item.mark.phase, item.mark.step)
                tokens.append(self._place(token))
                loose.append(tokens[-1])
                continue
            storage = storages[item.storage]
            tokens.append(self._place((item.sign, words[item.storage], storage.bytes, storage.shape)))
            loose.append(self._place((item.sign, words[item.storage], len(storage.shape))))
            if item.sign > 0:
                births[item.storage] = place
        return Stream(
            items=items,
            tokens=tokens,
            loose=loose,
            storages=storages,
            paths=[path for path, _ in split],
            layers=[number for _, number in split],
            births=births,
        )

    def _split(self, module: str) -> tuple[str, int]:
        found = self._number.search(module)
        if found is None:
            return module, NONE
        return f"{module[: found.end(1)]}#{module[found.end() :]}", int(found[2])

    def _place(self, token: Any) -> int:
        return self._places.setdefault(token, len(self._places))


def with_layer(path: str, layer: int) -> str:
    """A module path with its layer's number put back."""
    return path if layer == NONE else path.replace("#", str(layer), 1)


def _words(storage: Storage, path: str) -> tuple[Any, ...]:
    return (
        *(storage.kind, storage.detail, storage.phase, storage.died_in, path, storage.op, storage.dtype),
        storage.born_in_step,
    )


def deaths_in_order(trace: Trace) -> list[Item]:
    """Births, deaths and starts of phases; deaths in a row, whose order means nothing, in order of birth."""
    items: list[Item] = []
    dying: list[int] = []
    marks = iter((*trace.marks, None))
    mark = next(marks)
    for index in range(len(trace.events) + 1):
        event = trace.events[index] if index < len(trace.events) else 0
        begins = mark is not None and mark.event <= index
        if event >= 0 or begins:
            items += [Item(-1, number) for number in sorted(dying)]
            dying.clear()
        while mark is not None and mark.event <= index:
            items.append(Item(0, NONE, mark))
            mark = next(marks)
        if index == len(trace.events):
            break
        if event >= 0:
            items.append(Item(1, event))
        else:
            dying.append(-event - 1)
    return items


@dataclass(frozen=True, slots=True)
class Block:
    """What the longer stream has more, in one place: part of a stretch that repeats.

    Attributes:
        start: Where it begins in the longer stream.
        length: Items of it.
        before: Items in front of it that repeat with the same period.
        behind: Items behind it that do.
    """

    start: int
    length: int
    before: int
    behind: int

    @property
    def end(self) -> int:
        """Where it ends in the longer stream."""
        return self.start + self.length

    @property
    def stretch(self) -> range:
        """All that repeats, the block included."""
        return range(self.start - self.before, self.end + self.behind)

    def moved(self, items: int) -> "Block":
        """The same, laid as many items further to the front."""
        return Block(self.start - items, self.length, self.before - items, self.behind + items)


@dataclass(frozen=True, slots=True)
class Alignment:
    """The longer stream beside the shorter one.

    Attributes:
        partner: For every item of the longer one its place in the shorter one, `NONE` in blocks.
        blocks: In order.
    """

    partner: Sequence[int]
    blocks: Sequence[Block]


def align(short: Stream, long: Stream) -> Alignment:
    """Lay two streams side by side, blocks at the ends of what repeats in front of them.

    Raises:
        ExtendError: The longer one isn't the shorter one with repeating blocks put in.
    """
    partner: list[int] = []
    blocks: list[Block] = []
    here, there, floor = 0, 0, 0
    while True:
        same = _common(short.tokens, here, long.tokens, there)
        partner += range(here, here + same)
        here, there = here + same, there + same
        if here == len(short.tokens) and there == len(long.tokens):
            return Alignment(partner, blocks)
        length, gain = _best_block(short, long, here, there)
        if _agreement(short, long, here, there) > gain:
            partner.append(here)
            here, there = here + 1, there + 1
        elif length:
            reach = _reach(long.tokens, there, length, floor)
            blocks.append(Block(there, length, reach, 0))
            partner += [NONE] * length
            there += length
            floor = there
        else:
            raise ExtendError("streams_differ", _where(long, there))


def _best_block(short: Stream, long: Stream, here: int, there: int) -> tuple[int, int]:
    """Length of the repeating block after which the streams agree for longest, and for how long."""
    more = len(long.tokens) - len(short.tokens) - (there - here)
    best, gain = 0, 0
    for length in range(1, min(more, there) + 1):
        same = _agreement(short, long, here, there + length)
        if same > gain and long.tokens[there - length : there] == long.tokens[there : there + length]:
            best, gain = length, same
    return best, gain


def _agreement(short: Stream, long: Stream, here: int, there: int) -> int:
    """For how long the streams agree from two places on, the first item's size left aside."""
    if here == len(short.tokens) or there == len(long.tokens):
        return int(here == len(short.tokens) and there == len(long.tokens))
    if short.loose[here] != long.loose[there]:
        return 0
    return 1 + _common(short.tokens, here + 1, long.tokens, there + 1)


def _common(one: Sequence[int], start: int, other: Sequence[int], begin: int) -> int:
    """How many items agree from two places on."""
    limit = min(len(one) - start, len(other) - begin)
    known, step = 0, 64
    while known < limit:
        size = min(step, limit - known)
        if one[start + known : start + known + size] == other[begin + known : begin + known + size]:
            known, step = known + size, step * 2
        elif size == 1:
            break
        else:
            step = max(size // 2, 1)
    return known


def _reach(tokens: Sequence[int], start: int, length: int, floor: int) -> int:
    place = start - 1
    while place >= floor and tokens[place] == tokens[place + length]:
        place -= 1
    return start - 1 - place


def _where(stream: Stream, place: int) -> str:
    if place >= len(stream.items):
        return "at the end"
    item = stream.items[place]
    if item.mark is not None:
        return f"at the start of {item.mark.phase}"
    storage = stream.storages[item.storage]
    return f"{storage.phase}: {storage.op} in {storage.module or 'no module'}"
