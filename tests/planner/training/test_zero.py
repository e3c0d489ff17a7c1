"""DeepSpeed's buffers and step: sizes worked out from its source, and against what it allocates.

The traced figures are DeepSpeed 0.17.6 on a CPU, one rank of a process group whose collectives move nothing (PyTorch's
`fake` backend), memory events of PyTorch's profiler in the second step; defaults but for `gradient_clipping` 1.
"""

from typing import Any

import pytest

from planner.ledger import Layer, Ledger, Phase
from tests.planner.training import cases

SMALL = cases.llama(512, 8, 4, 4, 1536, 8000)
LARGER = cases.llama(2304, 8, 4, 4, 6912, 8000)
BUCKET = 2 * 500_000_000
LLAMA_7B = cases.llama(4096, 32, 32, 32, 11008, 32000)
PARAMS_7B = 6_738_415_616
PART = PARAMS_7B // 8


def ledger(config: dict[str, Any], ranks: int, stage: int, **more: Any) -> Ledger:
    training = {
        "sequence_length": 64,
        "checkpointing": "full",
        "precision": {
            "parameters": "bf16", "compute": "bf16", "autocast": False, "gradients": "bf16", "master": "fp32",
            "optimizer": "fp32",
        },
        **more.pop("training", {}),
    }  # fmt: skip
    return cases.ledger(
        config, devices=ranks, runtime=more.pop("runtime", {"name": "deepspeed"}), training=training,
        parallel={"sharding": f"zero{stage}"}, **more,
    )  # fmt: skip


def phase_bytes(found: Ledger, phase: Phase) -> int:
    return found.phase_bytes(phase, Layer.ALLOCATED) - cases.WORKSPACES


def entry(found: Ledger, name: str, phase: Phase) -> int:
    return sum(e.bytes for e in found.entries if e.name == name and phase in e.phases)


@pytest.mark.parametrize(
    ("stage", "implementation", "runtime", "accumulation", "backward", "step"),
    [
        (1, "fused", "deepspeed", 1, 1_248_312_088, 249_194_516),
        (1, "foreach", "deepspeed", 2, 1_258_536_988, 249_194_516),
        (2, "fused", "deepspeed", 1, 1_248_246_544, 249_194_516),
        (2, "foreach", "deepspeed", 1, 1_248_246_544, 249_194_516),
        (2, "single", "deepspeed", 1, 1_248_246_544, 283_710_240),
        (2, "fused", "deepspeed", 2, 1_266_926_356, 249_194_516),
        (2, "foreach", "hf_trainer", 1, 1_248_246_548, 266_912_036),
        (2, "fused", "hf_trainer", 1, 1_248_246_548, 249_184_536),
        (3, "fused", "deepspeed", 1, 1_223_073_309, 1_195_068_457),
        (3, "foreach", "deepspeed", 1, 1_223_073_309, 1_212_800_309),
    ],
)
def test_the_backward_pass_and_the_step_hold_what_deepspeed_allocates(
    stage: int, implementation: str, runtime: str, accumulation: int, backward: int, step: int
) -> None:
    training = {
        "optimizer": {"name": "adamw", "implementation": implementation},
        "gradient_accumulation": accumulation,
    }
    found = ledger(SMALL, 4, stage, runtime={"name": runtime}, training=training)
    assert phase_bytes(found, Phase.BACKWARD) == pytest.approx(backward, rel=0.005)
    assert phase_bytes(found, Phase.OPTIMIZER_STEP) == pytest.approx(step, rel=0.005)


def test_more_than_a_bucket_is_exchanged_before_the_backward_pass_ends() -> None:
    found = ledger(LARGER, 8, 2, training={"optimizer": {"name": "adamw", "implementation": "fused"}})
    assert phase_bytes(found, Phase.BACKWARD) == pytest.approx(4_066_709_144, rel=0.005)
    assert phase_bytes(found, Phase.OPTIMIZER_STEP) == pytest.approx(2_656_822_996, rel=0.005)


def test_all_of_stage_three_is_gathered_where_it_is_small_with_the_buffer_it_came_in() -> None:
    """Traced with the whole model gathered ahead (a `stage3_prefetch_bucket_size` above its 35 million elements)."""
    found = ledger(SMALL, 4, 3)
    assert phase_bytes(found, Phase.REST) == pytest.approx(1_141_872_909, rel=0.001)
    assert phase_bytes(found, Phase.FORWARD) == pytest.approx(1_285_011_725, rel=0.005)


def test_the_output_matrix_is_gathered_beyond_what_may_stay() -> None:
    """Traced with limits of 10 million elements: 20 MB and the matrix, 8.2 MB of 8,000 entries or 16.4 of 16,000."""
    found = ledger(cases.LLAMA_70B, 8, 3)
    assert entry(found, "gathered_layers", Phase.FORWARD) == 2 * (1_000_000_000 + 128256 * 8192)
    assert entry(found, "gathered_layers", Phase.BACKWARD) == 2 * 1_050_000_000
    assert not entry(found, "prefetched_layers", Phase.FORWARD)


def test_a_bucket_is_as_large_as_configured_however_little_is_trained() -> None:
    lora: dict[str, Any] = {"task": "lora", "adapter": {"method": "lora", "rank": 8}}
    for stage in (1, 2, 3):
        found = ledger(SMALL, 4, stage, **lora)
        assert entry(found, "reduce_bucket", Phase.BACKWARD) == BUCKET


