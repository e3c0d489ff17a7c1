"""Quantization-aware training: its extra bytes over plain training (SEEDS B15)."""

from typing import Any

from planner.ledger import Phase
from tests.planner.training import cases

TOKENS = 4096
LINEARS = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336
"""Weights of a Llama-3-8B layer."""
INPUTS = 5 * 4096 + 4096 + 14336


def entries(**blocks: Any) -> dict[str, int]:
    ledger = cases.ledger(cases.LLAMA_8B, **blocks)
    return {entry.name: entry.bytes for entry in ledger.alive(Phase.BACKWARD)}


def test_each_weight_has_a_copy_in_16_bit_and_a_byte_of_mask() -> None:
    found = entries(quantization_aware={"weights": "int8"})
    assert found["fake_quantized_weights"] == 32 * LINEARS * (2 + 1)
    assert "fake_quantized_inputs" not in found


def test_each_linear_has_its_own_copy_of_its_input() -> None:
    found = entries(quantization_aware={"activations": "int8"})
    assert found["fake_quantized_inputs"] == 32 * TOKENS * INPUTS * (2 + 1)


def test_checkpointing_leaves_one_layer() -> None:
    found = entries(
        quantization_aware={"weights": "int8", "activations": "int8"}, training={"checkpointing": "full"}
    )
    assert found["fake_quantized_weights"] == LINEARS * 3
    assert found["fake_quantized_inputs"] == TOKENS * INPUTS * 3


def test_states_are_those_of_plain_training() -> None:
    plain, aware = (
        cases.ledger(cases.LLAMA_8B, **b) for b in ({}, {"quantization_aware": {"weights": "int8"}})
    )
    assert plain.phase_bytes(Phase.REST) == aware.phase_bytes(Phase.REST)
