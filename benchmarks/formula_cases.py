"""The steps on which formulas are held against traces: models with every factor of a step spread over them.

Encoders are left out: a plan counts them without the head of their pretraining, which a traced step has. So are losses
that no Hugging Face loop has (`chunked` is torchtune's and LitGPT's).

The list is deterministic. Every model has `PER_MODEL` steps; each is the one of many drawn that has most pairs of
values not seen before, so that any two values of two factors meet wherever they may, as in a covering array.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

PER_MODEL: Final = 5
DRAWS: Final = 200
SEED: Final = 5
CARD: Final = "h100-sxm-80gb"

DECODERS: Final = (
    *("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"),
    *("meta-llama/Llama-2-7b-hf", "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "HuggingFaceTB/SmolLM2-360M"),
    *("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-32B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B"),
    *(
        "google/gemma-2b",
        "google/gemma-2-2b",
        "google/gemma-2-9b",
        "google/gemma-3-1b-pt",
        "google/gemma-3-4b-pt",
    ),
    *("mistralai/Mistral-7B-v0.1", "mistralai/Mistral-Nemo-Base-2407", "microsoft/Phi-3-mini-4k-instruct"),
    *("microsoft/phi-2", "microsoft/phi-4", "openai-community/gpt2", "openai-community/gpt2-xl"),
    *("EleutherAI/pythia-1b", "EleutherAI/gpt-j-6b", "facebook/opt-1.3b", "bigscience/bloom-1b1"),
    *("01-ai/Yi-6B", "bigcode/starcoder2-3b", "allenai/OLMo-2-1124-7B", "ibm-granite/granite-3.1-2b-base"),
    *(
        "CohereForAI/aya-23-8B",
        "stabilityai/stablelm-3b-4e1t",
        "HuggingFaceTB/SmolLM3-3B",
        "zai-org/glm-4-9b-hf",
    ),
)
EXPERTS: Final = (
    *("mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen1.5-MoE-A2.7B"),
    *("allenai/OLMoE-1B-7B-0924", "deepseek-ai/DeepSeek-V2-Lite"),
)
MODELS: Final = (*DECODERS, *EXPERTS)
POSITIONS: Final = {
    "openai-community/gpt2": 1024,
    "openai-community/gpt2-xl": 1024,
    "facebook/opt-1.3b": 2048,
}
OWN_LOGITS: Final = frozenset(
    {
        *("google/gemma-2-2b", "google/gemma-2-9b", "google/gemma-3-4b-pt"),
        *("ibm-granite/granite-3.1-2b-base", "CohereForAI/aya-23-8B"),
    }
)
"""Models that do something to their logits or call their loss in their own way: no other can be put in place."""

EAGER_ONLY: Final = frozenset({"google/gemma-2-2b", "google/gemma-2-9b", "bigscience/bloom-1b1"})
"""Models whose class offers no fused attention, or that are run without it."""

SET_EAGER: Final = frozenset({"bigscience/bloom-1b1"})
"""Those of them whose attention is set after the drawing: the draws of all others stay what they were."""

SET_SDPA: Final = frozenset({"deepseek-ai/DeepSeek-V2-Lite"})
"""Models whose values are narrower than their queries, which PyTorch's flash kernel does not take; set as above."""

QUERY_VALUE: Final = {
    "microsoft/Phi-3-mini-4k-instruct": ("qkv_proj",),
    "microsoft/phi-4": ("qkv_proj",),
    "openai-community/gpt2": ("c_attn",),
    "openai-community/gpt2-xl": ("c_attn",),
    "EleutherAI/pythia-1b": ("query_key_value",),
    "bigscience/bloom-1b1": ("query_key_value",),
    "deepseek-ai/DeepSeek-V2-Lite": ("q_proj", "kv_b_proj"),
}

FACTORS: Final[dict[str, tuple[str, ...]]] = {
    "runtime": ("plain", "trainer"),
    "precision": ("fp32", "bf16", "bf16", "bf16", "fp16", "cast-bf16", "cast-bf16", "cast-fp16"),
    "checkpointing": (
        "none",
        "none",
        "none",
        "full",
        "full",
        "reentrant",
        "every2",
        "every3",
        "attention",
        "op",
    ),
    "attention": ("eager", "sdpa", "flash"),
    "optimizer": ("foreach", "fused", "single", "backward", "sgd", "momentum", "adafactor"),
    "adapter": ("whole", "whole", "whole", "qv", "qv-16", "all", "all-dropout", "nf4", "nf4_dq", "int8"),
    "loss": ("standard", "standard", "fused_linear"),
    "rows": ("1", "2", "4"),
    "length": ("512", "1024", "2048", "4096"),
    "accumulation": ("1", "1", "1", "2"),
}
"""Values of each factor; one that stands twice is drawn twice as often."""

PRECISIONS: Final[dict[str, tuple[str, str, bool]]] = {
    "fp32": ("fp32", "fp32", False),
    "bf16": ("bf16", "bf16", False),
    "fp16": ("fp16", "fp16", False),
    "cast-bf16": ("fp32", "bf16", True),
    "cast-fp16": ("fp32", "fp16", True),
}
"""Format of parameters and of products, and whether the latter is autocast's doing."""

