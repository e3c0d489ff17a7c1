"""What a micro-batch asks of one card, in numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passes:
    """How often each part of a layer is computed in a micro-batch, in units of one forward pass.

    Attributes:
        dense: Matrix products.
        attention: Scores and their use.
        stream: Reading and writing of what lies between.
        visits: Walks through the layer.
    """

    dense: float
    attention: float
    stream: float
    visits: float


@dataclass(frozen=True, slots=True)
class StageLoad:
    """One micro-batch of one stage on one card.

    Attributes:
        full: Products in the compute format.
        low: Products in fp8 or fp4.
        attention: Scores, values and recurrent states.
        moved_bytes: Memory traffic.
        layer_passes: Layers passed, forward and backward.
        full_experts: Of `full`, products of routed experts.
        low_experts: Of `low`.
    """

    full: float
    low: float
    attention: float
    moved_bytes: float
    layer_passes: float
    full_experts: float = 0.0
    low_experts: float = 0.0

    @property
    def flops(self) -> float:
        """All operations."""
        return self.full + self.low + self.attention

    def __add__(self, other: "StageLoad") -> "StageLoad":
        """Both."""
        return StageLoad(
            self.full + other.full,
            self.low + other.low,
            self.attention + other.attention,
            self.moved_bytes + other.moved_bytes,
            self.layer_passes + other.layer_passes,
            self.full_experts + other.full_experts,
            self.low_experts + other.low_experts,
        )
