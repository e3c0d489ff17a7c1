"""Configurations of `benchmarks.gpu_check`: one small step each, all that one card can be asked in eight minutes."""

from dataclasses import dataclass, field
from typing import Any, Final

Document = dict[str, Any]

GPT2: Final[Document] = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
LLAMA: Final[Document] = {
    "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 32000, "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
}  # fmt: skip
SMALL_GPT2: Final[Document] = GPT2 | {"n_embd": 192, "n_layer": 3, "n_head": 4, "vocab_size": 4001}
SMALL_LLAMA: Final[Document] = LLAMA | {
    "hidden_size": 192, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 512, "vocab_size": 4000,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One configuration.

    Attributes:
        name: Stable id.
        model: `gpt2` or `llama`.
        changes: Changes of the plain step, by dotted path.
        allocator: Value of PYTORCH_ALLOC_CONF, empty for none.
        cpu: Whether the twin on a processor can run it.
        runs_out: It is meant to run out of device memory.
    """

    name: str
    model: str = "llama"
    changes: Document = field(default_factory=dict)
    allocator: str = ""
    cpu: bool = True
    runs_out: bool = False


def _precision(stored: str, compute: str, *, autocast: bool) -> Document:
    return {"parameters": stored, "compute": compute, "autocast": autocast}


BF16: Final = {"training.precision": _precision("bf16", "bf16", autocast=False)}
AUTOCAST: Final = {"training.precision": _precision("fp32", "bf16", autocast=True)}
CHECKPOINTED: Final = {"training.checkpointing": "full"}
EAGER: Final = {"training.attention": "eager"}
LONG_ROWS: Final = 20_000
"""Rows of a micro-batch that no card holds."""


def _optimizer(name: str, implementation: str) -> Document:
    return {"training.optimizer": {"name": name, "implementation": implementation}}


def _lora(targets: Any, base: str) -> Document:
    block = {"method": "lora", "rank": 16, "dropout": 0.0, "dtype": "fp32", "base": base, "targets": targets}
    return {"task": "lora", "adapter": block}


CASES: Final = (
    Case(name="gpt2-fp32-eager", model="gpt2", changes=EAGER),
    Case(name="gpt2-bf16-sdpa", model="gpt2", changes=BF16),
    Case(name="gpt2-autocast-dropout", model="gpt2", changes={**AUTOCAST, "training.dropout": 0.1}),
    Case(name="llama-fp32-sdpa"),
    Case(name="llama-bf16-sdpa", changes=BF16),
    Case(name="llama-bf16-eager", changes={**BF16, **EAGER}),
    Case(name="llama-bf16-flash", changes={**BF16, "training.attention": "flash"}, cpu=False),
    Case(name="llama-bf16-checkpointed", changes={**BF16, **CHECKPOINTED}),
    Case(name="llama-autocast-checkpointed", changes={**AUTOCAST, **CHECKPOINTED}),
    Case(name="llama-autocast-trainer", changes={**AUTOCAST, "runtime.name": "hf_trainer"}),
    Case(name="llama-bf16-adamw-fused", changes={**BF16, **_optimizer("adamw", "fused")}),
    Case(name="llama-bf16-adamw-single", changes={**BF16, **_optimizer("adamw", "single")}),
    Case(name="llama-bf16-sgd-momentum", changes={**BF16, **_optimizer("sgd_momentum", "foreach")}),
    Case(name="llama-bf16-adafactor", changes={**BF16, **_optimizer("adafactor", "foreach")}),
    Case(name="llama-bf16-chunked-loss", changes={**BF16, "training.loss": "chunked"}),
    Case(name="llama-bf16-fused-loss", changes={**BF16, "training.loss": "fused_linear"}),
    Case(name="llama-bf16-lora-all", changes={**BF16, **_lora("all_linear", "bf16")}),
    Case(
        name="llama-bf16-lora-qv-checkpointed",
        changes={**BF16, **CHECKPOINTED, **_lora(["q_proj", "v_proj"], "bf16")},
    ),
    Case(name="llama-bf16-accumulated", changes={**BF16, "training.gradient_accumulation": 2}),
    Case(name="llama-bf16-expandable", changes=BF16, allocator="expandable_segments:True", cpu=False),
    Case(name="llama-bf16-max-split", changes=BF16, allocator="max_split_size_mb:128", cpu=False),
    Case(
        name="llama-out-of-memory",
        changes={**BF16, "training.micro_batch": LONG_ROWS},
        cpu=False,
        runs_out=True,
    ),
)


def scenario_of(case: Case, gpu_id: str, *, small: bool) -> Document:
    """The scenario of a case on a card.

    Args:
        case: The case.
        gpu_id: Card in the tables, `unknown` on a processor.
        small: The twin's smaller models and batches.
    """
    models = {"gpt2": SMALL_GPT2, "llama": SMALL_LLAMA} if small else {"gpt2": GPT2, "llama": LLAMA}
    document: Document = {
        "version": 1,
        "task": "full",
        "model": {"config": dict(models[case.model])},
        "hardware": {"devices": [{"gpu": gpu_id}]},
        "runtime": {"name": "generic"},
        "training": {
            "micro_batch": 2 if small else 4,
            "sequence_length": 64 if small else 512,
            "attention": "sdpa",
            "checkpointing": "none",
            "dropout": 0.0,
            "precision": _precision("fp32", "fp32", autocast=False),
            "optimizer": {"name": "adamw", "implementation": "foreach"},
        },
    }
    for path, value in case.changes.items():
        *parents, leaf = path.split(".")
        node = document
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    return document
