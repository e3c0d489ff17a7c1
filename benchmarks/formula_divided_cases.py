"""The divided steps on which formulas are held against traces: FSDP2, tensor parallelism, both, and DDP."""

from collections.abc import Iterator
from typing import Any, Final

from benchmarks.formula_cases import PRECISIONS, Case

CARD: Final = "h100-sxm-80gb"
SHORT: Final = {
    "1b": "meta-llama/Llama-3.2-1B",
    "8b": "meta-llama/Llama-3.1-8B",
    "70b": "meta-llama/Llama-3.1-70B",
    "7b": "Qwen/Qwen2.5-7B",
    "l2": "meta-llama/Llama-2-7b-hf",
    "06b": "Qwen/Qwen3-0.6B",
    "mis": "mistralai/Mistral-7B-v0.1",
    "q32": "Qwen/Qwen2.5-32B",
}
STORED: Final = {"mixed": ("fp32", "bf16", False)}
"""fp32 shards that are gathered in 16 bit."""

CASES: Final = (
    *("1b fsdp2 bf16", "1b fsdp8 bf16 ckpt", "1b fsdp64 mixed", "1b fsdp2 mixed ckpt"),
    *("1b fsdp8 fp32 ckpt s1024", "1b fsdp8 mixed kept ckpt", "1b fsdp64 bf16 b4 ckpt"),
    *("1b fsdp2 fp32 s1024", "1b fsdp8 mixed ckpt accum2", "8b fsdp8 bf16", "8b fsdp8 bf16 ckpt"),
    *("8b fsdp8 mixed ckpt", "8b fsdp64 mixed", "8b fsdp64 bf16 ckpt", "8b fsdp8 bf16 kept"),
    *("8b fsdp8 mixed kept ckpt", "8b fsdp2 bf16 ckpt", "8b fsdp8 fp32 ckpt s2048"),
    *("8b fsdp64 mixed ckpt s512", "8b fsdp8 mixed ckpt b2 s8192", "8b fsdp8 bf16 ckpt accum2"),
    *("70b fsdp64 mixed ckpt", "70b fsdp64 bf16 ckpt s2048", "70b fsdp64 mixed ckpt s8192"),
    *("q32 fsdp64 mixed ckpt", "7b fsdp8 bf16 ckpt", "7b fsdp8 mixed", "7b fsdp64 mixed ckpt s8192"),
    *("06b fsdp8 mixed ckpt", "06b fsdp2 bf16 b2", "l2 fsdp8 mixed ckpt", "l2 fsdp8 bf16"),
    *("l2 fsdp64 mixed ckpt s8192", "l2 fsdp2 bf16 ckpt b2", "mis fsdp64 mixed ckpt"),
    *("8b fsdp8 bf16 ckpt lora", "l2 fsdp8 bf16 lora", "1b fsdp2 bf16 ckpt lora"),
    *("8b ddp8 bf16 ckpt s2048", "1b ddp2 bf16", "8b fsdp8 bf16 ckpt hsdp64", "1b fsdp4 mixed hsdp8"),
    *("8b tp8 bf16", "8b tp2 bf16 ckpt", "8b tp8 bf16 sp ckpt", "1b tp2 bf16 sp", "l2 tp8 bf16 sp"),
    *("1b tp8 fp32 ckpt s2048", "8b tp2 fsdp4 mixed ckpt", "8b tp8 fsdp8 mixed sp ckpt"),
    *("70b tp8 fsdp8 mixed sp ckpt", "1b tp2 fsdp4 mixed sp", "8b tp2 fsdp32 bf16 sp"),
    *("7b tp2 fsdp4 bf16 ckpt", "l2 tp2 fsdp4 mixed sp ckpt b2", "8b tp8 fsdp8 bf16 kept ckpt"),
)  # fmt: skip
"""A model, degrees, formats, and what differs from one row of 4096 tokens without checkpointing."""


def cases() -> Iterator[Case]:
    """Every step."""
    for words in CASES:
        model = SHORT[words.split()[0]]
        yield Case(name=words.replace(" ", "-"), model=model, drawn={}, scenario=document(words))


def document(words: str) -> dict[str, Any]:
    """The scenario of a step.

    Args:
        words: As in `CASES`.
    """
    model, *rest = words.split()
    formats = next(word for word in rest if word in {"fp32", "bf16", "mixed"})
    stored, compute, autocast = {**PRECISIONS, **STORED}[formats]
    tensor, shards = _number(rest, "tp", 1), _number(rest, "fsdp", 1)
    world = _number(rest, "hsdp", shards * _number(rest, "ddp", 1)) * tensor
    parallel: dict[str, Any] = {"tensor": tensor, "sharding": "fsdp" if shards > 1 else "none"}
    if shards > 1:
        parallel["sharding_degree"] = shards
    if "kept" in rest:
        parallel["reshard_after_forward"] = False
    if "sp" in rest:
        parallel["sequence"] = True
    found: dict[str, Any] = {
        "version": 1,
        "task": "lora" if "lora" in rest else "full",
        "model": {"id": SHORT[model]},
        "hardware": {"devices": [{"gpu": CARD, "count": world}]},
        "runtime": {"name": "generic"},
        "parallel": parallel,
        "training": {
            "micro_batch": _number(rest, "b", 1),
            "sequence_length": _number(rest, "s", 4096),
            "gradient_accumulation": _number(rest, "accum", 1),
            "attention": "sdpa",
            "loss": "standard",
            "dropout": 0.0,
            "precision": {"parameters": stored, "compute": compute, "autocast": autocast},
            "optimizer": {"name": "adamw", "implementation": "foreach"},
            "checkpointing": "full" if "ckpt" in rest else "none",
        },
    }
    if "ckpt" in rest:
        found["training"]["checkpoint_reentrant"] = False
    if "lora" in rest:
        found["adapter"] = {
            "method": "lora",
            "rank": 16,
            "alpha": 16,
            "dropout": 0.0,
            "dtype": stored,
            "base": stored,
        }
        found["adapter"]["targets"] = "all_linear"
    return found


def _number(words: list[str], prefix: str, default: int) -> int:
    found = (w[len(prefix) :] for w in words if w.startswith(prefix) and w[len(prefix) :].isdigit())
    return next((int(number) for number in found), default)