def test_stage_two_steps_a_part_that_was_flattened_and_cast() -> None:
    """Eight cards and 7B: 2P + 12P/8, and 2 + 2 + 4 bytes of the part; the 16-bit gradients go before the step.

    Published: 28.28 GiB allocated in the step of a loop whose Adam has one temporary made and asks for the next.
    """
    found = ledger(LLAMA_7B, 8, 2)
    states = 2 * PARAMS_7B + 12 * PART
    assert phase_bytes(found, Phase.OPTIMIZER_STEP) == states + 8 * PART
    for name, width in (("gradients", 2), ("flattened_gradients", 2), ("gradients_fp32", 4)):
        assert entry(found, name, Phase.OPTIMIZER_STEP) == width * PART
    single = ledger(LLAMA_7B, 8, 2, training={"optimizer": {"name": "adamw", "implementation": "single"}})
    assert phase_bytes(single, Phase.OPTIMIZER_STEP) == states + (4 + 2 * 4) * PART


def test_the_trainers_second_group_holds_all_gradients_through_the_step() -> None:
    """Norms and biases are a group of their own, and their gradients are views of the same tensor."""
    training = {"optimizer": {"name": "adamw", "implementation": "foreach"}}
    found = ledger(LLAMA_7B, 8, 2, runtime={"name": "hf_trainer"}, training=training)
    assert phase_bytes(found, Phase.OPTIMIZER_STEP) == 2 * PARAMS_7B + (12 + 2 + 4 + 4) * PART


def test_stage_three_steps_a_sub_group_of_a_thousand_million_at_once() -> None:
    found = ledger(LLAMA_7B, 2, 3, training={"optimizer": {"name": "adamw", "implementation": "foreach"}})
    part, group = PARAMS_7B // 2, 1_000_000_000
    assert part > group
    assert phase_bytes(found, Phase.REST) == 16 * part + BUCKET
    assert phase_bytes(found, Phase.OPTIMIZER_STEP) == 16 * part + BUCKET + 8 * group


def test_the_norm_makes_one_gradient_fp64() -> None:
    """On 64 cards a part is smaller than the embedding: all of it, 8 bytes an element, beside its 16-bit gradients."""
    found = ledger(LLAMA_7B, 64, 2)
    part = PARAMS_7B // 64
    assert entry(found, "norm_temporary", Phase.OPTIMIZER_STEP) == 8 * part
    assert phase_bytes(found, Phase.OPTIMIZER_STEP) == 2 * PARAMS_7B + (12 + 2 + 8) * part


@pytest.mark.parametrize(
    ("version", "newer"),
    [("0.11.2", False), ("2021-06", False), ("0.12.6", True), ("2024-01", True), (None, True)],
)
def test_buckets_are_copied_flat_and_weights_gathered_in_place_from_a_version_on(
    version: str | None, newer: bool
) -> None:
    runtime = {"name": "deepspeed", **({"version": version} if version else {})}
    found = ledger(LLAMA_7B, 64, 2, runtime=runtime)
    assert bool(entry(found, "flattened_bucket", Phase.BACKWARD)) is newer
    many = ledger(LLAMA_7B, 512, 2, runtime=runtime)
    assert bool(entry(many, "gather_bucket", Phase.OPTIMIZER_STEP)) is not newer


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_trainer_that_asks_for_bf16_gets_a_model_that_is_bf16(stage: int) -> None:
    """DeepSpeed casts the module and keeps fp32 copies; nothing is left for autocast."""
    parallel = {"sharding": f"zero{stage}"}
    found = cases.ledger(LLAMA_7B, devices=8, runtime={"name": "hf_trainer"}, parallel=parallel)
    precision = {"parameters": "bf16", "compute": "bf16", "autocast": False, "master": "fp32"}
    stated = cases.ledger(
        LLAMA_7B, devices=8, runtime={"name": "hf_trainer"}, parallel=parallel,
        training={"precision": precision},
    )  # fmt: skip
    assert found == stated
    weights = PARAMS_7B if stage < 3 else PART
    assert phase_bytes(found, Phase.REST) == pytest.approx(
        2 * weights + 12 * PART + (2 * PART + BUCKET if stage == 3 else 0), rel=1e-6
    )


def test_without_autocast_a_trainers_model_stays_as_it_was_loaded() -> None:
    found = cases.ledger(
        LLAMA_7B, devices=8, runtime={"name": "hf_trainer"}, parallel={"sharding": "zero2"},
        training={"precision": {"parameters": "fp32", "compute": "fp32", "autocast": False}},
    )  # fmt: skip
    assert phase_bytes(found, Phase.REST) == 4 * PARAMS_7B + 8 * PART


def test_adapters_are_cast_with_the_model() -> None:
    lora: dict[str, Any] = {"task": "lora", "adapter": {"method": "lora", "rank": 8}}
    found = cases.ledger(
        LLAMA_7B, devices=8, runtime={"name": "hf_trainer"}, parallel={"sharding": "zero2"}, **lora
    )
    adapters = 32 * 2 * 8 * (4096 + 4096)
    assert found.total("adapter_weights") == 2 * adapters


def test_an_optimizer_on_the_host_steps_nothing_on_the_card() -> None:
    parallel = {"sharding": "zero2", "offload": {"optimizer": "cpu", "gradients": "cpu"}}
    found = cases.ledger(LLAMA_7B, devices=8, runtime={"name": "deepspeed"}, parallel=parallel)
    for name in ("gradients_fp32", "flattened_gradients", "step_temporary", "norm_temporary"):
        assert not entry(found, name, Phase.OPTIMIZER_STEP)
