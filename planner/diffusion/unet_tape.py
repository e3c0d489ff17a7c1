"""What a U-Net's operations keep and make, beside those that blocks of transformers have (`planner.diffusion.tape`).

A width is `channels@level`: so many elements for every cell of the latents at that resolution; `@t` for every token of
the text, `@s2` and `@x2` for every score of the picture's cells to each other or to the text. Rules of the operators:
PyTorch's `tools/autograd/derivatives.yaml`; of autocast: the lists in `aten/src/ATen/autocast_mode.h`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from planner.diffusion.moments import Amount, Place
from planner.diffusion.network import Network, Passes
from planner.diffusion.operations import WIDE, Trains
from planner.diffusion.tape import Tape

TEXT: Final = "t"
ONCE: Final = "w"
"""A place whose elements do not grow with the pictures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How a U-Net runs.

    Attributes:
        compute_bytes: Bytes of an element of a product.
        given_bytes: Bytes of an element of what is put in.
        autocast: Products are cast to 16 bit, norms to fp32.
        casts_weights: Trained weights are fp32 then, so that their casts are kept.
        checkpointed: Residual and transformer blocks are computed again in the backward pass.
        eager: Attention in single steps.
        upcasts: Its scores are fp32 then.
        rank: Of the adapters.
        trains: What is trained.
    """

    compute_bytes: int
    given_bytes: int
    autocast: bool = False
    casts_weights: bool = False
    checkpointed: bool = False
    eager: bool = False
    upcasts: bool = False
    rank: int = 0
    trains: Trains = field(default_factory=Trains)


class UnetTape(Tape):
    """Takes a U-Net's operations down.

    Args:
        runs: How it runs.

    Attributes:
        weights: Elements of the matrices of the layer at work, by name.
    """

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs.compute_bytes, runs.trains)
        self.runs = runs
        self.weights: Mapping[str, int] = {}
        self._segments = 0
        self._casts: list[int] = []

    @contextmanager
    def again(self) -> Iterator[None]:
        """Within it, operations are computed again in the backward pass, if such parts are."""
        self._segments += 1
        self._segment = self._segments if self.runs.checkpointed else 0
        yield
        self._segment = 0

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Within it, operations are as everywhere else."""
        yield

    def widen(self, x: int, size: float) -> None:
        """What is put in has another number format."""
        self._values[x] = replace(self._values[x], bytes=size)

    def level(self, x: int) -> str:
        """Where a tensor is: its resolution, or the text."""
        return self._values[x].width.partition("@")[2]

    def elements(self, x: int) -> int:
        """Channels of a tensor."""
        return int(self._values[x].width.partition("@")[0])

    def arrive(self, elements: int) -> None:
        """Weights of the last operation are trained: their gradients come with its backward pass."""
        if elements:
            self._ops[-1] = replace(self._ops[-1], arrives=self._ops[-1].arrives + elements)

    def weight(self, name: str) -> list[int]:
        """Autocast's 16-bit copy of a weight that is trained in fp32: kept by what uses it, and by autocast's cache."""
        if not self.runs.casts_weights:
            return []
        w = self._make(f"{self.weights.get(name, 0)}@{ONCE}", self.e, flows=True)
        self._note([], [w])
        self._casts.append(w)
        return [w]

    def leave_autocast(self) -> None:
        """The cache of casts goes."""
        self.used(*self._casts)

    def _raised(self, x: int) -> int:
        """What a norm reads: fp32 under autocast."""
        return self.cast(x, WIDE) if self.runs.autocast else x

    def group_norm(self, x: int, params: int = 0) -> int:
        """A group norm: keeps what it reads."""
        x = self._raised(x)
        y = self._like(x)
        self._note([x], [y], saves=[x], new=[x])
        self.arrive(params if self.trains.full else 0)
        return y

    def layer_norm(self, x: int) -> int:
        """A layer norm: keeps what it reads, mean and deviation of each cell."""
        x = self._raised(x)
        y, row = self._like(x), self._side(f"1@{self.level(x)}", 2 * self.size(x))
        self._note([x], [y, row], saves=[x, row], new=[x])
        self.arrive(2 * self.elements(x) if self.trains.full else 0)
        return y

    def divided(self, x: int) -> int:
        """By a factor that is 1: a tensor of its own, and so is its gradient."""
        y = self._like(x)
        self._note([x], [y], new=[x])
        return y

    def convolution(self, x: int, name: str, out: str) -> int:
        """A convolution: keeps what it reads, whether its weights are trained or not.

        Args:
            x: What it reads.
            name: Its name in the layer.
            out: Width of its output.
        """
        source, w = self.cast(x, self.e) if self.runs.autocast else x, self.weight(name)
        y = self._make(out, self.e, flows=self.trains.full or self._flows(source))
        self._note([source, *w], [y], saves=[source, *w], new=[source, *w])
        self.arrive(self.weights.get(name, 0) if self.trains.full else 0)
        return y if name not in self.trains.sites else self._adapted(x, y, out, "")

    def resized(self, x: int, level: int) -> int:
        """Nearest neighbours at another resolution, in fp32 under autocast."""
        source = self._raised(x)
        y = self._make(f"{self.elements(x)}@{level}", self.size(source), flows=self._flows(source))
        self._note([source], [y], new=[source])
        return y

    def linear(self, x: int, name: str, out: str, weights: str = "") -> int:
        """A matrix, with its adapter if it has one.

        Args:
            x: What it multiplies.
            name: Its name in the layer.
            out: Width of its output.
            weights: Not used here.
        """
        source, w = self.cast(x, self.e) if self.runs.autocast else x, self.weight(name)
        y = self._make(out, self.e, flows=self.trains.full or self._flows(x))
        self._note([source, *w], [y], saves=[source, *w] if self.trains.full else [], new=[source, *w])
        self.arrive(self.weights.get(name, 0) if self.trains.full else 0)
        return y if name not in self.trains.sites else self._adapted(x, y, out, weights)

    def _adapted(self, x: int, base: int, out: str, weights: str) -> int:  # noqa: ARG002
        """The adapter's input is cast to its own format, and by autocast to that of products."""
        if self.runs.autocast:
            x = self.cast(self.cast(x, WIDE), self.e)
        first = len(self._ops)
        rows = int(out.partition("@")[0])
        y = super()._adapted(x, base, out, f"{self.elements(x) * rows}@{ONCE}")
        name = f"{self._low(out)}"
        low = next(
            index
            for index in range(first, len(self._ops))
            if any(self._values[number].width == name for number in self._ops[index].makes)
        )
        come = self.runs.rank * (self.elements(x) + rows)
        self._ops[low] = replace(self._ops[low], arrives=come)
        return y

    def _low(self, out: str) -> str:
        return f"{self.runs.rank}@{out.partition('@')[2]}"

    def attends(self, q: int, k: int, v: int, heads: int) -> tuple[int, list[int]]:
        """Attention by a fused kernel, or in single steps: its output, and what names hold to its end."""
        if not self.runs.eager:
            return self.attention(q, k, v, f"{heads}@{self.level(q)}"), [q, k, v]
        return self._single_steps(q, k, v, heads)

    def _single_steps(self, q: int, k: int, v: int, heads: int) -> tuple[int, list[int]]:
        """`AttnProcessor`: a batch of heads, a product into an empty tensor, softmax, a product."""
        a, b, c = self.copy(q), self.copy(k), self.copy(v)
        held = [a, b, c]
        wide = self.runs.upcasts and not self.runs.autocast
        if self.runs.upcasts:
            a, b = self.cast(a, WIDE), self.cast(b, WIDE)
        a, b = (self.cast(x, self.e) if self.runs.autocast else x for x in (a, b))
        level, kind = self.level(q), "x" if self.level(k) == TEXT else "s"
        width = f"{heads}@{kind}{level}"
        size = WIDE if wide else self.e
        scores = self._make(width, size, flows=self._flows(a, b))
        self._note([a, b], [scores], saves=[a, b], new=[a, b], working={width: size}, working_back={})
        chances = self._make(width, WIDE if self.runs.autocast else size, flows=self._flows(scores))
        self._note([scores], [chances], saves=[chances], new=[scores])
        low = self.cast(chances, self.e)
        out = self._like(a, self.e, flows=self._flows(low, c))
        self._note([low, c], [out], saves=[low, c], new=[low, c])
        return self.copy(out), [*held, low]

    def passes(self, outputs: list[int], place: Place, amount: Amount) -> Passes:
        """What the operations need.

        Args:
            outputs: The network's outputs.
            place: A width's place.
            amount: How many cells, tokens or scores a place has.
        """
        return Network(self._values, self._ops, self._outside, outputs, place, amount).passes()
