"""Steps of encoders and encoder-decoders on which the formulas of `planner.encoders` are held against traces.

Models of the catalogue: trained whole, pretrained, below adapters, with checkpoints, by fused kernels and in single
steps, in every precision, with the dropout of their class. `python -m benchmarks.encoder_cases [WORD ...]` traces them,
or those whose name has one of the words, and writes `tests/data/encoder_traces.json` (memory limited, one after the
other, about four minutes).
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.formula_cases import CARD, CHECKPOINTING, OPTIMIZERS, PRECISIONS, Case
from benchmarks.formula_records import RECORDS

ENCODER_RECORDS: Final[Path] = RECORDS.with_name("encoder_traces.json")
MODELS: Final = {
    "bert": "google-bert/bert-base-uncased",
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "roberta": "FacebookAI/roberta-base",
    "distilbert": "distilbert/distilbert-base-uncased",
    "modernbert": "answerdotai/ModernBERT-base",
    "t5": "google-t5/t5-small",
    "t5base": "google-t5/t5-base",
    "flan": "google/flan-t5-base",
    "vit": "google/vit-base-patch16-224",
    "dinov2": "facebook/dinov2-large",
    "clip": "openai/clip-vit-base-patch32",
    "siglip": "google/siglip-so400m-patch14-384",
    "whisper": "openai/whisper-tiny",
}
TARGETS: Final = {
    "bert": ("query", "value"),
    "minilm": ("query", "value"),
    "roberta": ("query", "value"),
    "distilbert": ("q_lin", "v_lin"),
    "modernbert": ("Wqkv",),
    "t5": ("q", "v"),
    "t5base": ("q", "v"),
    "flan": ("q", "v"),
}
DECODERS: Final = frozenset({"t5", "t5base", "flan", "whisper"})

STEPS: Final = (
    "bert full none sdpa bf16 foreach 8 512",
    "bert pretrain none sdpa bf16 foreach 8 512",
    "bert pretrain none sdpa cast-bf16 foreach 4 256",
    "bert full reentrant eager bf16 foreach 4 512",
    "bert full none eager fp32 sgd 2 256",
    "bert lora full sdpa bf16 foreach 4 512",
    "minilm full none sdpa bf16 foreach 16 256",
    "minilm pretrain full sdpa cast-bf16 sgd 8 256",
    "minilm lora none eager cast-bf16 foreach 8 256",
    "roberta full none sdpa cast-bf16 foreach 4 256",
    "roberta pretrain full sdpa bf16 sgd 4 512",
    "roberta lora none sdpa bf16 foreach 8 256",
    "roberta full none eager bf16 momentum 1 512",
    "distilbert full none sdpa bf16 foreach 8 512",
    "distilbert pretrain none sdpa cast-bf16 sgd 4 256",
    "distilbert full full eager fp32 foreach 2 256",
    "distilbert lora none eager cast-bf16 foreach 4 256",
    "modernbert full none sdpa bf16 foreach 4 512",
    "modernbert pretrain none sdpa cast-bf16 foreach 2 512",
    "modernbert full full eager bf16 sgd 2 512",
    "modernbert pretrain full sdpa bf16 sgd 2 1024",
    "modernbert lora none sdpa bf16 foreach 4 256",
    "t5 full none sdpa bf16 foreach 8 512",
    "t5 full none sdpa cast-bf16 sgd 4 256",
    "t5 full none eager fp32 foreach 2 256",
    "t5 full full eager cast-bf16 sgd 4 256",
    "t5 lora none sdpa bf16 foreach 4 256",
    "t5base full full sdpa bf16 foreach 4 512",
    "flan full none sdpa bf16 foreach 4 256",
    "flan full none eager cast-bf16 sgd 2 256",
    "flan lora full sdpa bf16 foreach 4 512",
    "vit full none sdpa bf16 foreach 16 197",
    "vit full none sdpa cast-bf16 foreach 8 197",
    "vit full full eager bf16 sgd 8 197",
    "vit lora none sdpa bf16 foreach 8 197",
    "vit full none eager fp32 momentum 4 197",
    "dinov2 full none sdpa bf16 sgd 2 197",
    "clip full none sdpa bf16 foreach 32 77",
    "clip full full eager cast-bf16 sgd 16 77",
    "clip lora none sdpa bf16 foreach 16 77",
    "siglip full none sdpa bf16 sgd 4 64",
    "siglip lora none eager bf16 foreach 2 64",
    "whisper full none sdpa bf16 foreach 4 448",
    "whisper full none eager fp32 sgd 2 128",
    "whisper full full sdpa cast-bf16 foreach 2 128",
    "whisper lora none sdpa bf16 foreach 2 256",
)
"""Model, task, checkpointing, attention, precision, optimizer, rows, length; decoders get a quarter of the length."""


def encoder_cases() -> tuple[Case, ...]:
    """Every step."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    for words in STEPS:
        yield Case(name=words.replace(" ", "-"), scenario=document(*words.split()))


def document(
    model: str,
    task: str,
    checkpointing: str,
    attention: str,
    precision: str,
    optimizer: str,
    rows: str,
    length: str,
) -> dict[str, Any]:
    """The scenario of a step."""
    stored, compute, autocast = PRECISIONS[precision]
    training = {
        "micro_batch": int(rows),
        "sequence_length": int(length),
        "attention": attention,
        "precision": {"parameters": stored, "compute": compute, "autocast": autocast},
        "optimizer": OPTIMIZERS[optimizer],
        **CHECKPOINTING[checkpointing],
    }
    if model in DECODERS:
        training["decoder_sequence_length"] = int(length) if model == "whisper" else int(length) // 4
    found: dict[str, Any] = {
        "version": 1,
        "task": task,
        "model": {"id": MODELS[model]},
        "hardware": {"devices": [{"gpu": CARD}]},
        "runtime": {"name": "hf_trainer"},
        "training": training,
    }
    if task == "lora":
        found["adapter"] = {
            "method": "lora",
            "rank": 8,
            "alpha": 16,
            "dropout": 0.0,
            "dtype": "fp32",
            "base": stored,
            "targets": list(TARGETS.get(model, ("q_proj", "v_proj"))),
        }
    return found


def main() -> int:
    """Trace every step, or those named, and write what was traced. Returns 1 where a step has no trace."""
    from benchmarks.case_records import trace_and_record  # noqa: PLC0415  # starts children

    return trace_and_record(encoder_cases(), sys.argv[1:], ENCODER_RECORDS)


if __name__ == "__main__":
    sys.exit(main())
