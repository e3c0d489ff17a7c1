"""Models and settings on which instant mode is held against full mode. No PyTorch here."""

from typing import Any, Final

from tests.profiler.scenarios import LLAMA, scenario
from tests.profiler.trace.cases import (
    AUTOCAST,
    BF16,
    CHECKPOINTED,
    FUSED,
    GEMMA2,
    KEPT,
    LORA,
    QWEN3_MOE,
    SDPA,
    SINGLE,
)

LENGTH: Final = {"training.micro_batch": 1, "training.sequence_length": 1024}
DEEP_LLAMA: Final = LLAMA | {"num_hidden_layers": 10}
DEEPER_LLAMA: Final = LLAMA | {"num_hidden_layers": 20}
EVERY_THREE: Final = {"training.checkpointing": "every_k", "training.checkpoint_every": 3}
DEEP_MOE: Final = QWEN3_MOE | {"num_hidden_layers": 10}
DEEP_GEMMA2: Final = GEMMA2 | {"num_hidden_layers": 17}

SHORT: Final[dict[str, dict[str, Any]]] = {
    "llama-autocast-lora": scenario(DEEP_LLAMA, **AUTOCAST, **SDPA, **LORA),
    "qwen3-moe-checkpointed": scenario(DEEP_MOE, **BF16, **SDPA, **CHECKPOINTED, **KEPT),
    "gemma2-alternating": scenario(DEEP_GEMMA2, **BF16),
    "llama-every-three": scenario(DEEPER_LLAMA, **BF16, **SDPA, **EVERY_THREE),
}
"""Run with every test: adapters and autocast, experts, two kinds of layers in turn with one left over, and layers
that are computed again in groups."""


def _of(model: str, **changes: Any) -> dict[str, Any]:
    return scenario({}, **LENGTH, **changes) | {"model": {"id": model}}


LONG: Final[dict[str, dict[str, Any]]] = {
    "124M": _of("openai-community/gpt2", **BF16, **SDPA),
    "0.6B": _of("Qwen/Qwen3-0.6B", **BF16, **SDPA, **FUSED),
    "1.2B": _of("meta-llama/Llama-3.2-1B", **BF16, **SDPA, **KEPT, **SINGLE),
    "1.6B": _of("openai-community/gpt2-xl", **AUTOCAST, **SDPA, **{"training.dropout": 0.1}),
    "2.5B": _of("google/gemma-2b", **BF16, **SDPA, **CHECKPOINTED),
    "2.8B": _of("microsoft/phi-2", **BF16, **SDPA, **LORA),
    "7B": _of("mistralai/Mistral-7B-v0.1", **AUTOCAST, **SDPA, **CHECKPOINTED),
    "8B": _of("meta-llama/Llama-3.1-8B", **BF16, **SDPA),
    "13B": _of("meta-llama/Llama-2-13b-hf", **BF16, **SDPA, **LORA, **CHECKPOINTED),
    "27B": _of("google/gemma-3-27b-pt", **BF16, **SDPA),
    "32B": _of("Qwen/Qwen2.5-32B", **BF16, **SDPA, **{"training.gradient_accumulation": 2}),
    "70B": _of("meta-llama/Llama-3.1-70B", **BF16, **SDPA),
    "moe-30B": _of("Qwen/Qwen3-30B-A3B", **BF16, **SDPA),
    "moe-16B": _of("deepseek-ai/DeepSeek-V2-Lite", **BF16, **SDPA, **CHECKPOINTED),
}
"""Run by `python run.py check`: twelve models from 124M to 70B, and two with experts, one of them dense first."""

ALL: Final = SHORT | LONG
