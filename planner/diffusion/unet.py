"""A U-Net operation by operation, as diffusers 0.42.1's classes run it.

Sources: `models/unets/unet_2d_condition.py`, `unet_2d_blocks.py`, `models/resnet.py`, `models/upsampling.py`,
`models/transformers/transformer_2d.py`, `models/attention.py` and `attention_processor.py`. Names that hold tensors
are those of these functions: a caller holds what it passes in until the callee is done.
"""

from functools import lru_cache

from planner.diffusion.network import Passes
from planner.diffusion.unet_tape import ONCE, TEXT, Runs, UnetTape
from planner.model.spec import Layer
from planner.model.unet_shape import UnetShape, cells


class Writer:
    """Writes a U-Net down on a tape.

    Args:
        shape: Its shape.
        layers: Its layers in the order in which they run.
        runs: How it runs.
    """

    def __init__(self, shape: UnetShape, layers: tuple[Layer, ...], runs: Runs) -> None:
        self._shape, self._runs = shape, runs
        self._layers = iter(layers)
        self._t = UnetTape(runs)

    def write(self) -> Passes:
        """The whole network: down, turn, up, and what it predicts."""
        t, shape = self._t, self._shape
        latents = t.given(f"{shape.in_channels}@0", flows=False)
        self._text = t.given(f"{shape.text_widths[-1]}@{TEXT}", flows=False)
        if self._runs.given_bytes != self._runs.compute_bytes:
            t.widen(latents, self._runs.given_bytes)
            t.widen(self._text, self._runs.given_bytes)
        first = shape.channels[0]
        t.weights = {"conv_in": (9 * shape.in_channels + 1) * first}
        x = t.convolution(latents, "conv_in", f"{first}@0")
        skips = [x]
        x = self._down(x, skips)
        x = self._middle(x)
        x, last = self._up(x, skips)
        y = t.activation(t.group_norm(x, 2 * first))
        t.used(x)
        t.weights = {"conv_out": (9 * first + 1) * shape.out_channels}
        out = t.convolution(y, "conv_out", f"{shape.out_channels}@0")
        t.used(y, *last)
        t.leave_autocast()
        return t.passes([out], place_of, amount)

    def _down(self, x: int, skips: list[int]) -> int:
        shape = self._shape
        for level in range(shape.levels):
            for _ in range(shape.resnets[level]):
                before = x
                x = self._resnet(x)
                self._t.used(before)
                x = self._attention(x, level, shape.down_depths[level])
                skips.append(x)
            if level < shape.levels - 1:
                x = self._resampled(x, level + 1)
                skips.append(x)
        return x

    def _middle(self, x: int) -> int:
        level = self._shape.levels - 1
        start = x
        x = self._resnet(x, again=False)
        x = self._attention(x, level, self._shape.middle_depth)
        before = x
        x = self._resnet(x)
        self._t.used(start, before)
        return x

    def _up(self, x: int, skips: list[int]) -> tuple[int, list[int]]:
        """Every block puts the stream and what the way down left together; the network holds both to its end."""
        t, last = self._t, list[int]()
        for level, depth, comes in self._shape.up():
            start, taken = x, skips[-len(comes) :]
            del skips[-len(comes) :]
            t.used(*last)
            last = taken
            for channels, skip in zip(comes, reversed(taken), strict=True):
                both = t.cat(f"{channels}@{level}", x, skip)
                t.used(x)
                x = self._resnet(both)
                t.used(both)
                x = self._attention(x, level, depth)
            if level:
                x = self._up_sampled(x, level - 1)
            t.used(start)
        return x, last

    def _next(self) -> Layer:
        layer = next(self._layers)
        self._t.weights = {linear.name: linear.params for linear in layer.linears}
        return layer

    def _resnet(self, x: int, *, again: bool = True) -> int:
        """`ResnetBlock2D`."""
        t, layer = self._t, self._next()
        out = f"{layer.linears[0].out_features}@{layer.halvings}"
        with t.again() if again else t.plainly():
            before, casts = t.elements(x), list[int]()
            y = t.activation(t.group_norm(x, 2 * before))
            y = t.shifted(t.convolution(y, "conv1", out))
            t.arrive(t.weights["time_emb_proj"] if t.trains.full else 0)
            casts += t.weight("time_emb_proj")
            y = t.activation(t.group_norm(y, 2 * t.elements(y)))
            y = t.convolution(y, "conv2", out)
            short = t.convolution(x, "conv_shortcut", out) if "conv_shortcut" in t.weights else x
            total = t.add(short, y)
            result = t.divided(total)
            t.used(x, short, y)
        return result

    def _attention(self, x: int, level: int, depth: int) -> int:
        """`Transformer2DModel`, if there is one."""
        if not depth:
            return x
        t, linear = self._t, self._shape.linear_projection
        self._next()
        projections = t.weights
        width = f"{t.elements(x)}@{level}"
        y = t.group_norm(x, 2 * t.elements(x))
        y = t.linear(t.copy(y), "proj_in", width) if linear else t.convolution(y, "proj_in", width)
        for _ in range(depth):
            before = y
            with t.again():
                y = self._transformer(y, level)
            t.used(before)
        t.weights = projections
        last = y
        y = t.copy(t.linear(y, "proj_out", width)) if linear else t.convolution(t.copy(y), "proj_out", width)
        out = t.add(y, x)
        t.used(last, x, y)
        return out

    def _transformer(self, x: int, level: int) -> int:
        """`BasicTransformerBlock`."""
        t, layer = self._t, self._next()
        h, heads = t.elements(x), int(layer.attention.num_heads)
        inner = int(layer.mlp.intermediate_size)
        first = t.layer_norm(x)
        out = self._attend("attn1", first, first, level, heads)
        y = t.add(out, x)
        second = t.layer_norm(y)
        t.used(first)
        crossed = self._attend("attn2", second, self._text, level, heads)
        t.used(out)
        z = t.add(crossed, y)
        t.used(y)
        third = t.layer_norm(z)
        t.used(second)
        both = t.linear(third, "ff.net.0.proj", f"{2 * inner}@{level}")
        up, gate = t.split(both, f"{inner}@{level}", f"{inner}@{level}")
        fed = t.times(up, t.activation(gate))
        t.used(both, up, gate)
        fed = t.linear(fed, "ff.net.2", f"{h}@{level}")
        result = t.add(fed, z)
        t.used(fed, crossed, third, z)
        return result

    def _attend(self, name: str, x: int, source: int, level: int, heads: int) -> int:
        t, h = self._t, self._t.elements(x)
        at = t.level(source)
        q = t.linear(x, f"{name}.to_q", f"{h}@{level}")
        k = t.linear(source, f"{name}.to_k", f"{h}@{at}")
        v = t.linear(source, f"{name}.to_v", f"{h}@{at}")
        y, held = t.attends(q, k, v, heads)
        y = t.linear(y, f"{name}.to_out.0", f"{h}@{level}")
        out = t.divided(y)
        t.used(*held, x, y)
        return out

    def _resampled(self, x: int, level: int) -> int:
        self._next()
        y = self._t.convolution(x, "conv", f"{self._t.elements(x)}@{level}")
        self._t.used(x)
        return y

    def _up_sampled(self, x: int, level: int) -> int:
        self._next()
        t = self._t
        y = t.convolution(t.resized(x, level), "conv", f"{t.elements(x)}@{level}")
        t.used(x)
        return y


def place_of(width: str) -> tuple[str, float]:
    """A width's place, and how many elements it has for each of its cells, tokens or scores."""
    channels, _, at = width.partition("@")
    return at, float(channels)


def amount(place: str, tokens: int, text: int) -> float:
    """How many cells, tokens or scores a place has.

    Args:
        place: A resolution; `t` for the text; `s` or `x` and a resolution for scores.
        tokens: Cells of the latents.
        text: Tokens of the text.
    """
    if place == TEXT:
        return float(text)
    if place == ONCE:
        return 1.0
    if place[0] == "s":
        return cells(tokens, int(place[1:])) ** 2
    if place[0] == "x":
        return cells(tokens, int(place[1:])) * text
    return cells(tokens, int(place))


@lru_cache(maxsize=64)
def unet_passes(shape: UnetShape, layers: tuple[Layer, ...], runs: Runs) -> Passes:
    """A U-Net worked out for any size of picture.

    Args:
        shape: Its shape.
        layers: Its layers.
        runs: How it runs.
    """
    return Writer(shape, layers, runs).write()
