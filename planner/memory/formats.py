"""Bytes of an element in each number format, and what block formats add."""

from typing import Final

from planner.units import ceil_div

DTYPE_BYTES: Final[dict[str, int]] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
QUANTIZED: Final = frozenset({"nf4", "nf4_dq", "int8", "gptq4", "gptq8"})

GPTQ_GROUP: Final = 128
"""Input features that share a scale in GPTQ checkpoints."""


def dtype_bytes(name: str | None, default: int) -> int:
    """Bytes of an element; `default` where the format is not given."""
    return DTYPE_BYTES.get(name, default) if name else default


def packed_bytes(params: int, bits: int) -> int:
    """Values of `bits` packed without gaps."""
    return ceil_div(params * bits, 8)


def nf4_scale_bytes(params: int, block: int = 64) -> int:
    """One fp32 maximum per block of 64. bitsandbytes `quantize_4bit`; QLoRA (arXiv 2305.14314), section 3."""
    return ceil_div(params, block) * 4


def nf4_double_scale_bytes(params: int, block: int = 64, second: int = 256) -> int:
    """Double quantization: an 8-bit maximum per block, an fp32 one per 256 blocks. QLoRA, section 3."""
    return ceil_div(params, block) + ceil_div(params, block * second) * 4


def int8_scale_bytes(rows: int) -> int:
    """LLM.int8: one fp32 scale per output row. bitsandbytes `Int8Params`."""
    return 4 * rows


def gptq_scale_bytes(groups: int, bits: int) -> int:
    """GPTQ: an fp16 scale and a zero point of `bits` for a group, or an output row. AutoGPTQ `QuantLinear`."""
    return groups * 2 + ceil_div(groups * bits, 8)


def gptq_index_bytes(columns: int) -> int:
    """GPTQ: `g_idx`, an int32 per input feature of each matrix. AutoGPTQ `QuantLinear`."""
    return 4 * columns


def packed_bits(base: str | None) -> int:
    """Bits of a packed weight."""
    return 8 if base in {"int8", "gptq8"} else 4
