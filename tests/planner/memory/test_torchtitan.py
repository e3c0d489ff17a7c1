"""torchtitan's routed experts, graph trainer and pipelines by version, in bytes counted by hand.

What selective checkpointing keeps was compared with a block of such a layer under PyTorch's own
`create_selective_checkpoint_contexts` (torch 2.13): with and without the router's product, with the two exchanges, and
with every product, the differences were these to the byte.
"""

from typing import Any

import pytest

from planner.ledger import Category, Layer, Ledger, Phase
from profiler.allocator.expandable import ExpandableAllocator
from profiler.allocator.settings import AllocatorSettings
from tests.planner.training import cases

T, V, H, ROUTED = 512, 4096, 512, 3
"""Tokens; and of the model: vocabulary, hidden size, layers with routed experts."""
CHOSEN = 4
SPREAD = {"data": 2, "expert": 2, "sharding": "fsdp", "sharding_degree": 2}
ALTERNATE, WITH_ROUTER, EVERY = 96 + 80 + 512 + 256, 96 + 80 + 512 + 256 + 512, 2624
"""Elements a token of every second product of a routed layer, without the router's and with it, and of all products.

In order: query down 96, up 384, key and value down 80, up 512, output 512, router 16, shared expert 256, 256, 512.
"""
STAGES = {"data": 1, "pipeline": 2}
BATCHES = 8


def deepseek(
    version: str | None,
    checkpointing: str = "selective_op",
    *,
    compiled: bool = False,
    parallel: dict[str, Any] = SPREAD,
) -> Ledger:
    runtime = {"name": "torchtitan", "version": version, "compile": compiled}
    step = {"sequence_length": T, "micro_batch": 1, "checkpointing": checkpointing, "attention": "flex"}
    return cases.ledger(cases.DEEPSEEK, devices=2, runtime=runtime, parallel=parallel, training=step)


def kept(found: Ledger) -> int:
    return sum(e.bytes for e in found.entries if e.name == "saved_activations" and e.phases == {Phase.LOSS})


def loss(found: Ledger) -> int:
    return found.category_bytes(Phase.LOSS, Category.LOGITS)


def test_the_routers_product_is_not_counted_from_july_2025_on() -> None:
    before, after = kept(deepseek("2025-06")), kept(deepseek("2025-07"))
    assert before - after == ROUTED * T * 2 * (WITH_ROUTER - ALTERNATE)


def test_both_exchanges_are_kept_from_september_2025_on() -> None:
    before, after = kept(deepseek("2025-08")), kept(deepseek("2025-09"))
    assert after - before == ROUTED * T * 2 * 2 * CHOSEN * H
    assert after == kept(deepseek(None))


def test_without_other_ranks_experts_there_is_no_exchange_to_keep() -> None:
    alone = {**SPREAD, "expert": 1}
    assert kept(deepseek("2025-08", parallel=alone)) == kept(deepseek("2025-09", parallel=alone))


def test_the_graph_trainer_keeps_every_product() -> None:
    plain, graph = kept(deepseek("2026-05")), kept(deepseek("2026-05", compiled=True))
    dense = 96 + 384 + 80 + 512 + 512 + 1024 + 1024 + 512
    alternate = 96 + 80 + 512 + 1024
    assert graph - plain == T * 2 * (ROUTED * (EVERY - ALTERNATE) + dense - alternate)


def test_combining_by_a_product_keeps_its_fp32_output() -> None:
    assert kept(deepseek("2026-03")) - kept(deepseek("2026-04")) == ROUTED * T * 4 * H
    assert kept(deepseek("2025-12")) == kept(deepseek("2026-04"))


def test_the_graph_trainer_runs_the_loss_operator_by_operator() -> None:
    assert loss(deepseek("2026-05", compiled=True)) == 12 * T * V
    assert loss(deepseek("2025-07")) == 12 * T * V


