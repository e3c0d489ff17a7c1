"""What the allocator caches: the sets of a step keep their own blocks as long as the card has room."""

import math
from typing import Any

import pytest

from planner.ledger import Category, Entry, Layer, Ledger, Phase
from planner.training.allocator_cache import hidden_bytes
from planner.training.setup import Setup, setup_for
from planner.units import GIB
from tests.planner.training import cases

STEP = {"checkpointing": "none", "sequence_length": 4096}


SMALL_VOCABULARY = {**cases.LLAMA_1B, "vocab_size": 4096}


def cache(
    memory_gib: float | None = None, config: dict[str, Any] = cases.LLAMA_1B, **blocks: Any
) -> tuple[int, Ledger]:
    """The cache and the ledger it is in, on a card of this size or on one that is not known."""
    devices = blocks.pop("devices", 1)
    size = {} if memory_gib is None else {"memory_bytes": round(memory_gib * GIB)}
    rows = [{"gpu": cases.CARD, "count": devices, **size}]
    found = cases.ledger(config, hardware={"devices": rows}, **{"training": STEP, **blocks})
    return found.total("allocator_cache"), found


def setup(**blocks: Any) -> Setup:
    """The first device's part of a step, in numbers."""
    resolved, model, groups = cases.shares(cases.LLAMA_1B, **{"training": STEP, **blocks})
    return setup_for(groups[0], resolved, model)


def logits(found: Ledger, phase: Phase) -> int:
    return sum(e.bytes for e in found.entries if phase in e.phases and e.category.value == "logits_and_loss")


def symbols_of(found: Ledger) -> dict[str, int | float]:
    return dict(next(e for e in found.entries if e.name == "allocator_cache").symbols)


def test_layers_logits_and_the_optimizers_temporaries_add_up_on_a_roomy_card() -> None:
    roomy, found = cache(400, SMALL_VOCABULARY)
    rest, step = (found.phase_bytes(p, Layer.ALLOCATED) for p in (Phase.REST, Phase.OPTIMIZER_STEP))
    working = max(
        found.phase_bytes(p, Layer.ALLOCATED) - logits(found, p) for p in (Phase.FORWARD, Phase.BACKWARD)
    )
    gradients = sum(
        e.bytes for e in found.entries if e.name == "gradients" and Phase.OPTIMIZER_STEP in e.phases
    )
    temporaries, loss = step - gradients - rest, logits(found, Phase.LOSS)
    sets = working + loss + temporaries - math.ceil(0.6 * min(loss, temporaries))
    assert (
        found.phase_bytes(Phase.LOSS, Layer.RESERVED) - found.phase_bytes(Phase.LOSS, Layer.ALLOCATED)
        == roomy
    )
    assert roomy == sets - found.peak(Layer.ALLOCATED)[1] > 0
    assert cache(None, SMALL_VOCABULARY)[0] == roomy


def test_the_working_layer_counts_where_the_heads_moment_is_the_fullest() -> None:
    kernels = ["rms_norm", "rope", "lora_attention", "lora_mlp", "swiglu"]
    training = {
        "micro_batch": 4, "sequence_length": 4096, "checkpointing": "full", "loss": "fused", "kernels": kernels,
        "attention": "flash",
    }  # fmt: skip
    runtime = {"name": "hf_trainer", "version": "4.48.1"}
    blocks = {"task": "lora", "adapter": {"method": "lora"}, "runtime": runtime, "training": training}
    _, found = cache(400, cases.LLAMA_8B, **blocks)
    backward = found.phase_bytes(Phase.BACKWARD, Layer.ALLOCATED) - logits(found, Phase.BACKWARD)
    assert logits(found, Phase.BACKWARD) > 0
    layers = symbols_of(found)["W"] + found.phase_bytes(Phase.REST, Layer.ALLOCATED)
    assert layers > backward


def test_what_other_moments_need_beyond_the_fullest() -> None:
    def entry(amount: int, category: Category, name: str = "x") -> Entry:
        return Entry(category, name, amount, frozenset({Phase.BACKWARD}), "", (), "")

    head = [entry(30, Category.LOGITS), entry(10, Category.ACTIVATIONS)]
    layer = [entry(25, Category.ACTIVATIONS), entry(9, Category.ACTIVATIONS, "retained_gradients")]
    alone = setup()
    assert hidden_bytes(alone, [layer, head]) == 25 - 10
    assert hidden_bytes(alone, [layer]) == hidden_bytes(alone, []) == 0


