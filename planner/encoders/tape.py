"""A network's forward pass written down operation by operation.

Sizes are bytes of an element by the symbols of its shape, such as `t*h` for every width of every token. Rules of the
operators: PyTorch's `tools/autograd/derivatives.yaml`; of autocast: the lists in `aten/src/ATen/autocast_mode.h`; of
adapters: PEFT `lora/layer.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from planner.encoders.operations import WIDE, Operation, Runs, Value
from planner.encoders.sizes import elements
from planner.ledger import Category
from planner.memory.terms import Terms

BLOCK: Final = 128
"""Rows that the memory-efficient kernel works on at once."""


class Tape:
    """Takes operations down. Tensors are numbers.

    Args:
        runs: How the network runs.
        numbers: What the symbols stand for.

    Attributes:
        values: Every tensor.
        ops: Every operation.
        loss_from: The first operation after the forward call, as a loop sees it.
        logits_at: The operation that puts out what the loss is made of.
        category: Of what is made without another to be like.
    """

    def __init__(self, runs: Runs, numbers: Mapping[str, int]) -> None:
        self.runs, self.numbers = runs, dict(numbers)
        self.e = runs.compute_bytes
        self.values: list[Value] = []
        self.ops: list[Operation] = []
        self.loss_from = 0
        self.logits_at = 0
        self.category = Category.ACTIVATIONS
        self._storages = 0
        self._segment = 0
        self._segments = 0
        self._cached: list[int] = []

    # -- bookkeeping ------------------------------------------------------------------------------------------------

    def make(
        self,
        key: str,
        size: float,
        *,
        flows: bool = False,
        of: int | None = None,
        category: Category | None = None,
    ) -> int:
        """A tensor; `of` another whose storage it shares."""
        category = self.category if category is None else category
        if of is None:
            storage, self._storages = self._storages, self._storages + 1
        else:
            storage = self.values[of].storage
        self.values.append(Value(storage, key, size, flows, category))
        return len(self.values) - 1

    def elements(self, key: str) -> int:
        """How many elements a key stands for."""
        return elements(key, self.numbers)

    def size(self, x: int) -> float:
        """Bytes of an element of a tensor."""
        return self.values[x].bytes

    def key(self, x: int) -> str:
        """Shape of a tensor."""
        return self.values[x].key

    def flows(self, *numbers: int) -> bool:
        """Whether a gradient comes to any of them."""
        return any(self.values[number].flows for number in numbers)

    def like(self, x: int, size: float | None = None, *, flows: bool | None = None) -> int:
        """A tensor of the same shape."""
        value = self.values[x]
        return self.make(
            value.key,
            value.bytes if size is None else size,
            flows=value.flows if flows is None else flows,
            category=value.category,
        )

    def note(
        self,
        reads: Sequence[int],
        makes: Sequence[int],
        *,
        saves: Iterable[int] = (),
        new: Iterable[int] = (),
        same: Iterable[int] = (),
        working: Terms | None = None,
        working_back: Terms | None = None,
        arrives: int = 0,
        added: int = 0,
    ) -> None:
        """Take an operation down; without a gradient on its way it saves nothing."""
        flows = self.flows(*makes)
        self.ops.append(
            Operation(
                tuple(reads),
                tuple(makes),
                tuple(saves) if flows else (),
                tuple(x for x in new if self.values[x].flows),
                tuple(x for x in same if self.values[x].flows),
                working or {},
                working_back or {},
                self._segment,
                arrives if flows else 0,
                added if flows else 0,
            )
        )

    def used(self, *numbers: int) -> None:
        """Names that hold tensors up to here, whoever read them last."""
        self.note(numbers, ())

    def part(self, storage_of: int, key: str) -> int:
        """A view of a tensor that is only held, not differentiated through."""
        return self.make(key, self.size(storage_of), of=storage_of)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Within it, operations are computed again in the backward pass, if such parts are."""
        if self.runs.checkpointed:
            self._segments += 1
            self._segment = self._segments
        yield
        self._segment = 0

    def have_logits(self) -> None:
        """The last operation put out what the loss is made of; what comes counts as its."""
        self.logits_at, self.category = len(self.ops) - 1, Category.LOGITS

    def enter_loss(self) -> None:
        """From here on a loop counts it as the loss."""
        self.loss_from = len(self.ops)

    def leave_autocast(self) -> None:
        """The cache of casts goes."""
        self.used(*self._cached)
        self._cached = []

    # -- operators --------------------------------------------------------------------------------------------------

    def cast(self, x: int, size: float) -> int:
        """Another number format; the same tensor where it has it already."""
        if self.size(x) == size:
            return x
        y = self.like(x, size)
        self.note([x], [y], new=[x])
        return y

    def split(self, x: int, *keys: str) -> tuple[int, ...]:
        """Parts of a tensor, which hold the whole; their gradients are put together."""
        parts = [self.make(key, self.size(x), flows=self.flows(x), of=x) for key in keys]
        self.note([x], parts, new=[x])
        return tuple(parts)

    def lowered(self, x: int) -> int:
        """As autocast hands it to a product."""
        return self.cast(x, self.e) if self.runs.autocast else x

    def raised(self, x: int) -> int:
        """As autocast hands it to a norm or a softmax."""
        return self.cast(x, WIDE) if self.runs.autocast else x

    def weight(self, key: str, *, trains: bool) -> int | None:
        """Autocast's 16-bit copy of a weight: cached where it is trained, else the product's own."""
        if not self.runs.casts:
            return None
        w = self.make(key, self.e, flows=trains, category=Category.WEIGHTS)
        self.note([], [w], arrives=self.elements(key) if trains else 0)
        if trains:
            self._cached.append(w)
        return w

    def linear(
        self,
        x: int,
        name: str,
        out: str,
        *,
        bias: bool = True,
        width: str = "",
        trains: bool | None = None,
        category: Category | None = None,
    ) -> int:
        """A matrix, with its adapter if it has one.

        Args:
            x: What it multiplies.
            name: Its name, whole; its last parts are what adapters are found by.
            out: Symbol of its output's width.
            bias: It has one.
            width: Symbol of its input's width; the last of `x` if not given.
            trains: It is trained; as all are if not given.
            category: Of its output.
        """
        runs, width = self.runs, width or self.key(x).rpartition("*")[2]
        trains = runs.trains if trains is None else trains
        tokens = self.key(x).rpartition("*")[0]
        source = self.lowered(x)
        w = self.weight(f"{out}*{width}", trains=trains)
        given = [source] if w is None else [source, w]
        y = self.make(f"{tokens}*{out}", self.e, flows=trains or self.flows(source), category=category)
        params = self.elements(f"{out}*{width}") if trains and w is None else 0
        params += self.elements(out) if trains and bias else 0
        if trains and not runs.trains:  # its elements are the base's, those of other gradients an adapter's
            params = params * runs.stored_bytes // runs.adapter_bytes
        saves = [*([source] if trains else []), *([w] if w is not None and self.flows(source) else [])]
        self.note(given, [y], saves=saves, new=given, arrives=params)
        site = name.partition(".")[2]
        return self._adapted(x, y, out, width) if site in runs.sites else y

    def _adapted(self, x: int, base: int, out: str, width: str) -> int:
        runs, a = self.runs, self.runs.adapter_bytes
        tokens = self.key(x).rpartition("*")[0]
        given = self.cast(x, a)
        if runs.adapter_dropout:
            given = self.dropped(given, always=True)
        given = self.lowered(given)
        e = self.e if runs.autocast else a
        low = self.make(f"{tokens}*rank", e, flows=True)
        self.note([given], [low], saves=[given], new=[given], arrives=self.elements(f"rank*{width}"))
        high = self.make(f"{tokens}*{out}", e, flows=True)
        self.note([low], [high], saves=[low], new=[low], arrives=self.elements(f"rank*{out}"))
        scaled = self.like(high)
        self.note([high], [scaled], new=[high])
        total = self.add(base, scaled)
        return self.cast(total, self.size(base))

    def convolution(self, x: int, out: str, weights: str, bias: str, *, leaf: bool = False) -> int:
        """A convolution: keeps what it reads where it is trained.

        Args:
            x: What it reads.
            out: Shape of what it puts out.
            weights: Elements of its weights.
            bias: Elements of its bias, "" for none.
            leaf: A gradient is asked of its output though it is frozen.
        """
        trains, source = self.runs.trains, self.lowered(x)
        w = self.weight(weights, trains=trains)
        given = [source] if w is None else [source, w]
        y = self.make(out, self.e, flows=trains or leaf or self.flows(source))
        params = self.elements(weights) if trains and w is None else 0
        params += self.elements(bias) if trains and bias else 0
        saves = [*given, *([y] if leaf else [])] if trains or self.flows(source) else [y] if leaf else []
        self.note(given, [y], saves=saves, new=given, arrives=params)
        self.ops[-1] = replace(self.ops[-1], leaf=leaf)
        return y

    def scaled(self, x: int, width: str) -> int:
        """Times a weight for each width: keeps what it reads where that is trained."""
        trains = self.runs.trains
        y = self.like(x, max(self.size(x), self.runs.stored_bytes), flows=trains or self.flows(x))
        back: Terms = {self.key(x): self.size(y)} if trains else {}
        saves = [x] if trains else []
        self.note(
            [x], [y], saves=saves, new=[x], working_back=back, arrives=self.elements(width) if trains else 0
        )
        return y

    def layer_norm(self, x: int, *, bias: bool = True) -> int:
        """A layer norm: keeps what it reads, mean and deviation of each token."""
        x = self.raised(x)
        tokens, _, width = self.key(x).rpartition("*")
        y, row = self.like(x, flows=self.flows(x) or self.runs.trains), self.make(tokens, 2 * WIDE)
        params = self.elements(width) * (2 if bias else 1) if self.runs.trains else 0
        self.note([x], [y, row], saves=[x, row], new=[x], arrives=params)
        return y

    def dropped(self, x: int, *, always: bool = False) -> int:
        """Dropout: keeps a mask of a byte an element."""
        if not (self.runs.drops or always):
            return x
        y, mask = self.like(x), self.make(self.key(x), 1)
        self.note([x], [y, mask], saves=[mask], new=[x])
        return y

    def add(self, x: int, y: int) -> int:
        """A sum, in the wider format of the two."""
        size = max(self.size(x), self.size(y))
        z = self.like(x, size, flows=self.flows(x, y))
        same = [v for v in (x, y) if self.size(v) == size]
        self.note([x, y], [z], same=same, new=[v for v in (x, y) if v not in same])
        return z

    def times(self, x: int, y: int) -> int:
        """A product: keeps each factor that the other's gradient needs."""
        z = self.like(x, max(self.size(x), self.size(y)), flows=self.flows(x, y))
        saves = [*([x] if self.flows(y) else []), *([y] if self.flows(x) else [])]
        self.note([x, y], [z], saves=saves, new=[x, y])
        return z

    def elementwise(self, x: int, *, keeps: str = "input", size: float | None = None) -> int:
        """An operation on each element that keeps its `input`, its `output` or nothing (`""`)."""
        y = self.like(x, size)
        kept = {"input": [x], "output": [y], "": []}[keeps]
        self.note([x], [y], saves=kept, new=[x])
        return y

    def sliced(self, x: int, key: str) -> int:
        """A part of a tensor, which holds the whole; its gradient is as large as that."""
        y = self.make(key, self.size(x), flows=self.flows(x), of=x)
        self.note([x], [y], new=[x])
        return y

    def embedded(self, ids: int, key: str, params: int, *, leaf: bool = False, again: bool = False) -> int:
        """Rows of a table.

        Args:
            ids: Which.
            key: Shape of what it puts out.
            params: Elements of the table.
            leaf: A gradient is asked of the rows though the table is frozen.
            again: The table has another gradient, which waits for this one.
        """
        y, params = (
            self.make(key, self.runs.stored_bytes, flows=self.runs.trains or leaf),
            params * self.runs.trains,
        )
        saves = [ids, *([y] if leaf else [])]
        self.note([ids], [y], saves=saves, arrives=0 if again else params, added=params if again else 0)
        self.ops[-1] = replace(self.ops[-1], leaf=leaf)
        return y

    def elementwise_same(self, x: int) -> int:
        """Something small added: a tensor of its own, whose gradient goes on."""
        y = self.like(x)
        self.note([x], [y], same=[x])
        return y

    def moved(self, x: int, key: str | None = None) -> int:
        """A contiguous copy, whose gradient goes on."""
        y = self.make(key or self.key(x), self.size(x), flows=self.flows(x), category=self.values[x].category)
        self.note([x], [y], same=[x])
        return y

    def act(self, kind: str, x: int) -> int:
        """An activation by its name in configs."""
        if kind in {"relu", "tanh"}:
            return self.elementwise(x, keeps="output")
        if kind == "quick_gelu":
            return self.times(x, self.elementwise(self.elementwise(x, keeps=""), keeps="output"))
        if kind in {"gelu_new", "gelu_fast"}:
            return self._composed_gelu(x)
        return self.elementwise(x)

    def _composed_gelu(self, x: int) -> int:
        """`NewGELUActivation`: 0.5 * x * (1 + tanh(c * (x + 0.044715 * pow(x, 3)))), step by step."""
        half = self.elementwise(x, keeps="")
        wide = self.raised(x)
        cubed = self.like(wide)
        self.note(
            [wide], [cubed], saves=[wide], new=[wide], working_back={self.key(wide): 2 * self.size(wide)}
        )
        inner = self.add(x, self.elementwise(cubed, keeps=""))
        bent = self.elementwise(self.raised(self.elementwise(inner, keeps="")), keeps="output")
        return self.times(half, self.elementwise(bent, keeps=""))
