"""Real steps beside the formulas: every phase, and every category in it."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.ledger import TRAINING_PHASES, Phase
from planner.scenario import Scenario
from profiler.compare import compare
from tests.profiler.reports import report
from tests.profiler.scenarios import GPT2, LLAMA, scenario
from tests.profiler.worker.test_measure import tracked, workload

CLOSE_FRAC = 0.002
"""Share of a phase's bytes. What is left: CPU keeps 16-bit layer norms' mean and deviation in 16 bit, and
scalars."""

GPT2_124M: dict[str, Any] = {
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50_257, "n_positions": 1_024,
}  # fmt: skip
LLAMA_48M: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 6, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 1_408, "vocab_size": 32_000,
    "max_position_embeddings": 2_048, "tie_word_embeddings": False,
}  # fmt: skip

FP32: dict[str, Any] = {}
BF16 = {"training.precision.parameters": "bf16", "training.precision.compute": "bf16"}
FULL = {"training.checkpointing": "full"}
GENERIC = {"runtime.name": "generic"}
QV = {"task": "lora", "adapter": {"rank": 8, "targets": ["q_proj", "v_proj"], "dtype": "fp32"}}
QKVO = {
    "task": "lora",
    "adapter": {"rank": 8, "targets": ["q_proj", "k_proj", "v_proj", "o_proj"], "dtype": "fp32"},
}

GPT2_WIDE_HEAD, LLAMA_WIDE_HEAD = GPT2 | {"vocab_size": 5_003}, LLAMA | {"vocab_size": 5_003}
"""With few logits a checkpointed forward pass is fullest inside a layer, which no entry of the plan stands
for."""

SMALL = [
    pytest.param(GPT2, FP32, id="gpt2-fp32"),
    pytest.param(GPT2_WIDE_HEAD, FULL, id="gpt2-fp32-checkpointed"),
    pytest.param(LLAMA, FP32, id="llama-fp32"),
    pytest.param(LLAMA_WIDE_HEAD, BF16 | FULL, id="llama-bf16-checkpointed"),
    pytest.param(LLAMA, GENERIC, id="llama-fp32-generic"),
    pytest.param(LLAMA, QV, id="llama-fp32-lora-qv"),
]
WIDE = {"training.sequence_length": 200, "training.micro_batch": 1}
NARROW = {"training.sequence_length": 200}
REAL = [
    pytest.param(config, {**size, **changes}, id=f"{name}-{label}")
    for name, config, size, cases in (
        (
            "gpt2",
            GPT2_124M,
            WIDE,
            {
                "fp32": FP32,
                "bf16": BF16,
                "fp32-checkpointed": FULL,
                "bf16-checkpointed": BF16 | FULL,
                "fp32-generic": GENERIC,
            },
        ),
        (
            "llama",
            LLAMA_48M,
            NARROW,
            {
                "fp32": FP32,
                "bf16": BF16,
                "fp32-checkpointed": FULL,
                "bf16-checkpointed": BF16 | FULL,
                "bf16-generic": BF16 | GENERIC,
                "fp32-lora-qv": QV,
                "bf16-lora-qv": BF16 | QV,
                "fp32-lora-qkvo": QKVO,
            },
        ),
    )
    for label, changes in cases.items()
]


def check(config: dict[str, Any], changes: dict[str, Any]) -> None:
    answer = plan(Scenario.model_validate(scenario(config, **changes)), load_tables())
    measured = tracked(workload(config, **changes)).figures
    found = compare(answer.worst.ledger, report(*measured.values()))
    assert [part.phase for part in found.phases] == list(TRAINING_PHASES)
    for part in found.phases:
        allowed = CLOSE_FRAC * (part.total.measured_bytes or 0)
        # the backward pass has several moments that may be equally full, each with its own categories
        rows = () if part.phase is Phase.BACKWARD else part.categories
        for row in (part.total, *rows):
            assert abs(row.residual_bytes or 0) <= allowed, (part.phase, row, part.bundles)


@pytest.mark.parametrize(("config", "changes"), SMALL)
def test_a_small_step_is_the_formulas(config: dict[str, Any], changes: dict[str, Any]) -> None:
    check(config, changes)


@pytest.mark.long
@pytest.mark.parametrize(("config", "changes"), REAL)
def test_a_real_step_is_the_formulas(config: dict[str, Any], changes: dict[str, Any]) -> None:
    check(config, changes)
