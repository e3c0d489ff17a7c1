"""What quantized linears keep, by library version. No PyTorch here."""

from dataclasses import dataclass
from typing import Final

from planner.units import ceil_div

BLOCK: Final = 64
"""Weights that share a scale. bitsandbytes `Params4bit.blocksize`."""

NESTED_BLOCK: Final = 256
"""Scales that share a scale, where scales are quantized too. `quantize_4bit`: `quantize_blockwise(absmax, 256)`."""

KEPT_INPUT_UNTIL: Final = (0, 43, 1)
"""`MatMul4Bit.forward` kept its input (`ctx.tensors = (A, B)`) up to here; 0.43.3 has `(None, B)`."""

HALF_UNTIL: Final = (0, 42)
"""`Params4bit.cuda` turned weights into fp16 before packing them; later they keep their format."""

GPTQ_GROUP: Final = 128
"""Inputs that share a scale, as published GPTQ checkpoints have it."""

GPTQ_PER_WORD: Final = 8
"""4-bit numbers in an int32."""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FourBit:
    """How 4-bit weights are kept and multiplied.

    Attributes:
        nested: Scales are quantized too (`bnb_4bit_use_double_quant`).
        stored: Format that the weights are unpacked to before they are cast to the compute format.
        compute: Format of the product, None: that of the input.
        keeps_input: Each product keeps its input until the graph is gone.
    """

    nested: bool
    stored: str
    compute: str | None
    keeps_input: bool

    def blocks(self, elements: int) -> int:
        """Number of scales."""
        return ceil_div(elements, BLOCK)

    def state(self, elements: int) -> tuple[tuple[str, tuple[int, ...], str], ...]:
        """What is kept beside the packed weights: name, shape and format of each tensor."""
        blocks = self.blocks(elements)
        code = ("code", (16,), "float32")
        if not self.nested:
            return (("absmax", (blocks,), "float32"), code)
        return (
            ("absmax", (blocks,), "uint8"),
            code,
            ("nested_absmax", (ceil_div(blocks, NESTED_BLOCK),), "float32"),
            ("nested_code", (256,), "float32"),
            ("offset", (), "float32"),
        )


def four_bit(base: str, library: Version, *, weights: str, compute: str | None) -> FourBit:
    """The rules of one version of bitsandbytes.

    Args:
        base: `nf4` or `nf4_dq`.
        library: Version of bitsandbytes.
        weights: PyTorch's name of the checkpoint's format as loaded.
        compute: PyTorch's name of the compute format, None: that of the input.
    """
    return FourBit(
        nested=base == "nf4_dq",
        stored="float16" if library[:2] <= HALF_UNTIL else weights,
        compute=compute,
        keeps_input=library <= KEPT_INPUT_UNTIL,
    )
