"""The shape of a U-Net: what its blocks are wide and deep, resolution by resolution."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

from planner.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class UnetShape:
    """A conditional U-Net (diffusers `UNet2DConditionModel`). Tuples have an item a resolution, the finest first.

    Attributes:
        channels: Of each resolution.
        resnets: Residual blocks on the way down; one more on the way up.
        down_depths: Transformer blocks in each attention on the way down; 0 where there is no attention.
        up_depths: The same on the way up, the coarsest first.
        middle_depth: The same at the turn.
        heads: Attention heads.
        text_widths: Elements of the text's encoding per token.
        in_channels: Of the latents.
        out_channels: Of what is predicted.
        linear_projection: Matrices before and after the transformer blocks are linear, not convolutions of one cell.
        upcasts: Attention in single steps makes its scores in fp32 (`upcast_attention`).
    """

    channels: tuple[int, ...]
    resnets: tuple[int, ...]
    down_depths: tuple[int, ...]
    up_depths: tuple[int, ...]
    middle_depth: int
    heads: tuple[int, ...]
    text_widths: tuple[int, ...]
    in_channels: int
    out_channels: int
    linear_projection: bool
    upcasts: bool

    @property
    def levels(self) -> int:
        """Number of resolutions."""
        return len(self.channels)

    def up(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """(resolution, depth of its attention, channels that come to each residual block) on the way up.

        What comes to a block is the stream and what the way down has left there, put together
        (diffusers `get_up_block`).
        """
        before = self.channels[-1]
        for index, level in enumerate(reversed(range(self.levels))):
            out, below = self.channels[level], self.channels[max(level - 1, 0)]
            count = self.resnets[level] + 1
            skips = (out,) * (count - 1) + (below,)
            streams = (before,) + (out,) * (count - 1)
            yield level, self.up_depths[index], tuple(map(sum, zip(streams, skips, strict=True)))
            before = out


def cells(tokens: int, level: int) -> float:
    """Cells of latents of `tokens` cells after `level` halvings of both sides; sides of a square are rounded up."""
    side = isqrt(tokens)
    if side * side != tokens:
        return tokens / (1 << 2 * level)
    return float(ceil_div(side, 1 << level) ** 2)
