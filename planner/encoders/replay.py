"""A tape played: what is alive at the fullest moments of the forward pass, of the loss and of the backward pass.

Gradients are tensors of their own; one that comes second is added into the first where nothing else holds that
(PyTorch `torch/csrc/autograd/input_buffer.cpp`). What an operation has saved goes when its backward pass is over, and a
layer that is computed again keeps its input until then (`torch/utils/checkpoint.py`).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from planner.encoders.operations import Operation, Value
from planner.encoders.tape import Tape
from planner.ledger import Category
from planner.memory.terms import Terms, add

Group = tuple[Category, str]
NEAR: Final = 0.994
"""Moments as full as this share of the fullest are kept too: they are told apart by what they are made of."""
MOST: Final = 8

_KEPT: Final = {Category.LOGITS: "logits", Category.WEIGHTS: "autocast_weights"}
_GRADIENTS: Final = {
    Category.LOGITS: (Category.LOGITS, "logit_gradients"),
    Category.WEIGHTS: (Category.GRADIENTS, "gradients"),
}
_OF_STREAM: Final = (Category.ACTIVATIONS, "layer_gradients")
WORKSPACE: Final = (Category.CONTEXT, "kernel_workspace")


@dataclass(frozen=True, slots=True)
class Moment:
    """What is alive at one moment.

    Attributes:
        bytes: All of it, gradients of weights at `gradient_bytes` each.
        groups: Bytes of an element by shape, by category and name.
        come: Elements of weights whose gradients have come.
        fresh: Those of them that come at this moment.
    """

    bytes: float
    groups: dict[Group, Terms]
    come: int
    fresh: int


@dataclass(slots=True)
class Fullest:
    """The fullest moments of one phase."""

    best: float = -1.0
    found: list[Moment] = field(default_factory=list)

    def top(self) -> tuple[Moment, ...]:
        """Those as full as the fullest, the fullest first; one where there is none."""
        near = sorted(
            (one for one in self.found if one.bytes >= NEAR * self.best), key=lambda one: -one.bytes
        )
        return tuple(near[:MOST])


class Replay:
    """Plays a tape.

    Args:
        tape: The tape.
        outputs: Tensors that the network puts out beside its loss, and that a loop holds.
        loss: The loss.
        gradient_bytes: Bytes of a gradient of a weight as it comes; 0 where all are counted before.
        fresh_bytes: Bytes of one that has just come and is then added to what was there.
    """

    def __init__(self, tape: Tape, loss: int, *, gradient_bytes: float = 0, fresh_bytes: float = 0) -> None:
        self._tape, self._loss = tape, loss
        self._ops, self._values = tape.ops, tape.values
        self._g, self._f = gradient_bytes, fresh_bytes
        self._size: dict[int, tuple[str, float, int]] = {}
        for value in self._values:
            if value.storage not in self._size:
                self._size[value.storage] = value.key, value.bytes, tape.elements(value.key)
        self._category: dict[int, Category] = {}
        for value in self._values:
            self._category.setdefault(value.storage, value.category)
        self._last: dict[int, int] = {}
        for index, op in enumerate(self._ops):
            for x in (*op.reads, *op.makes):
                self._last[self._values[x].storage] = index
        self.forward, self.loss, self.backward = Fullest(), Fullest(), Fullest()
        self._where: dict[int, Group] = {}
        self._sums: defaultdict[Group, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._total = 0.0
        self._come = 0

    # -- what is alive ----------------------------------------------------------------------------------------------

    def _put(self, storage: int, group: Group) -> None:
        key, size, count = self._size[storage]
        self._where[storage] = group
        self._sums[group][key] += size
        self._total += size * count

    def _drop(self, storage: int) -> None:
        group = self._where.pop(storage, None)
        if group is not None:
            key, size, count = self._size[storage]
            self._sums[group][key] -= size
            self._total -= size * count

    def _look(
        self, phase: Fullest, extra: Terms | None = None, fresh: int = 0, kernel: Terms | None = None
    ) -> None:
        """A moment.

        Args:
            phase: Of which.
            extra: Tensors that are there beside.
            fresh: Elements of weights whose gradients come now.
            kernel: What a kernel takes for itself.
        """
        beside = ((_OF_STREAM, extra or {}), (WORKSPACE, kernel or {}))
        more = sum(size * self._tape.elements(key) for _, terms in beside for key, size in terms.items())
        amount = self._total + more + self._come * self._g + fresh * self._f
        if amount < NEAR * phase.best:
            return
        phase.best = max(phase.best, amount)
        groups: dict[Group, Terms] = {
            group: {key: size for key, size in terms.items() if size} for group, terms in self._sums.items()
        }
        for group, terms in beside:
            groups[group] = add(groups.get(group, {}), terms)
        phase.found.append(Moment(amount, {g: t for g, t in groups.items() if t}, self._come, fresh))

    # -- forward ----------------------------------------------------------------------------------------------------

    def play(self) -> "Replay":
        """Both passes."""
        saved = self._saved()
        end = len(self._ops)
        self._run(range(self._tape.loss_from), saved, self.forward, "forward_temporary")
        self._run(range(self._tape.loss_from, end), saved, self.loss, "forward_temporary")
        for storage in [s for s in self._where if s not in saved]:
            self._drop(storage)
        self._back(saved)
        return self

    def _saved(self) -> frozenset[int]:
        """What the forward pass keeps: saved tensors, and the inputs of parts that are computed again."""
        inside: defaultdict[int, set[int]] = defaultdict(set)
        found: set[int] = set()
        for op in self._ops:
            if op.segment:
                inside[op.segment] |= {self._values[x].storage for x in op.makes}
            else:
                found |= {self._values[x].storage for x in op.saves}
        for op in self._ops:
            if op.segment:
                found |= {self._values[x].storage for x in op.reads} - inside[op.segment]
        self._inside = inside
        return frozenset(found)

    def _kept_name(self, storage: int, again: str) -> Group:
        category = self._category[storage]
        if category in _KEPT:
            return category, _KEPT[category]
        if again:
            return category, again
        key, size, _ = self._size[storage]
        if size == 1:
            return category, "dropout_masks"
        return category, "attention_scores" if key.startswith("b*n*") and key.count(
            "*"
        ) > 2 else "saved_activations"

    def _run(
        self, indices: Iterable[int], stays: frozenset[int] | set[int], phase: Fullest, name: str,
        last: dict[int, int] | None = None,
    ) -> set[int]:  # fmt: skip
        """Operations one after the other: tensors are made, and go when nothing reads them any more."""
        last = self._last if last is None else last
        mine: set[int] = set()
        again = name if name == "recomputed_layer" else ""
        for index in indices:
            op = self._ops[index]
            for x in op.makes:
                storage = self._values[x].storage
                if storage not in self._where:
                    kept = storage in stays
                    group = self._kept_name(storage, again) if kept or again else self._passing(storage, name)
                    self._put(storage, group)
                    mine.add(storage)
            self._look(phase)
            for x in (*op.reads, *op.makes):
                storage = self._values[x].storage
                if storage in mine and storage not in stays and last.get(storage, -1) <= index:
                    self._drop(storage)
        return mine

    def _passing(self, storage: int, name: str) -> Group:
        category = self._category[storage]
        return category, _KEPT.get(category, name)

    # -- backward ---------------------------------------------------------------------------------------------------

    def _back(self, saved: frozenset[int]) -> None:
        self._gradient: dict[int, int] = {}
        self._users: defaultdict[int, int] = defaultdict(int)
        self._frees = self._releases(saved)
        self._give(self._loss, self._new(self._loss), self.loss)
        index = len(self._ops) - 1
        while index >= 0:
            segment = self._ops[index].segment
            if not segment:
                phase = self.loss if index > self._tape.logits_at else self.backward
                self._step(index, self._frees.get(index, ()), phase)
                index -= 1
                continue
            start = index
            while start and self._ops[start - 1].segment == segment:
                start -= 1
            self._again(start, index, saved)
            index = start - 1

    def _releases(self, saved: frozenset[int]) -> dict[int, list[int]]:
        """By operation what goes after its backward pass: it was the first to save that."""
        first: dict[int, int] = {}
        starts: dict[int, int] = {}
        for index, op in enumerate(self._ops):
            if op.segment:
                starts.setdefault(op.segment, index)
            for x in (*op.saves, *(op.reads if op.segment else ())):
                storage = self._values[x].storage
                if storage in saved:
                    first.setdefault(storage, starts[op.segment] if op.segment else index)
        found: defaultdict[int, list[int]] = defaultdict(list)
        for storage, index in first.items():
            found[index].append(storage)
        return found

    def _again(self, start: int, end: int, saved: frozenset[int]) -> None:
        """A part computed again, then its backward pass."""
        ops, indices = self._ops, range(start, end + 1)
        made = self._inside[ops[start].segment]
        saves = {self._values[x].storage for i in indices for x in ops[i].saves} & made
        last: dict[int, int] = {}
        for i in indices:
            for x in (*ops[i].reads, *ops[i].makes):
                last[self._values[x].storage] = i
        stop = max((i for i in indices if ops[i].saves), default=start)
        if not self._tape.runs.stops_early:
            stop = end
            saves = saves | self._outputs(start, end)
        here = {s for s in made if s in self._where}
        self._run(range(start, stop + 1), saves, self.backward, "recomputed_layer", last)
        for storage in made - saves - here:
            self._drop(storage)
        frees = self._released_within(indices, saves - saved)
        for i in range(end, start - 1, -1):
            self._step(i, frees.get(i, ()), self.backward)
        for storage in (*(made - here), *self._frees.get(start, ())):
            self._drop(storage)

    def _released_within(self, indices: range, saves: set[int]) -> dict[int, list[int]]:
        """By operation of a part computed again what goes after its backward pass."""
        within: dict[int, int] = {}
        for i in indices:
            for x in self._ops[i].saves:
                storage = self._values[x].storage
                if storage in saves:
                    within.setdefault(storage, i)
        frees: defaultdict[int, list[int]] = defaultdict(list)
        for storage, i in within.items():
            frees[i].append(storage)
        return frees

    def _outputs(self, start: int, end: int) -> set[int]:
        """What later parts read of this one."""
        made = self._inside[self._ops[start].segment]
        read = {self._values[x].storage for op in self._ops[end + 1 :] for x in op.reads}
        return made & read

    def _step(self, index: int, frees: Iterable[int], phase: Fullest) -> None:
        """One operation's backward pass."""
        op = self._ops[index]
        came = [(x, self._gradient.pop(x)) for x in op.makes if x in self._gradient]
        made = [(x, self._new(x)) for x in op.new] if came else []
        if came:
            self._come += op.arrives + op.added
            self._look(phase, op.working_back, op.arrives, op.working)
        if op.leaf:
            return
        for storage in frees:
            self._drop(storage)
        if came:
            self._hand_on(op, [gradient for _, gradient in came], made, phase)

    def _hand_on(self, op: Operation, came: list[int], made: list[tuple[int, int]], phase: Fullest) -> None:
        """The gradients of an operation's inputs go to where those were made."""
        if not op.same:
            for gradient in came:
                self._release(gradient)
        if op.added:
            self._come += op.added
            self._look(phase)
            self._come -= 2 * op.added
        for x, gradient in made:
            self._give(x, gradient, phase)
        for x in op.same:
            self._give(x, came[0], phase)
        if op.same:
            for gradient in came:
                self._release(gradient)

    def _new(self, number: int) -> int:
        """A gradient of a tensor's own."""
        value: Value = self._values[number]
        name = -1 - len(self._size)
        self._size[name] = value.key, value.bytes, self._tape.elements(value.key)
        self._put(name, _GRADIENTS.get(value.category, _OF_STREAM))
        return name

    def _give(self, number: int, gradient: int, phase: Fullest) -> None:
        """A gradient goes to a tensor; where one is there already, both become one."""
        there = self._gradient.get(number)
        if there is None:
            self._gradient[number] = gradient
            self._users[gradient] += 1
            return
        total = self._new(number)
        self._look(phase)
        self._gradient[number] = total
        self._users[total] += 1
        self._release(there)
        self._users[gradient] += 0
        if not self._users[gradient]:
            self._drop(gradient)

    def _release(self, gradient: int) -> None:
        self._users[gradient] -= 1
        if self._users[gradient] <= 0:
            self._drop(gradient)