CHECKPOINTING: Final[dict[str, dict[str, Any]]] = {
    "none": {"checkpointing": "none"},
    "full": {"checkpointing": "full", "checkpoint_reentrant": False},
    "reentrant": {"checkpointing": "full", "checkpoint_reentrant": True},
    "every2": {"checkpointing": "every_k", "checkpoint_every": 2},
    "every3": {"checkpointing": "every_k", "checkpoint_every": 3},
    "attention": {"checkpointing": "selective_attention"},
    "op": {"checkpointing": "selective_op"},
}
OPTIMIZERS: Final[dict[str, dict[str, Any]]] = {
    "foreach": {"name": "adamw", "implementation": "foreach"},
    "fused": {"name": "adamw", "implementation": "fused"},
    "single": {"name": "adamw", "implementation": "single"},
    "backward": {"name": "adamw", "implementation": "foreach", "in_backward": True},
    "sgd": {"name": "sgd", "implementation": "foreach"},
    "momentum": {"name": "sgd_momentum", "implementation": "foreach"},
    "adafactor": {"name": "adafactor", "implementation": "single"},
}
PACKED: Final = frozenset({"nf4", "nf4_dq", "int8"})
Draw = dict[str, str]
Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One step.

    Attributes:
        name: The model's own name and every value, joined by dashes.
        model: The model's id.
        drawn: The value of each factor.
        scenario: The document.
    """

    name: str
    scenario: dict[str, Any]
    model: str = ""
    drawn: Draw = field(default_factory=dict)


def cases() -> tuple[Case, ...]:
    """Every step, the models in order."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    chance = random.Random(SEED)  # noqa: S311  # nothing secret
    seen: set[Pair] = set()
    for _ in range(PER_MODEL):
        for model in MODELS:
            drawn = [one for one in (_draw(chance) for _ in range(DRAWS)) if possible(model, one)]
            best = max(drawn, key=lambda one: _new(model, one, seen))
            seen |= set(_pairs(model, best))
            if model in SET_EAGER:
                best["attention"] = "eager"
            if model in SET_SDPA and best["attention"] == "flash":
                best["attention"] = "sdpa"
            yield Case(name=name_of(model, best), model=model, drawn=best, scenario=document(model, best))


def _new(model: str, one: Draw, seen: set[Pair]) -> int:
    return len(set(_pairs(model, one)) - seen)


def _draw(chance: random.Random) -> Draw:
    return {factor: chance.choice(values) for factor, values in FACTORS.items()}


def _pairs(model: str, one: Draw) -> Iterator[Pair]:
    return combinations(sorted({"model": model, **one}.items()), 2)


def possible(model: str, one: Mapping[str, str]) -> bool:
    """Whether the libraries can run the step, and anybody would (`selective_op` is torchtitan's, without adapters)."""
    adapted, packed = one["adapter"] != "whole", one["adapter"] in PACKED
    return not any((
        one["loss"] != "standard" and (model in OWN_LOGITS or model in EXPERTS),
        one["optimizer"] == "backward" and (one["accumulation"] != "1" or one["precision"] == "cast-fp16"),
        adapted and model in EXPERTS,
        adapted and one["optimizer"] == "adafactor",
        packed and one["precision"] in {"fp32", "fp16", "cast-fp16"},
        one["adapter"] == "qv-16" and one["precision"] in {"fp32", "cast-fp16"},
        int(one["length"]) > POSITIONS.get(model, 4096),
        one["attention"] != "eager" and model in EAGER_ONLY - SET_EAGER,
        one["attention"] == "eager" and int(one["rows"]) * int(one["length"]) > 8192,
        one["attention"] == "flash" and one["precision"] == "fp32",
        one["checkpointing"] == "op" and adapted,
    ))  # fmt: skip


def name_of(model: str, one: Mapping[str, str]) -> str:
    """The name of a step."""
    return "-".join([model.rsplit("/", 1)[-1], *one.values()])


def document(model: str, one: Mapping[str, str]) -> dict[str, Any]:
    """The scenario of a step. Adapters lie on a 16-bit base where autocast would have fp32 parameters."""
    stored, compute, autocast = PRECISIONS[one["precision"]]
    kind = one["adapter"]
    if kind != "whole" and autocast and kind not in PACKED:
        stored = compute
    found: dict[str, Any] = {
        "version": 1,
        "task": "full" if kind == "whole" else "qlora" if kind in PACKED else "lora",
        "model": {"id": model},
        "hardware": {"devices": [{"gpu": CARD}]},
        "runtime": {"name": "hf_trainer" if one["runtime"] == "trainer" else "generic"},
        "training": {
            "micro_batch": int(one["rows"]),
            "sequence_length": int(one["length"]),
            "gradient_accumulation": int(one["accumulation"]),
            "attention": one["attention"],
            "loss": one["loss"],
            "dropout": 0.0,
            "precision": {"parameters": stored, "compute": compute, "autocast": autocast},
            "optimizer": OPTIMIZERS[one["optimizer"]],
            **CHECKPOINTING[one["checkpointing"]],
        },
    }
    if kind != "whole":
        found["adapter"] = _adapter(model, kind, stored)
    return found


def _adapter(model: str, kind: str, stored: str) -> dict[str, Any]:
    narrow = kind in {"qv", "qv-16"}
    return {
        "method": "lora",
        "rank": 8 if narrow else 16,
        "alpha": 16,
        "dropout": 0.1 if kind == "all-dropout" else 0.0,
        "dtype": stored if kind == "qv-16" else "fp32",
        "base": kind if kind in PACKED else stored,
        "targets": list(QUERY_VALUE.get(model, ("q_proj", "v_proj"))) if narrow else "all_linear",
    }
