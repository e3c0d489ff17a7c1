"""The operations of a block carried out one after the other, with what is alive at each."""

from collections.abc import Iterable, Mapping, Sequence

from planner.diffusion.operations import Operation, Peak, Trace, Value
from planner.memory.terms import Terms


class Replay:
    """The operations carried out one after the other, with what is alive at each."""

    def __init__(
        self,
        values: Sequence[Value],
        ops: Sequence[Operation],
        outside: set[int],
        outputs: Sequence[int],
        widths: Mapping[str, float],
    ) -> None:
        self._values, self._ops, self._outside = values, ops, outside
        self._outputs = {values[number].storage for number in outputs}
        self._output_numbers = tuple(outputs)
        self._widths = widths
        self._sizes: dict[int, tuple[str, float]] = {}
        for value in values:
            self._sizes.setdefault(value.storage, (value.width, value.bytes))
        self._last_read = {
            values[number].storage: index for index, op in enumerate(ops) for number in op.reads
        }

    def trace(self) -> Trace:
        """Forward with gradients, backward, and forward without."""
        plain = self._forward(frozenset())
        saved = frozenset(self._values[x].storage for op in self._ops for x in op.saves) - self._outside
        forward = self._forward(saved)
        kept = self._sum(self._sizes[storage] for storage in saved - self._outputs)
        outputs = self._sum(self._sizes[storage] for storage in self._outputs - self._outside)
        return Trace(kept, outputs, forward, self._backward(saved), plain, self._again(saved))

    def _again(self, saved: frozenset[int]) -> Peak:
        """Without reentering, checkpoints stop at the last tensor that was saved (`early_stop`)."""
        last = max((index for index, op in enumerate(self._ops) if op.saves), default=-1)
        gradients = [(self._values[x].width, self._values[x].bytes) for x in self._output_numbers]
        return self._forward(saved, last + 1, gradients)

    def _sum(self, sizes: Iterable[tuple[str, float]]) -> Terms:
        total: Terms = {}
        for width, size in sizes:
            total[width] = total.get(width, 0) + size
        return total

    def _peak(self, best: Peak, sizes: Sequence[tuple[str, float]]) -> Peak:
        widths, amount = self._widths, 0.0
        for width, size in sizes:
            amount += size * widths[width]
        return Peak(amount, self._sum(sizes)) if amount > best.bytes else best

    def _forward(
        self, saved: frozenset[int], stop: int | None = None, beside: Sequence[tuple[str, float]] = ()
    ) -> Peak:
        best, alive = Peak(0, {}), set[int]()
        for index, op in enumerate(self._ops[:stop]):
            made = {self._values[number].storage for number in op.makes}
            if not saved:
                made = {s for s in made if s in self._last_read or s in self._outputs}
            alive |= made - self._outside
            best = self._peak(best, [*beside, *(self._sizes[s] for s in alive), *op.working.items()])
            alive = {
                s for s in alive if s in saved or s in self._outputs or self._last_read.get(s, -1) > index
            }
        return best

    def _backward(self, saved: frozenset[int]) -> Peak:
        """Gradients are tensors of their own; one that comes second is added into the first and goes."""
        best = Peak(0, {})
        uses = [{self._values[x].storage for x in op.saves} & saved for op in self._ops]
        gradient: dict[int, int] = {}
        sizes: dict[int, tuple[str, float]] = {}
        for number in self._output_numbers:
            sizes[len(sizes)] = (self._values[number].width, self._values[number].bytes)
            gradient[number] = len(sizes) - 1
        first: dict[int, int] = {}
        for index, use in enumerate(uses):
            for s in use:
                first.setdefault(s, index)
        held = set(first) - self._outputs
        for index in range(len(self._ops) - 1, -1, -1):
            op = self._ops[index]
            came = [gradient.pop(number) for number in op.makes if number in gradient]
            extra: list[tuple[str, float]] = list(op.working_back.items()) if came else []
            for number in op.new if came else ():
                own = self._values[number].width, self._values[number].bytes
                if number in gradient:
                    extra.append(own)
                    continue
                sizes[len(sizes)] = own
                gradient[number] = len(sizes) - 1
            for number in op.same if came else ():
                if number not in gradient:
                    gradient[number] = came[0]
            alive = {*gradient.values(), *came}
            best = self._peak(best, [*(self._sizes[s] for s in held), *(sizes[g] for g in alive), *extra])
            held -= {s for s in uses[index] if first[s] == index}
        return best
