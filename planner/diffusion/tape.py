"""A block's forward pass written down operation by operation, and what autograd keeps and makes of it.

A `Tape` is told what a block computes. From that follow, with no constant of its own: what the forward pass keeps for
the backward pass, the most that is alive at once in either, and the same for a pass without gradients. Sizes are sums
of "bytes per element x elements per token", so that they can be shown. Rules of the operators: PyTorch's
`tools/autograd/derivatives.yaml`; of adapters: PEFT `lora/layer.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from planner.diffusion.operations import WIDE, Operation, Trace, Trains, Value
from planner.diffusion.replay import Replay
from planner.memory.terms import Terms

POWER: Final = 2 * WIDE
"""`pow_backward` of the square in a norm of single steps: the input again, doubled, and its product with the gradient,
beside that of the mean; less what is counted as gradients."""


class Tape:
    """Takes a block's operations down. Tensors are numbers.

    Args:
        compute_bytes: Bytes of an element of the stream and of matrix products.
        trains: What is trained.
    """

    def __init__(self, compute_bytes: int, trains: Trains) -> None:
        self.e = compute_bytes
        self.trains = trains
        self._values: list[Value] = []
        self._ops: list[Operation] = []
        self._outside: set[int] = set()
        self._storages = 0
        self._segment = 0

    def given(self, width: str, *, flows: bool = True) -> int:
        """A tensor that is there before the block and after it: no byte of it is counted."""
        number = self._make(width, self.e, flows=flows)
        self._outside.add(self._values[number].storage)
        return number

    def _make(self, width: str, size: float, *, flows: bool, storage: int | None = None) -> int:
        if storage is None:
            storage, self._storages = self._storages, self._storages + 1
        self._values.append(Value(storage, width, size, flows))
        return len(self._values) - 1

    def _flows(self, *numbers: int) -> bool:
        return any(self._values[number].flows for number in numbers)

    def _like(self, number: int, size: float | None = None, *, flows: bool | None = None) -> int:
        value = self._values[number]
        size = value.bytes if size is None else size
        return self._make(value.width, size, flows=value.flows if flows is None else flows)

    def _note(
        self,
        reads: Sequence[int],
        makes: Sequence[int],
        *,
        saves: Iterable[int] = (),
        new: Iterable[int] = (),
        same: Iterable[int] = (),
        working: Terms | None = None,
        working_back: Terms | None = None,
    ) -> None:
        flows = self._flows(*makes)
        self._ops.append(
            Operation(
                tuple(reads),
                tuple(makes),
                tuple(saves) if flows else (),
                tuple(x for x in new if self._values[x].flows),
                tuple(x for x in same if self._values[x].flows),
                working or {},
                working_back or {},
                self._segment,
            )
        )

    def _side(self, width: str, size: float) -> int:
        """A small tensor that only the backward pass reads."""
        return self._make(width, size, flows=False)

    def size(self, x: int) -> float:
        """Bytes of an element of a tensor."""
        return self._values[x].bytes

    def cast(self, x: int, size: float) -> int:
        """Another number format; the same tensor where it has it already."""
        if self.size(x) == size:
            return x
        y = self._like(x, size)
        self._note([x], [y], new=[x])
        return y

    def layer_norm(self, x: int) -> int:
        """A layer norm: keeps what it reads, mean and deviation of each token."""
        y, row = self._like(x), self._side("", 2 * WIDE)
        self._note([x], [y, row], saves=[x, row], new=[x])
        return y

    def rms_norm(self, x: int, rows: str) -> int:
        """PyTorch's own: keeps what it reads and a number for each of `rows`."""
        y, row = self._like(x), self._side(rows, WIDE)
        self._note([x], [y, row], saves=[x, row], new=[x])
        return y

    def rms_norm_in_steps(self, x: int, rows: str, *, affine: bool = True) -> int:
        """diffusers' own, in single steps (`RMSNorm`): keeps an fp32 copy, and what the weight multiplies."""
        e = self.size(x)
        y = self.cast(self.normed_in_steps(x, rows), e)
        return self.scaled(y, by_weight=True) if affine else y

    def normed_in_steps(self, x: int, rows: str) -> int:
        """The same before it is cast back, in fp32."""
        wide, width = self.cast(x, WIDE), self._values[x].width
        y, row = self._like(x, WIDE), self._side(rows, WIDE)
        self._note([x, wide], [y, row], saves=[x, wide, row], new=[x, wide], working_back={width: POWER})
        return y

    def scaled(self, x: int, *, by_weight: bool = False) -> int:
        """Times a weight, a scale or a gate: keeps that, which is small, and what it reads where that is trained.

        Args:
            x: What is multiplied.
            by_weight: It is a weight, which no adapter changes.
        """
        width, e = self._values[x].width, self.size(x)
        full = self.trains.full or (self.trains.modulation and not by_weight)
        y, factor = self._like(x), self._side("", 0)
        saves = [x, factor] if full else [factor]
        self._note([x], [y, factor], saves=saves, new=[x], working_back={width: e} if full else {})
        return y

    def modulated(self, x: int) -> int:
        """Scale and shift by what the time step says."""
        return self.shifted(self.scaled(x))

    def shifted(self, x: int) -> int:
        """A small tensor added: a tensor of its own, whose gradient goes on."""
        y = self._like(x)
        self._note([x], [y], same=[x])
        return y

    def add(self, x: int, y: int) -> int:
        """A sum, in the wider format of the two."""
        size = max(self.size(x), self.size(y))
        z = self._like(x, size, flows=self._flows(x, y))
        same = [v for v in (x, y) if self.size(v) == size]
        self._note([x, y], [z], same=same, new=[v for v in (x, y) if v not in same])
        return z

    def times(self, x: int, y: int) -> int:
        """A product: keeps both factors."""
        z = self._like(x, flows=self._flows(x, y))
        self._note([x, y], [z], saves=[x, y], new=[x, y])
        return z

    def activation(self, x: int) -> int:
        """GELU or SiLU: keeps what it reads."""
        y = self._like(x)
        self._note([x], [y], saves=[x], new=[x])
        return y

    def view(self, x: int, width: str) -> int:
        """A part of a tensor: no bytes; its gradient is as large as the whole."""
        value = self._values[x]
        y = self._make(width, value.bytes, flows=value.flows, storage=value.storage)
        self._note([x], [y], new=[x])
        return y

    def split(self, x: int, *widths: str) -> tuple[int, ...]:
        """All parts of a tensor: no bytes; their gradients are put together."""
        value = self._values[x]
        parts = [self._make(w, value.bytes, flows=value.flows, storage=value.storage) for w in widths]
        self._note([x], parts, new=[x])
        return tuple(parts)

    def cat(self, width: str, *parts: int) -> int:
        """Tensors put together; their gradients are parts of one."""
        y = self._make(width, self.size(parts[0]), flows=self._flows(*parts))
        self._note(parts, [y], same=parts)
        return y

    def used(self, *numbers: int) -> None:
        """Names that hold tensors up to here, whoever read them last."""
        self._note(numbers, ())

    def copy(self, x: int) -> int:
        """A contiguous copy."""
        y = self._like(x)
        self._note([x], [y], same=[x])
        return y

    def rotated(self, x: int, working: float, working_back: float) -> int:
        """Rotary positions: keeps no tensor of the tokens; in fp32 on the way."""
        width = self._values[x].width
        y = self._like(x)
        self._note([x], [y], new=[x], working={width: working}, working_back={width: working_back})
        return y

    def rotated_halves(self, x: int, working: float, working_back: float) -> int:
        """Rotary positions on both halves in fp32; the halves are kept where the positions are trained."""
        width, full = self._values[x].width, self.trains.full
        halves = self._like(x, WIDE)
        self._note([x], [halves], new=[x])
        y = self._like(x)
        self._note(
            [halves],
            [y],
            saves=[halves] if full else [],
            new=[halves],
            working={width: working},
            working_back={width: working_back},
        )
        return y

    def rotated_in_place(self, x: int, part: str, working: float) -> int:
        """Rotary positions written into the tensor itself, into `part` of it."""
        value = self._values[x]
        y = self._make(value.width, value.bytes, flows=value.flows, storage=value.storage)
        self._note([x], [y], new=[x], working={part: working}, working_back={part: working})
        return y

    def widened(self, x: int, *, copies: bool) -> int:
        """Times an fp32 gate: the product is fp32; `copies`: so is what is multiplied."""
        source = self.cast(x, WIDE) if copies else x
        y, factor = self._like(source, WIDE), self._side("", 0)
        width, full = self._values[x].width, self.trains.full or self.trains.modulation
        self._note(
            [source],
            [y, factor],
            saves=[source, factor] if full else [factor],
            new=[source],
            working_back={width: WIDE} if full else {},
        )
        return y

    def layer_norm_of_heads(self, x: int, rows: str) -> int:
        """A layer norm of each head."""
        y, row = self._like(x), self._side(rows, 2 * WIDE)
        self._note([x], [y, row], saves=[x, row], new=[x])
        return y

    def attention(self, q: int, k: int, v: int, heads: str) -> int:
        """A fused kernel: keeps queries, keys, values, its output, and a number for each head."""
        y, sums = self._like(q, flows=self._flows(q, k, v)), self._side(heads, WIDE)
        self._note([q, k, v], [y, sums], saves=[q, k, v, y, sums], new=[q, k, v])
        return y

    def linear(self, x: int, name: str, out: str, weights: str) -> int:
        """A matrix, with its adapter if it has one.

        Args:
            x: What it multiplies.
            name: Its name in the block.
            out: Width of its output.
            weights: Symbol of its elements per token, for what DoRA makes of them.
        """
        y = self._make(out, self.e, flows=self.trains.full or self._flows(x))
        self._note([x], [y], saves=[x] if self.trains.full else [], new=[x])
        if name not in self.trains.sites:
            return y
        return self._adapted(x, y, out, weights)

    def _adapted(self, x: int, base: int, out: str, weights: str) -> int:
        a, e = self.trains.adapter_bytes, self.e
        given = self.cast(x, a)
        if self.trains.dropout:
            given = self._dropped(given)
        low = self._make(self._low(out), a, flows=True)
        self._note([given], [low], saves=[given], new=[given])
        high = self._make(out, a, flows=True)
        self._note([low], [high], saves=[low], new=[low])
        if self.trains.dora:
            return self._dora(base, high, out, weights)
        scaled = self._like(high)
        self._note([high], [scaled], new=[high])
        total = self.add(base, scaled)
        self.used(given)
        return self.cast(total, e)

    def _low(self, out: str) -> str:
        """Width between an adapter's two matrices."""
        return "rank" + _stream(out)

    def _dropped(self, x: int) -> int:
        y, mask = self._like(x, flows=True), self._side(self._values[x].width, 1)
        self._note([x], [y, mask], saves=[mask], new=[x])
        return y

    def _dora(self, base: int, high: int, out: str, weights: str) -> int:
        """(scale - 1) * base + scale * adapter, added to the base (PEFT `DoraLinearLayer.forward`).

        The norm under the scale is made of fp32 tensors as large as the matrix: itself and the adapter's product, which
        both keep their names to the end, and their sum.
        """
        held = self._make(weights, 2 * WIDE, flows=False)
        self._note([], [held], working={weights: WIDE})
        first, second = self._make(out, WIDE, flows=True), self._make(out, WIDE, flows=True)
        self._note([base], [first], saves=[base], new=[base])
        self._note([high], [second], saves=[high], new=[high], working_back={out: WIDE})
        scaled = self._like(second)
        self._note([second], [scaled], new=[second])
        both = self.add(first, scaled)
        self.used(held, high)
        return self.cast(self.add(base, both), self.e)

    def worked_out(self, outputs: Sequence[int], widths: Mapping[str, float]) -> Trace:
        """What the operations need.

        Args:
            outputs: The block's outputs.
            widths: Elements per token by symbol; 1 for `""`.
        """
        run = Replay(self._values, self._ops, self._outside, outputs, widths)
        return run.trace()


def _stream(width: str) -> str:
    """The ending of a width that says which stream it is of."""
    return next((ending for ending in ("_image", "_text") if width.endswith(ending)), "")
