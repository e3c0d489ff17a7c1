"""Quality of quantized models as others measured it: no rule of ours, so nothing without a source."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published figure.

    Attributes:
        value: As printed.
        reference: Key into `planner.references`.
    """

    value: float
    reference: str = "awq_paper"


PERPLEXITIES: Final[Mapping[str, Published]] = {
    "fp16": Published(value=5.47),
    "int4_nearest": Published(value=5.73),
    "int4_gptq": Published(value=5.69),
    "int4_awq": Published(value=5.60),
    "int3_nearest": Published(value=6.66),
    "int3_awq": Published(value=6.24),
}
"""Llama-2-7B on WikiText-2 at 2048 tokens, groups of 128: by format and how it was made. Lower is better."""
