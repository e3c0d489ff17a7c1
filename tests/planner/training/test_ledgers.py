"""The training ledger as a whole: traced peaks, arithmetic of the founding claims, order between schemes."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.ledger import Category, Layer, Ledger, Phase
from planner.training.ledgers import host_need, trainable_params, training_ledger, training_ledgers
from planner.units import GB, GIB
from tests.planner.training import cases

AUTOCAST = {
    "precision": {"parameters": "fp32", "autocast": True},
    "optimizer": {"implementation": "fused"},
}
TRACED: tuple[tuple[dict[str, Any], str, dict[str, Any], float, str], ...] = (
    (cases.LLAMA_1B, "none", {}, 20.452, "loss"),
    (cases.LLAMA_1B, "full", {}, 14.069, "loss"),
    (cases.LLAMA_1B, "none", AUTOCAST, 31.051, "loss"),
    (cases.LLAMA_1B, "full", AUTOCAST, 22.596, "loss"),
    (cases.LLAMA_8B, "none", {}, 76.366, "loss"),
    (cases.LLAMA_8B, "full", {}, 75.766, "optimizer_step"),
    (cases.LLAMA_8B, "none", AUTOCAST, 140.750, "loss"),
    (cases.LLAMA_8B, "full", AUTOCAST, 120.701, "backward"),
    (cases.LLAMA_70B, "none", {}, 659.311, "optimizer_step"),
    (cases.LLAMA_70B, "full", {}, 658.061, "optimizer_step"),
    (cases.MIXTRAL, "none", {}, 435.698, "optimizer_step"),
    (cases.MIXTRAL, "full", {}, 435.198, "optimizer_step"),
    (cases.QWEN3_30B, "none", {}, 285.887, "optimizer_step"),
    (cases.QWEN3_30B, "full", {}, 285.512, "optimizer_step"),
    (cases.GPT2, "none", {}, 5.590, "loss"),
    (cases.GPT2, "full", {}, 3.478, "loss"),
)


@pytest.mark.parametrize(("config", "checkpointing", "training", "peak_gib", "phase"), TRACED)
def test_peaks_of_traced_steps(
    config: dict[str, Any], checkpointing: str, training: dict[str, Any], peak_gib: float, phase: str
) -> None:
    """One sequence of 4096 tokens, AdamW; within 0.2 % of the trace, and in its phase."""
    found = cases.ledger(config, training={**training, "checkpointing": checkpointing})
    fullest, peak_bytes = found.peak(Layer.ALLOCATED)
    assert (peak_bytes - cases.WORKSPACES) / GIB == pytest.approx(peak_gib, rel=0.002)
    assert fullest == phase


def states(found: Ledger) -> int:
    return sum(
        entry.bytes
        for entry in found.entries
        if entry.category in {Category.WEIGHTS, Category.GRADIENTS, Category.OPTIMIZER}
        and Phase.OPTIMIZER_STEP in entry.phases
        and "temporary" not in entry.name
    )


SEVEN_BILLION = cases.llama(4096, 32, 32, 32, 11008, 32000)
SEVENTY_BILLION = cases.llama(8192, 80, 64, 8, 28672, 32000)


@pytest.mark.parametrize(
    ("config", "params"), [(SEVEN_BILLION, 6_738_415_616), (SEVENTY_BILLION, 68_976_648_192)]
)
def test_claim_12_bytes_a_parameter_without_and_16_with_a_master_copy(
    config: dict[str, Any], params: int
) -> None:
    """16-bit weights and gradients with fp32 moments: 2 + 2 + 8 bytes; an fp32 master copy makes it 16."""
    for master, size in (("none", 12), ("fp32", 16)):
        precision = {"parameters": "fp16", "compute": "fp16", "optimizer": "fp32", "master": master}
        found = cases.ledger(config, training={"precision": precision})
        assert states(found) == size * params


@pytest.mark.parametrize(("dtype", "size"), [("fp32", 4), ("fp16", 2), ("int8", 1)])
def test_claim_weights_of_seven_billion_parameters_by_format(dtype: str, size: int) -> None:
    found = cases.ledger(SEVEN_BILLION, training={"precision": {"parameters": dtype, "compute": "fp16"}})
    weights = found.total("embedding_weights", "layer_weights", "head_weights")
    assert weights == size * 6_738_415_616


def test_claim_real_4_bit_weights_are_more_than_half_a_byte() -> None:
    adapter = {"method": "lora", "base": "nf4"}
    found = cases.ledger(SEVEN_BILLION, task="qlora", adapter=adapter)
    packed = 6_738_415_616 - 2 * 32000 * 4096 - 65 * 4096
    assert found.total("quantized_weights") == packed / 2
    assert found.total("quantization_constants") == packed / 64 * 4
    double = cases.ledger(SEVEN_BILLION, task="qlora", adapter={**adapter, "base": "nf4_dq"})
    assert double.total("quantization_constants") == pytest.approx(packed * 0.127 / 8, rel=0.01)


def test_claim_13b_qlora_with_8_bit_adam_and_checkpointing_fits_24_gb() -> None:
    config = cases.llama(5120, 40, 40, 40, 13824, 32000)
    found = cases.ledger(
        config,
        task="qlora",
        adapter={"method": "lora", "base": "nf4_dq", "rank": 16, "targets": "all_linear"},
        runtime={"name": "hf_trainer"},
        training={
            "sequence_length": 1024,
            "checkpointing": "full",
            "optimizer": {"name": "adamw_8bit"},
            "precision": {"parameters": "bf16"},
        },
    )
    assert found.peak(Layer.ALLOCATED)[1] < 22 * GB


def test_claim_175b_on_64_cards_needs_87_gb_at_16_bytes_and_less_with_a_distributed_optimizer() -> None:
    config = {
        "model_type": "megatron_gpt",
        "hidden_size": 12288,
        "num_hidden_layers": 96,
        "num_attention_heads": 96,
        "num_key_value_heads": 96,
        "intermediate_size": 49152,
        "vocab_size": 51200,
        "norm": "layer_norm",
        "gated_mlp": False,
        "add_bias_linear": True,
        "hidden_act": "gelu",
        "position_embedding": "learned",
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
    }
    runtime, training = {"name": "megatron_lm"}, {"precision": {"gradients": "fp16", "parameters": "fp16"}}
    parallel = {"tensor": 8, "pipeline": 4, "data": 2}
    found = cases.ledgers(config, devices=64, runtime=runtime, training=training, parallel=parallel)
    assert states(found[1]) / GB == pytest.approx(87.5, rel=0.02)
    sharded = cases.ledgers(
        config, devices=64, runtime=runtime, training=training, parallel={**parallel, "sharding": "zero1"}
    )
    assert states(sharded[1]) / GB == pytest.approx(87.5 * 10 / 16, rel=0.02)


def test_early_pipeline_stages_keep_more_micro_batches() -> None:
    found = cases.ledgers(
        cases.LLAMA_8B,
        devices=4,
        runtime={"name": "megatron_lm"},
        training={"gradient_accumulation": 8},
        parallel={"pipeline": 4},
    )
    saved = [one.total("saved_activations") for one in found]
    forward = [
        sum(e.bytes for e in one.alive(Phase.FORWARD) if e.name == "saved_activations") for one in found
    ]
    assert forward == sorted(forward, reverse=True)
    assert forward[0] == 4 * forward[3]
    assert all(saved)
    assert [bool(one.total("embedding_weights")) for one in found] == [True, False, False, False]
    assert [bool(one.total("logits", "logits_fp32")) for one in found] == [False, False, False, True]


sizes = st.integers(min_value=1, max_value=6)


@given(batch=sizes, sequence=st.integers(1, 40), training=st.sampled_from(["none", "full", "selective_op"]))
def test_more_tokens_never_need_less(batch: int, sequence: int, training: str) -> None:
    def peak(b: int, s: int) -> int:
        block = {"micro_batch": b, "sequence_length": 64 * s, "checkpointing": training}
        return cases.ledger(cases.TINY, training=block).peak()[1]

    assert peak(batch, sequence) <= peak(batch + 1, sequence)
    assert peak(batch, sequence) <= peak(batch, sequence + 1)


@given(
    devices=st.integers(1, 9),
    optimizer=st.sampled_from(["adamw", "sgd_momentum", "lion", "adafactor", "adamw_8bit", "muon"]),
    checkpointing=st.sampled_from(["none", "full"]),
)
def test_more_sharding_never_keeps_more_states(devices: int, optimizer: str, checkpointing: str) -> None:
    def kept(sharding: str) -> int:
        return states(
            cases.ledger(
                cases.TINY,
                devices=devices,
                training={"optimizer": {"name": optimizer}, "checkpointing": checkpointing},
                parallel={"sharding": sharding},
            )
        )

    none, zero1, zero2, zero3, fsdp = map(kept, ("none", "zero1", "zero2", "zero3", "fsdp"))
    assert none >= zero1 >= zero2 >= zero3
    assert zero3 == fsdp


@given(st.randoms(use_true_random=False))
def test_the_order_of_equal_cards_changes_nothing(source: random.Random) -> None:
    rows = [{"gpu": cases.CARD, "count": 1}, {"gpu": cases.CARD, "count": 2}, {"gpu": cases.CARD, "count": 1}]
    source.shuffle(rows)
    shuffled = cases.ledger(cases.TINY, hardware={"devices": rows}, parallel={"sharding": "fsdp"})
    plain = cases.ledger(cases.TINY, devices=4, parallel={"sharding": "fsdp"})
    assert shuffled.entries == plain.entries


def test_layers_add_up_and_are_whole_numbers() -> None:
    found = cases.ledger(cases.LLAMA_8B, devices=2, parallel={"sharding": "fsdp"})
    for phase in found.phases:
        for layer in Layer:
            assert type(found.phase_bytes(phase, layer)) is int
        assert sum(found.by_category(phase).values()) == found.phase_bytes(phase)


@pytest.mark.parametrize("sharding", ["none", "zero1", "zero2", "zero3", "fsdp"])
def test_offloaded_states_move_to_the_host(sharding: str) -> None:
    offload = {"optimizer": "cpu", "gradients": "none"}
    blocks: dict[str, Any] = {"devices": 4, "runtime": {"name": "deepspeed"}}
    on = cases.ledger(cases.LLAMA_8B, **blocks, parallel={"sharding": sharding})
    off = cases.ledger(cases.LLAMA_8B, **blocks, parallel={"sharding": sharding, "offload": offload})
    moved = on.total("optimizer_states", "master_weights") - off.total("optimizer_states", "master_weights")
    resolved, model, groups = cases.shares(
        cases.LLAMA_8B, **blocks, parallel={"sharding": sharding, "offload": offload}
    )
    assert moved == host_need(groups[0], resolved, model).memory_bytes > 0


def test_offloaded_layer_inputs_leave_one_behind_and_lie_in_host_memory() -> None:
    blocks: dict[str, Any] = {"task": "qlora", "runtime": {"name": "unsloth"}}
    kept = cases.ledger(cases.LLAMA_8B, **blocks)
    off = {"training": {"activation_offload": True}}
    moved = cases.ledger(cases.LLAMA_8B, **blocks, **off)
    resolved, model, groups = cases.shares(cases.LLAMA_8B, **blocks, **off)
    assert moved.total("checkpointed_inputs") == kept.total("checkpointed_inputs") // model.num_layers
    inputs = sum(e.bytes for e in kept.entries if e.name == "checkpointed_inputs" and Phase.LOSS in e.phases)
    assert host_need(groups[0], resolved, model).memory_bytes == inputs > 0


def test_mpt_in_an_fsdp_loop_has_the_fused_loss_of_its_own_code_and_no_dropout() -> None:
    blocks: dict[str, Any] = {"devices": 8, "runtime": {"name": "generic"}, "parallel": {"sharding": "fsdp"}}
    training = {"micro_batch": 4, "sequence_length": 2048}
    found = cases.ledger(cases.MPT_1B, **blocks, training=training)
    assert found.total("dropout_masks") == found.total("log_softmax") == 0
    logits = 4 * 2048 * 50368 * 2
    assert sum(e.bytes for e in found.entries if e.name == "logits" and Phase.LOSS in e.phases) == logits


@pytest.mark.parametrize(
    ("version", "kept"),
    [(None, True), ("2021-06", False), ("0.5.10", False), ("0.6.0", True), ("2022-03", True)],
)
def test_stage_three_holds_its_buffers_between_steps_from_a_version_on(
    version: str | None, kept: bool
) -> None:
    runtime = {"name": "deepspeed", **({"version": version} if version else {})}
    found = cases.ledger(cases.LLAMA_8B, devices=16, runtime=runtime, parallel={"sharding": "zero3"})
    for name in ("gradients", "reduce_bucket"):
        entries = [e for e in found.entries if e.name == name]
        assert any(Phase.REST in e.phases for e in entries) is kept
        assert any(Phase.BACKWARD in e.phases for e in entries)
    params = 8_030_261_248 // 16
    if not kept:
        rest = found.phase_bytes(Phase.REST, Layer.ALLOCATED)
        assert rest == pytest.approx(params * (2 + 12), rel=0.01)


def test_trainable_parameters() -> None:
    resolved, model, _ = cases.shares(cases.LLAMA_8B)
    assert trainable_params(resolved, model) == model.params_total == 8_030_261_248
    adapter = {"method": "lora", "rank": 16, "targets": ["q_proj", "k_proj", "v_proj", "o_proj"]}
    resolved, model, _ = cases.shares(cases.LLAMA_8B, task="lora", adapter=adapter)
    assert trainable_params(resolved, model) == 32 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024))


def test_gradients_that_stay() -> None:
    """Megatron's main gradients are there between steps; a plain loop's are gone after `zero_grad`."""
    plain = cases.ledger(cases.LLAMA_8B)
    assert plain.by_category(Phase.REST).get(Category.GRADIENTS) is None
    megatron = cases.ledger(cases.LLAMA_8B, runtime={"name": "megatron_lm"})
    assert megatron.by_category(Phase.REST)[Category.GRADIENTS] == 4 * 8_030_261_248


def test_optimizer_in_backward_holds_one_gradient_at_a_time() -> None:
    found = cases.ledger(
        cases.LLAMA_8B, training={"optimizer": {"in_backward": True}, "gradient_accumulation": 1}
    )
    assert found.total("gradients") <= 128256 * 4096 * 2
    assert not found.total("step_temporary")


def test_equal_stages_on_equal_cards_are_worked_out_once() -> None:
    rows = [
        {"gpu": cases.CARD, "count": 3},
        {"gpu": cases.HOPPER, "count": 1},
        {"gpu": cases.CARD, "count": 1},
    ]
    blocks: dict[str, Any] = {
        "hardware": {"devices": rows},
        "runtime": {"name": "hf_trainer"},
        "parallel": {"pipeline": 5, "pipeline_schedule": "naive"},
    }
    resolved, model, groups = cases.shares(cases.llama(64, 10, 4, 2, 128, 512), **blocks)
    found = training_ledgers(groups, resolved, model, cases.TABLES)
    assert found[1] is found[2]
    assert found == tuple(training_ledger(group, resolved, model, cases.TABLES) for group in groups)
    assert found[3].total("cublas_workspaces") > found[2].total("cublas_workspaces")
    assert found[4].total("head_weights")
