"""A whole network carried out operation by operation: what is alive at its fullest moments, forward and backward.

Beyond one block (`planner.diffusion.replay`) this has parts that are computed again in the backward pass, gradients of
weights as they come, and sizes that differ from operation to operation. Which moment is the fullest depends on the
sizes; so all that can be are kept, and the plan takes the fullest (`planner.diffusion.moments`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from planner.diffusion.moments import AGAIN, HELD, WORKING, Alive, Amount, Moment, Place
from planner.diffusion.operations import Operation, Value
from planner.memory.terms import Terms


@dataclass(frozen=True, slots=True)
class Passes:
    """A network's passes.

    Attributes:
        kept: What the forward pass leaves, its output included.
        forward: Fullest moments of the forward pass.
        backward: Fullest moments of the backward pass.
        plain: Fullest moments of a pass without gradients.
    """

    kept: Terms
    forward: tuple[Moment, ...]
    backward: tuple[Moment, ...]
    plain: tuple[Moment, ...]


class Network:
    """Operations of a whole network.

    Args:
        values: Its tensors.
        ops: Its operations.
        outside: Storages that are there before and after it.
        outputs: Its outputs.
        place: A width's place.
        amount: How many cells, tokens or scores a place has.
    """

    def __init__(
        self,
        values: Sequence[Value],
        ops: Sequence[Operation],
        outside: set[int],
        outputs: Sequence[int],
        place: Place,
        amount: Amount,
    ) -> None:
        self.values, self.ops, self.outside, self.outputs = values, ops, outside, tuple(outputs)
        self.place, self.amount = place, amount
        self._output_storages = {values[number].storage for number in outputs}
        self.sizes: dict[int, tuple[str, float]] = {}
        for value in values:
            self.sizes.setdefault(value.storage, (value.width, value.bytes))
        self._last_read = {self.storage(x): index for index, op in enumerate(ops) for x in op.reads}
        self._made_at: dict[int, int] = {}
        for index, op in enumerate(ops):
            for x in op.makes:
                self._made_at.setdefault(self.storage(x), index)

    def storage(self, number: int) -> int:
        """Of a tensor."""
        return self.values[number].storage

    def passes(self) -> Passes:
        """All passes."""
        plain = self._forward(frozenset()).moments()
        saved = self._saved()
        alive = self._forward(saved)
        return Passes(alive.held(), alive.moments(), Backward(self, saved).moments(), plain)

    def _saved(self) -> frozenset[int]:
        """What the forward pass keeps: saved tensors, and the inputs of parts that are computed again."""
        found = {self.storage(x) for op in self.ops if not op.segment for x in op.saves}
        inside = self._inside()
        flowing = {op.segment for op in self.ops if op.segment and (op.saves or op.arrives)}
        for op in self.ops:
            if op.segment in flowing:
                found |= {self.storage(x) for x in op.reads} - inside[op.segment]
        return frozenset(found - self.outside)

    def _inside(self) -> dict[int, set[int]]:
        """Storages that are made within each part."""
        inside: defaultdict[int, set[int]] = defaultdict(set)
        for op in self.ops:
            if op.segment:
                inside[op.segment] |= {self.storage(x) for x in op.makes}
        return inside

    def _forward(self, saved: frozenset[int]) -> Alive:
        alive = Alive(self.sizes, self.place, self.amount)
        self.run(range(len(self.ops)), alive, saved | self._output_storages, WORKING)
        return alive

    def run(
        self,
        indices: Iterable[int],
        alive: Alive,
        stays: frozenset[int] | set[int],
        part: int,
        come: int = 0,
    ) -> None:
        """Operations one after the other: tensors are made, and go when nothing reads them any more.

        Args:
            indices: Of the operations.
            alive: What is alive.
            stays: Storages that stay.
            part: What the others count to.
            come: Elements whose gradients have come.
        """
        mine: set[int] = set()
        for index in indices:
            op = self.ops[index]
            for x in op.makes:
                storage = self.storage(x)
                if (
                    storage not in alive.where
                    and storage not in self.outside
                    and self._is_made(storage, index)
                ):
                    alive.put(storage, HELD if storage in stays and part == WORKING else part)
                    mine.add(storage)
            alive.look(op.working.items(), come)
            for storage in {self.storage(x) for x in (*op.reads, *op.makes)}:
                if storage in mine and storage not in stays and self._last_read.get(storage, -1) <= index:
                    alive.drop(storage)

    def _is_made(self, storage: int, index: int) -> bool:
        return self._made_at[storage] == index


class Backward:
    """The backward pass of a network."""

    def __init__(self, network: Network, saved: frozenset[int]) -> None:
        self._net, self._saved = network, saved
        sizes = dict(network.sizes)
        self._sizes = sizes
        self._alive = Alive(sizes, network.place, network.amount)
        self._gradient: dict[int, int] = {}
        self._users: defaultdict[int, int] = defaultdict(int)
        self._come = 0

    def moments(self) -> tuple[Moment, ...]:
        """The fullest ones."""
        net = self._net
        ops, storage_of = net.ops, net.storage
        for storage in self._saved:
            self._alive.put(storage, HELD)
        for number in net.outputs:
            self._give(number, self._new(number))
        first = self._first_uses()
        index = len(ops) - 1
        while index >= 0:
            segment = ops[index].segment
            if not segment:
                self._step(index, first, storage_of)
                index -= 1
                continue
            start = index
            while start > 0 and ops[start - 1].segment == segment:
                start -= 1
            self._again(start, index, first)
            index = start - 1
        return self._alive.moments()

    def _first_uses(self) -> dict[int, int]:
        """The first operation that saved a storage: after its backward pass it is gone."""
        net, first = self._net, dict[int, int]()
        for index, op in enumerate(net.ops):
            needed = op.saves if not op.segment else (*op.saves, *op.reads)
            for x in needed:
                first.setdefault(net.storage(x), index)
        return first

    def _again(self, start: int, end: int, first: Mapping[int, int]) -> None:
        """A part computed again, then its backward pass."""
        net = self._net
        indices = range(start, end + 1)
        made = {net.storage(x) for i in indices for x in net.ops[i].makes}
        saves = {net.storage(x) for i in indices for x in net.ops[i].saves} & made
        last = max((i for i in indices if net.ops[i].saves), default=start)
        net.run(range(start, last + 1), self._alive, saves, AGAIN, self._come)
        for storage in made - saves:
            self._alive.drop(storage)
        within: dict[int, int] = {}
        for i in indices:
            for x in net.ops[i].saves:
                within.setdefault(net.storage(x), i)
        for i in range(end, start - 1, -1):
            self._step(i, within, net.storage, inputs=False)
        for storage in self._saved - made:
            if first.get(storage) is not None and start <= first[storage] <= end:
                self._alive.drop(storage)

    def _step(
        self,
        index: int,
        first: Mapping[int, int],
        storage_of: Callable[[int], int],
        *,
        inputs: bool = True,
    ) -> None:
        """One operation's backward pass."""
        op = self._net.ops[index]
        came = [(x, self._gradient.pop(x)) for x in op.makes if x in self._gradient]
        if came:
            extra = list(op.working_back.items())
            self._come += op.arrives
            made = [(x, self._new(x)) for x in op.new]
            self._alive.look(extra, self._come, op.arrives)
            for x, gradient in made:
                self._give(x, gradient)
            for x in op.same:
                self._give(x, came[0][1], of=x)
            for _, gradient in came:
                self._release(gradient)
        for x in op.saves:
            storage = storage_of(x)
            mine = storage not in self._saved or inputs
            if mine and first.get(storage) == index:
                self._alive.drop(storage)

    def _new(self, number: int) -> int:
        """A gradient of a tensor's own."""
        value = self._net.values[number]
        name = -1 - len(self._sizes)
        self._sizes[name] = (value.width, value.bytes)
        self._alive.put(name, WORKING)
        return name

    def _give(self, number: int, gradient: int, of: int | None = None) -> None:
        """A gradient goes to a tensor; where one is there already, both become one."""
        there = self._gradient.get(number)
        if there is None:
            self._gradient[number] = gradient
            self._users[gradient] += 1
            return
        if not self._is_part(number, there):
            self._alive.look((), self._come)
            if of is None:
                self._alive.drop(gradient)
            return
        total = self._new(number)
        self._alive.look((), self._come)
        self._gradient[number] = total
        self._users[total] += 1
        self._release(there)
        if of is None:
            self._alive.drop(gradient)

    def _is_part(self, number: int, gradient: int) -> bool:
        """Whether a gradient is a part of a larger one, so that nothing can be added into it."""
        value = self._net.values[number]
        return self._sizes[gradient] != (value.width, value.bytes)

    def _release(self, gradient: int) -> None:
        self._users[gradient] -= 1
        if self._users[gradient] <= 0:
            self._alive.drop(gradient)