def test_deepseeks_own_configs_compile_the_loss_alone() -> None:
    assert loss(deepseek("2025-08")) == loss(deepseek(None)) == 4 * T * V


def test_the_graph_trainer_gathers_again_only_what_it_makes_again() -> None:
    """Gathered units are activations like others there."""
    whole = {
        kind: deepseek("2026-05", kind, compiled=True).category_bytes(Phase.BACKWARD, Category.COMMUNICATION)
        for kind in ("none", "full")
    }
    step = deepseek("2026-05", "none", compiled=True)
    layers = [
        dict(e.symbols)["k"] for e in step.entries if e.name == "gathered_layers" and Phase.LOSS in e.phases
    ]
    assert whole["none"] > whole["full"]
    assert layers == [4]


def test_ranks_that_cut_the_stream_share_the_routed_tokens() -> None:
    """Experts are not cut where they are spread; each of two tensor ranks sends out half of the tokens."""
    cut = {"data": 1, "tensor": 2, "expert": 2, "sequence": True}
    given = {**cut, "expert_tensor": 2}
    shared, own = (deepseek("2025-10", "none", parallel=p).total("expert_exchange") for p in (cut, given))
    assert own == 2 * shared == 2 * T * CHOSEN * H * 2


@pytest.mark.parametrize(
    ("version", "outputs", "logits"),
    [("2025-04", BATCHES, BATCHES), ("2025-06", 2, BATCHES), ("2025-12", 2, 1), (None, 2, 1)],
)
def test_pipeline_stages_hold_buffers_and_outputs(version: str | None, outputs: int, logits: int) -> None:
    """Buffers for all of eight micro-batches, of which two and one are in flight; the last one's logits to the end."""
    found = cases.ledgers(
        cases.LLAMA_8B,
        devices=2,
        runtime={"name": "torchtitan", "version": version},
        parallel=STAGES,
        training={"sequence_length": T, "checkpointing": "full", "gradient_accumulation": BATCHES},
    )
    stream, first, last = T * 4096 * 2, *found
    assert first.total("received_gradients") == BATCHES * stream
    assert first.total("stage_outputs") == outputs * stream
    assert first.total("received_inputs") == first.total("kept_logits") == last.total("stage_outputs") == 0
    received = [e for e in last.entries if e.name == "received_inputs"]
    assert {
        min(e.phases).value: e.bytes for e in received if Phase.BACKWARD in e.phases or Phase.REST in e.phases
    }
    assert sum(e.bytes for e in received if Phase.REST in e.phases) == BATCHES * stream
    assert sum(e.bytes for e in received if Phase.BACKWARD in e.phases) == (BATCHES - 1) * stream
    held = [e.bytes for e in last.entries if e.name == "kept_logits" and Phase.BACKWARD in e.phases]
    assert held == [logits * T * 128256 * 2]


def test_optimizer_states_settle_around_the_first_gradients() -> None:
    """One stream, expandable segments: what gradients leave between states is too small for the logits.

    So with gradients and logits apart in time, what is reserved is nearer to their sum (`planner.training`'s cache).
    """
    device, mib = ExpandableAllocator(AllocatorSettings(expandable_segments=True)), 2**20
    names = iter(range(100_000))

    def made(*sizes_mib: int) -> list[int]:
        new = [next(names) for _ in sizes_mib]
        for name, size in zip(new, sizes_mib, strict=True):
            device.allocate(name, size * mib)
        return new

    def gone(blocks: list[int]) -> None:
        for block in blocks:
            device.free(block)

    layer, layers = [92, 92, 92, 3, 3], 26
    made(*layer * layers)
    gradients: list[int] = []
    peak = 0
    for step in range(3):
        gone(gradients)
        gradients, inputs = [], made(*[64] * layers)
        loss_tensors = made(6400, 6400, 6400)
        peak = max(peak, device.count.allocated)
        gone(loss_tensors)
        for kept_input in reversed(inputs):
            working = made(*[384] * 9)
            gradients += made(*layer)
            gone([*working, kept_input])
        if not step:
            made(*[size for size in layer * layers for _ in range(2)])
    gradient_bytes = sum(layer) * layers * mib
    assert gradient_bytes / 2 < device.count.reserved - peak < 1.04 * gradient_bytes


