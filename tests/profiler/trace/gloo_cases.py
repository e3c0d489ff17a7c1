"""Small jobs of two ranks that run on gloo and are traced. No PyTorch here."""

from typing import Any, Final

from profiler.trace.documents import Part
from tests.profiler.scenarios import LLAMA
from tests.profiler.trace.cases import BF16, CHECKPOINTED, SDPA

RANKS: Final = 2
Case = tuple[dict[str, Any], dict[str, Any], Part]

EVEN: Final = LLAMA | {"vocab_size": 1024}
HALVES: Final = Part(shards=RANKS)
CASES: Final[dict[str, Case]] = {
    "fp32": (LLAMA, SDPA, HALVES),
    "mixed": (LLAMA, SDPA, Part(shards=RANKS, compute="bf16", reduce="fp32")),
    "bf16-checkpointed": (LLAMA, SDPA | BF16 | CHECKPOINTED, HALVES),
    "kept": (LLAMA, SDPA, Part(shards=RANKS, reshard=False)),
    "copies": (LLAMA, SDPA, Part(copies=RANKS)),
    "copies-views": (LLAMA, SDPA, Part(copies=RANKS, bucket_views=True)),
    "cut": (EVEN, SDPA, Part(tensor=RANKS)),
    "cut-sequence": (EVEN, SDPA, Part(tensor=RANKS, sequence=True, loss=True)),
    "ahead": (LLAMA, SDPA, Part(shards=RANKS, forward_prefetch=1, backward_prefetch=2)),
}