def test_of_the_second_fsdp_other_moments_hide_what_is_gathered() -> None:
    def entry(amount: int, category: Category, name: str = "x") -> Entry:
        return Entry(category, name, amount, frozenset({Phase.BACKWARD}), "", (), "")

    head = [entry(90, Category.LOGITS), entry(10, Category.COMMUNICATION)]
    layer = [entry(25, Category.COMMUNICATION), entry(40, Category.COMMUNICATION, "scatter_input")]
    parallel = {"sharding": "fsdp", "sharding_degree": 8}
    titan = setup(runtime={"name": "torchtitan"}, task="pretrain", devices=8, parallel=parallel)
    assert hidden_bytes(titan, [layer, head]) == 25 - 10
    generic = setup(runtime={"name": "generic"}, task="pretrain", devices=8, parallel=parallel)
    assert hidden_bytes(generic, [layer, head]) == 25 + 40 - 10


def test_a_full_card_gives_back_what_is_cached_but_for_pieces() -> None:
    roomy, live = cache(400)
    peak = live.peak(Layer.ALLOCATED)[1]
    tight = live.peak(Layer.PROCESS)[1] - (roomy - math.ceil(0.07 * peak)) // 2
    squeezed, found = cache(tight / GIB)
    assert 0.07 * peak < squeezed < roomy
    assert found.peak()[1] == tight
    assert cache(8)[0] == pytest.approx(0.07 * peak, rel=1e-6)


def test_expandable_segments_share_their_blocks() -> None:
    blocks = {"runtime": {"name": "generic", "allocator": "expandable_segments"}}
    shared, found = cache(400, **blocks)
    assert shared == pytest.approx(0.02 * found.peak(Layer.ALLOCATED)[1], rel=1e-6)


def test_sixteen_bit_logits_that_old_versions_rebind_leave_their_block() -> None:
    def extra(version: str) -> int:
        training = {**STEP, "loss": "fused", "attention": "flash"}
        size, found = cache(400, runtime={"name": "hf_trainer", "version": version}, training=training)
        return size + found.peak(Layer.ALLOCATED)[1] - logits(found, Phase.LOSS)

    tokens, vocabulary = 4096, 128256
    assert extra("4.45.2") - extra("4.47.0") == tokens * vocabulary * 2


def test_a_packed_base_under_fsdp_leaves_a_part_of_what_was_loaded_whole() -> None:
    blocks: dict[str, Any] = {
        "task": "qlora", "devices": 2, "parallel": {"sharding": "fsdp"}, "adapter": {"method": "lora", "base": "nf4"},
    }  # fmt: skip
    for runtime, counted in (("hf_trainer", True), ("torchtune", False)):
        _, found = cache(400, runtime={"name": runtime}, **blocks)
        packed = found.total("quantized_weights")
        assert symbols_of(found)["D"] == (packed if counted else 0)
        assert packed > 0


def test_gradients_made_anew_in_every_step_have_blocks_of_their_own() -> None:
    blocks: dict[str, Any] = {
        "devices": 4, "runtime": {"name": "hf_trainer"}, "parallel": {"sharding": "fsdp"}, "training": {},
    }  # fmt: skip
    _, found = cache(400, **blocks)
    kept = sum(e.bytes for e in found.entries if e.name == "gradients" and Phase.REST in e.phases)
    assert symbols_of(found)["Z"] == kept > 0


def test_batches_of_changing_length_pin_a_block_of_the_logits_on_a_full_card() -> None:
    def pressed(packing: str, runtime: str = "hf_trainer") -> int:
        training = {"micro_batch": 16, "sequence_length": 1024, "checkpointing": "full", "packing": packing}
        blocks: dict[str, Any] = {"runtime": {"name": runtime}, "training": training, **sharded}
        roomy, live = cache(400, cases.LLAMA_8B, **blocks)
        assert roomy > block
        full = live.peak(Layer.PROCESS)[1] - roomy
        return cache(full / GIB, cases.LLAMA_8B, **blocks)[0]

    sharded = {"devices": 4, "parallel": {"sharding": "fsdp"}}
    block = 16 * 1024 * 128256 * 4
    assert pressed("none") == block
    assert pressed("packed") < block
    assert pressed("none", "generic") < block


@pytest.mark.parametrize("runtime", ["generic", "hf_trainer", "torchtune", "litgpt", "megatron_lm"])
def test_rounding_is_always_there(runtime: str) -> None:
    for checkpointing in ("none", "full"):
        training = {"checkpointing": checkpointing, "sequence_length": 1024}
        size, found = cache(400, runtime={"name": runtime}, training=training)
        assert size >= math.ceil(0.02 * found.peak(Layer.ALLOCATED)[1])