def test_the_graph_trainers_cache_is_what_gradients_leave() -> None:
    """No streams of FSDP's own: rounding, and the gradients."""
    runtime = {
        "name": "torchtitan",
        "version": "2026-05",
        "compile": True,
        "allocator": "expandable_segments",
    }
    step = {"sequence_length": T, "micro_batch": 1, "checkpointing": "full", "attention": "flex"}
    found = cases.ledger(cases.DEEPSEEK, devices=2, runtime=runtime, parallel=SPREAD, training=step)
    symbols = dict(next(e for e in found.entries if e.name == "allocator_cache").symbols)
    assert symbols["S"] == sum(
        e.bytes
        for e in found.entries
        if e.category is Category.GRADIENTS and Phase.OPTIMIZER_STEP in e.phases
    )
    assert found.peak(Layer.RESERVED)[1] > found.peak(Layer.ALLOCATED)[1]


def test_weighting_the_experts_outputs_makes_three_tensors_like_them() -> None:
    """Traced on torch 2.13 (CPU): six times the 16-bit outputs beyond what is kept, and a gradient of the stream."""
    wide = {**cases.DEEPSEEK, "moe_intermediate_size": 16, "num_hidden_layers": 1, "first_k_dense_replace": 0}
    runtime = {"name": "torchtitan", "version": "2025-10"}
    step = {"sequence_length": 8 * T, "micro_batch": 1, "checkpointing": "full", "attention": "flex"}
    config = {**wide, "vocab_size": 512}
    found = cases.ledger(config, devices=2, runtime=runtime, parallel={**SPREAD, "expert": 1}, training=step)
    made = sum(e.bytes for e in found.entries if e.name == "layer_gradients" and Phase.BACKWARD in e.phases)
    assert made == 8 * T * (H * 2 + 6 * CHOSEN * H * 2)


def test_the_place_of_dropped_logits_fits_nothing_of_the_loss() -> None:
    """Segments that grow: 16-bit logits, three fp32 tensors like them, and a hole as large as the first."""
    device = ExpandableAllocator(AllocatorSettings(expandable_segments=True))
    logits, peak = 64 * 2**20, 0
    for name, size in enumerate((1, 2, 2)):
        device.allocate(name, size * logits)
    device.free(1)
    device.allocate(3, 2 * logits)
    device.free(0)
    device.allocate(4, 2 * logits)
    peak = device.count.allocated
    assert peak == 6 * logits
    assert 7 * logits <= device.count.reserved < 7.5 * logits


def test_dropped_logits_count_where_the_loss_is_the_fullest_moment() -> None:
    runtime = {"name": "torchtitan", "version": "2025-10"}
    step = {"sequence_length": 8 * T, "micro_batch": 4, "checkpointing": "full"}
    shard = {"data": 2, "sharding": "fsdp", "sharding_degree": 2}
    found, compiled = (
        cases.ledger(
            cases.LLAMA_1B, devices=2, runtime={**runtime, "compile": on}, parallel=shard, training=step
        )
        for on in (False, True)
    )
    cached = [
        dict(e.symbols) for ledger in (found, compiled) for e in ledger.entries if e.name == "allocator_cache"
    ]
    loss = [ledger.phase_bytes(Phase.LOSS, Layer.ALLOCATED) for ledger in (found, compiled)]
    assert [int(one["B"]) - whole for one, whole in zip(cached, loss, strict=True)] == [
        4 * 8 * T * 128256 * 2,
        0,
    ]


def test_its_script_asks_for_expandable_segments() -> None:
    resolved, _, _ = cases.shares(cases.LLAMA_1B, runtime={"name": "torchtitan"})
    assert resolved.runtime.allocator == "expandable_segments"
