"""LitGPT's layers and loop against tensors read off traced steps of litgpt 0.4.13, in bytes."""

from typing import Any

import pytest

from planner.ledger import Ledger, Phase
from tests.planner.training import cases

LLAMA_7B = cases.llama(4096, 32, 32, 32, 11008, 32000)
TINY_LLAMA = cases.llama(2048, 22, 32, 4, 5632, 32000)
T, H, WIDE, V = 1304, 4096, 11008, 32000
LORA = {"method": "lora", "rank": 8, "targets": ["q_proj", "v_proj"], "dropout": 0.05}


def ledger(config: dict[str, Any], **blocks: Any) -> Ledger:
    return cases.ledger(config, runtime={"name": "litgpt", "version": "2024-09"}, **blocks)


def named(found: Ledger, *names: str, phase: Phase = Phase.FORWARD) -> int:
    return sum(e.bytes for e in found.entries if e.name in names and phase in e.phases)


def layer_bytes(config: dict[str, Any], *names: str, **blocks: Any) -> int:
    """What the last of three layers keeps."""
    two, three = (ledger({**config, "num_hidden_layers": n}, **blocks) for n in (2, 3))
    return named(three, *names) - named(two, *names)


def test_a_layer_with_adapters_on_query_and_value() -> None:
    """Fp32 norms, dropped input, spread adapter output, fused product, rotated heads, the MLP's three."""
    got = layer_bytes(
        LLAMA_7B, "saved_activations", task="lora", adapter=LORA, training={"sequence_length": T}
    )
    heads = 3 * H * 2 + 2 * H * 2 + H * 2 + 4 * 32
    assert got == T * (2 * (4 * H + 4) + 2 * H + 2 * 16 + 2 * 2 * H + heads + 3 * WIDE * 2)


def test_all_three_of_query_key_and_value_need_no_spreading() -> None:
    every = {**LORA, "targets": ["q_proj", "k_proj", "v_proj"]}
    training = {"sequence_length": T}
    two = layer_bytes(LLAMA_7B, "saved_activations", task="lora", adapter=LORA, training=training)
    three = layer_bytes(LLAMA_7B, "saved_activations", task="lora", adapter=every, training=training)
    assert two - three == T * (2 * 2 * H - 2 * 8)


def test_full_training_copies_keys_and_values_for_every_head() -> None:
    """TinyLlama, four sequences of 512: rotated heads, the value, the output twice, fp32 norm products."""
    got = layer_bytes(
        TINY_LLAMA, "saved_activations", task="full", training={"micro_batch": 4, "sequence_length": 512}
    )
    h, i, t = 2048, 5632, 2048
    assert got == t * (2 * (4 * h + 4 * h + 2 * h + 4) + 3 * 2 * h + 2 * h + 4 * 32 + 2 * h + 4 * 2 * i)


def test_the_second_adapter_keeps_every_product_before_its_scale() -> None:
    training = {"sequence_length": T}
    first = {"method": "adaption_prompt", "virtual_tokens": 10}
    second = {**first, "method": "adaption_prompt_v2"}
    one = layer_bytes(LLAMA_7B, "saved_activations", task="lora", adapter=first, training=training)
    two = layer_bytes(LLAMA_7B, "saved_activations", task="lora", adapter=second, training=training)
    assert two - one == T * (2 * 4 * H + 2 * (3 * H + H + 2 * WIDE + H))


def test_layers_below_the_first_adapter_keep_nothing() -> None:
    training = {"sequence_length": T}
    some = {"method": "adaption_prompt", "virtual_tokens": 10, "layers": 30}
    every = {**some, "layers": 32}
    got = [
        named(ledger(LLAMA_7B, task="lora", adapter=adapter, training=training), "saved_activations")
        for adapter in (some, every)
    ]
    assert got[0] * 32 == got[1] * 30


def test_logits_are_there_in_both_formats_beside_the_last_steps() -> None:
    found = ledger(LLAMA_7B, task="lora", adapter=LORA, training={"sequence_length": T})
    assert named(found, "logits", "logits_fp32", "kept_logits") == T * V * (2 + 4 + 4)
    assert named(found, "kept_logits", phase=Phase.OPTIMIZER_STEP) == 4 * T * V


@pytest.mark.parametrize(("version", "graphs"), [("2024-09", 2), ("2023-10", 1), ("2025-06", 0)])
def test_inputs_of_packed_products_live_as_long_as_the_loss(version: str, graphs: int) -> None:
    """2023: the longest sample comes first; 2025: bitsandbytes keeps the weight alone."""
    blocks = {"task": "qlora", "training": {"sequence_length": T}}
    packed = {**LORA, "base": "nf4"}
    runtime = {"name": "litgpt", "version": version}
    two, three = (
        cases.ledger({**LLAMA_7B, "num_hidden_layers": n}, runtime=runtime, adapter=packed, **blocks)
        for n in (2, 3)
    )
    names = ("saved_activations", "last_graph")
    plain = layer_bytes(
        LLAMA_7B, "saved_activations", task="lora", adapter=LORA, training={"sequence_length": T}
    )
    got = named(three, *names) - named(two, *names) - plain
    assert got == graphs * T * 2 * (3 * H + WIDE)


def test_whole_gradients_while_a_divided_job_accumulates() -> None:
    """Frozen weights in a flat parameter get gradients as well: two bytes for each weight of the layers."""
    parallel = {"sharding": "fsdp"}
    blocks = {"devices": 4, "parallel": parallel, "task": "lora", "adapter": LORA}
    several = {"sequence_length": 512, "gradient_accumulation": 4, "checkpointing": "full"}
    found = ledger(LLAMA_7B, training=several, **blocks)
    layers = 32 * (4 * H * H + 3 * H * WIDE + 2 * H)
    adapters = 32 * 8 * 2 * 2 * H
    assert named(found, "whole_gradients", phase=Phase.BACKWARD) == 2 * (layers + adapters)
    once = ledger(LLAMA_7B, training={**several, "gradient_accumulation": 1}, **blocks)
    assert named(once, "whole_gradients", phase=Phase.BACKWARD) == 0
    assert named(once, "frozen_gradients", phase=Phase.OPTIMIZER_STEP) == 2 * layers // 4
