"""Divided jobs that are traced in tests. No PyTorch here."""

from typing import Any, Final

from profiler.trace.documents import Part
from tests.profiler.scenarios import GPT2, LLAMA
from tests.profiler.trace.cases import AUTOCAST, BERT, BF16, CHECKPOINTED, GEMMA2, MIXTRAL, QV, QWEN3, SDPA

Case = tuple[dict[str, Any], dict[str, Any], Part]

EVEN: Final = LLAMA | {"vocab_size": 1024}
UNEVEN: Final = LLAMA | {"hidden_size": 36, "head_dim": 10, "intermediate_size": 50, "num_hidden_layers": 2}
"""Norms of 36, key matrices of 20 rows and a vocabulary of 1013: none divides by 8, and rank 7 has no keys."""

WIDE: Final = LLAMA | {"hidden_size": 768, "head_dim": 192, "intermediate_size": 3072, "vocab_size": 4001}
SHARDS: Final = 8
EIGHTHS: Final = Part(shards=SHARDS)

CASES: Final[dict[str, Case]] = {
    "whole": (LLAMA, SDPA, Part()),
    "even": (EVEN, SDPA, EIGHTHS),
    **{f"uneven-{rank}": (UNEVEN, SDPA, Part(shards=SHARDS, rank=rank)) for rank in range(SHARDS)},
    "mixed": (EVEN, SDPA, Part(shards=SHARDS, compute="bf16", reduce="fp32")),
    "kept": (EVEN, SDPA, Part(shards=SHARDS, reshard=False)),
    "halves": (EVEN, SDPA, Part(shards=SHARDS, reshard=2)),
    "ahead": (EVEN, SDPA, Part(shards=SHARDS, backward_prefetch=2)),
    "copies-of-shards": (EVEN, SDPA, Part(copies=2, shards=4, rank=5)),
    "buckets": (WIDE, SDPA, Part(copies=2)),
    "bucket-views": (WIDE, SDPA, Part(copies=2, bucket_views=True)),
    "cut": (LLAMA, SDPA, Part(tensor=2)),
    "cut-last": (LLAMA, SDPA, Part(tensor=2, rank=1)),
    "cut-sequence": (LLAMA, SDPA, Part(tensor=2, sequence=True, loss=True)),
}
"""Run with every test."""

LONG: Final[dict[str, Case]] = {
    "lora": (LLAMA, BF16 | SDPA | QV, EIGHTHS),
    "autocast": (LLAMA, AUTOCAST | SDPA, Part(shards=SHARDS, compute="bf16")),
    "checkpointed": (LLAMA, BF16 | SDPA | CHECKPOINTED, EIGHTHS),
    "accumulated": (LLAMA, BF16 | SDPA | {"training.gradient_accumulation": 3}, EIGHTHS),
    "gpt2": (GPT2, SDPA, EIGHTHS),
    "bert": (BERT, SDPA, EIGHTHS),
    "mixtral": (MIXTRAL, SDPA, EIGHTHS),
    "qwen3-cut": (QWEN3, SDPA, Part(tensor=2, sequence=True)),
    "gemma2-cut": (GEMMA2, {}, Part(tensor=2, sequence=True, loss=True)),
    "tied-cut": (LLAMA | {"tie_word_embeddings": True}, SDPA, Part(tensor=2, shards=2)),
    "three-ways": (LLAMA, SDPA, Part(copies=2, shards=2, tensor=2, rank=5)),
    "cut-checkpointed": (LLAMA, BF16 | SDPA | CHECKPOINTED, Part(tensor=2, sequence=True)),
}
"""Run by `python run.py check`."""

REFUSED: Final[dict[str, Case]] = {
    "no_tensor_plan": (GPT2, SDPA, Part(tensor=2)),
    "heads_do_not_divide": (LLAMA, SDPA, Part(tensor=4)),
}

ALL: Final = CASES | LONG | REFUSED
