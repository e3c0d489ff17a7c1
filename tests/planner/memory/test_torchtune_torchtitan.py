"""Losses and buffers of torchtune and torchtitan, as their code runs them, in bytes."""

from typing import Any

import pytest

from planner.ledger import Category, Layer, Ledger, Phase
from tests.planner.training import cases

T, V, H = 512, 128256, 4096
STEP = {"sequence_length": T, "checkpointing": "full"}


def ledger(
    name: str, version: str, *, compiled: bool = False, allocator: str = "default", **blocks: Any
) -> Ledger:
    runtime = {"name": name, "version": version, "compile": compiled, "allocator": allocator}
    return cases.ledger(cases.LLAMA_8B, runtime=runtime, **blocks)


def logits(found: Ledger, phase: Phase = Phase.LOSS) -> int:
    return found.category_bytes(phase, Category.LOGITS)


@pytest.mark.parametrize(
    ("name", "version", "loss", "compiled", "eighths"),
    [
        ("torchtune", "2024-10", "chunked", True, 18),
        ("torchtune", "2024-10", "chunked", False, 52),
        ("torchtune", "2024-10", "standard", True, 96),
        ("torchtune", "2024-10", "standard", False, 96),
        ("torchtune", "2024-05", "standard", False, 128),
        ("torchtitan", "2025-09", "standard", True, 32),
        ("torchtitan", "2025-09", "standard", False, 96),
    ],
)
def test_the_loss_at_its_fullest(name: str, version: str, loss: str, compiled: bool, eighths: int) -> None:
    found = ledger(name, version, compiled=compiled, training={**STEP, "loss": loss})
    assert logits(found) == T * V * eighths // 8


def test_a_compiler_makes_norms_and_activations_again() -> None:
    """Llama: of a norm's input no fp32 copy and no product before its weight, of a gated MLP not the activation.

    Nor the keys and values that were copied for every query head.
    """
    training = {"sequence_length": T, "checkpointing": "none"}
    eager, compiled = (
        ledger("torchtitan", "2025-07", compiled=on, training=training).total("saved_activations")
        for on in (False, True)
    )
    assert eager - compiled == 32 * T * (2 * 4 * H + 2 * 14336 + 2 * 2 * (H - 1024))


def test_keys_are_copied_for_every_query_head_before_february_2026() -> None:
    training = {"sequence_length": T, "checkpointing": "none"}
    before, after = (
        ledger("torchtitan", version, training=training).total("saved_activations")
        for version in ("2026-01", "2026-02")
    )
    assert before - after == 32 * T * 2 * 2 * (H - 1024)


def test_pytorchs_own_norm_kernel_keeps_what_it_reads() -> None:
    """From August 2025 on: an fp32 copy and a product less of each of two norms."""
    training = {"sequence_length": T, "checkpointing": "none"}
    before, after = (
        ledger("torchtitan", version, training=training).total("saved_activations")
        for version in ("2025-07", "2025-08")
    )
    assert before - after == 32 * T * 2 * 4 * H


def test_divided_logits_have_one_tensor_more() -> None:
    blocks: dict[str, Any] = {
        "devices": 2,
        "training": {**STEP, "loss": "standard"},
        "parallel": {"tensor": 2, "data": 1},
    }
    assert logits(ledger("torchtitan", "2025-09", **blocks)) == T * V // 2 * 16


def test_a_chunked_heads_gradient_is_added_up_beside_the_next_chunks() -> None:
    """Eight products with one matrix: autograd holds the sum so far and the next part."""
    training = {**STEP, "loss": "chunked", "optimizer": {"name": "adamw_8bit", "in_backward": True}}
    found = ledger("torchtune", "2024-10", compiled=True, training=training)
    head = [e for e in found.entries if e.name == "gradients" and Phase.BACKWARD in e.phases]
    assert max(e.bytes for e in head) == 2 * V * H * 2


def test_torchaos_constants_are_cut_with_their_weights() -> None:
    adapter = {"method": "lora", "rank": 8, "base": "nf4_dq", "targets": ["q_proj", "v_proj"]}
    blocks: dict[str, Any] = {
        "task": "qlora",
        "adapter": adapter,
        "training": STEP,
        "parallel": {"sharding": "fsdp"},
    }
    alone, four = (ledger("torchtune", "2024-10", devices=n, **blocks) for n in (1, 4))
    one, cut = (found.total("quantization_constants") for found in (alone, four))
    assert one // 4 <= cut <= one // 4 + 4


@pytest.mark.parametrize("allocator", ["default", "expandable_segments"])
def test_gradients_lie_in_the_reduce_scatters_stream(allocator: str) -> None:
    """Blocks freed by the loss are of another stream and do not hold them."""
    blocks: dict[str, Any] = {
        "devices": 8,
        "training": {**STEP, "micro_batch": 8},
        "parallel": {"sharding": "fsdp"},
    }
    found = ledger("torchtitan", "2025-09", allocator=allocator, **blocks)
    gradients = found.category_bytes(Phase.OPTIMIZER_STEP, Category.GRADIENTS)
    least = found.phase_bytes(Phase.LOSS, Layer.ALLOCATED) + gradients
    assert found.peak(Layer.RESERVED)[1] >= least > found.peak(Layer.ALLOCATED)[1]


def test_a_pipelines_last_micro_batch_is_copied_to_be_scattered() -> None:
    parallel = {"sharding": "fsdp", "pipeline": 2, "data": 4}
    training = {**STEP, "gradient_accumulation": 4}
    found = ledger("torchtitan", "2025-09", devices=8, training=training, parallel=parallel)
    layer = 2 * H * H + 2 * H * 1024 + 3 * H * 14336 + 2 * H
    assert found.total("scatter_input") == layer * (2 + 4)
