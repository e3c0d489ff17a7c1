"""Techniques that trade memory for passes or hold further models: each with its bytes worked out by hand."""

from typing import Any

import pytest

from planner.ledger import Layer, Ledger, Phase
from planner.training.compile_budget import budget_curve, done_again
from planner.training.zero_bubble import matrix_width, waiting_micro_batches
from planner.units import mib_bytes
from tests.planner.training import cases

PARAMS = 8_030_261_248


def ledger(**blocks: Any) -> Ledger:
    return cases.ledger(cases.LLAMA_8B, **blocks)


def kept(found: Ledger) -> int:
    """What the layers keep until the backward pass."""
    return sum(e.bytes for e in found.entries if e.name == "saved_activations" and Phase.FORWARD in e.phases)


def test_a_zero_bubble_stage_keeps_inputs_and_output_gradients_of_waiting_micro_batches() -> None:
    """Of every layer the inputs of its matrices (shared ones once) and their outputs: 2 bytes an element."""
    blocks: dict[str, Any] = {
        "devices": 4,
        "parallel": {"pipeline": 4, "pipeline_schedule": "zero_bubble"},
        "training": {"gradient_accumulation": 8},
    }
    width = (4096 + 4096 + 4096 + 14336) + (4096 + 1024 + 1024 + 4096) + (14336 + 14336 + 4096)
    found = cases.ledgers(cases.LLAMA_8B, **blocks)
    waiting = [one.total("waiting_gradients") for one in found]
    assert waiting == [stage * 8 * 4096 * width * 2 for stage in range(4)]
    plain = cases.ledgers(cases.LLAMA_8B, **{**blocks, "parallel": {"pipeline": 4}})
    assert [one.total("waiting_gradients") for one in plain] == [0] * 4


def test_no_more_wait_than_there_are() -> None:
    assert [waiting_micro_batches(stage, 4 - stage, 8) for stage in range(4)] == [0, 1, 2, 3]
    assert [waiting_micro_batches(stage, min(4 - stage, 2), 2) for stage in range(4)] == [0, 0, 0, 1]


def test_gpt_has_thirty_two_bytes_a_token_and_hidden_size_to_wait_for() -> None:
    """Table 1 of the paper: 32 s b h for a layer whose feed-forward part is four times as wide, in 16 bit."""
    _, model, _ = cases.shares(cases.GPT2)
    assert 2 * matrix_width(model.layers[0], 1) == 32 * model.hidden_size


def test_a_feed_forward_part_in_pieces_keeps_its_input_alone() -> None:
    whole, cut = ledger(), ledger(training={"sequence_chunks": 8})
    tokens = 4096
    inside = 32 * tokens * 4 * 14336 * 2
    assert kept(whole) - kept(cut) == inside
    assert cut.peak()[1] < whole.peak()[1]
    layers = [one.total("layer_gradients") for one in (cut, ledger(training={"sequence_chunks": 16}))]
    assert layers[1] <= layers[0]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_compilers_budget_lies_between_every_layers_input_and_what_it_keeps_by_itself(share: float) -> None:
    compiled: dict[str, Any] = {"name": "generic", "compile": True}
    own = kept(ledger(runtime=compiled))
    inputs = 32 * 4096 * 4096 * 2
    found = ledger(runtime=compiled, training={"recompute_budget_frac": share})
    assert kept(found) == pytest.approx(inputs + share * (own - inputs), abs=mib_bytes(1))
    assert ledger(training={"recompute_budget_frac": share}).peak() == ledger().peak()


def test_pairs_are_two_rows_and_a_reference_is_a_second_set_of_weights() -> None:
    dpo = ledger(training={"alignment": {"method": "dpo"}})
    assert dpo.total("reference_weights") == 2 * PARAMS
    assert kept(dpo) == kept(ledger(training={"micro_batch": 2}))
    orpo = ledger(training={"alignment": {"method": "orpo"}})
    assert orpo.total("reference_weights") == 0
    lora: dict[str, Any] = {"task": "lora", "adapter": {"method": "lora", "rank": 8}}
    assert ledger(**lora, training={"alignment": {"method": "dpo"}}).total("reference_weights") == 0
    copied = ledger(**lora, training={"alignment": {"method": "dpo", "reference": "copy"}})
    assert copied.total("reference_weights") == 2 * PARAMS


def test_rollouts_lie_between_steps_and_ppo_trains_a_value_model() -> None:
    grpo = ledger(training={"alignment": {"method": "grpo", "generations": 8}})
    cache = 8 * 4096 * 32 * 2 * 8 * 128 * 2
    assert grpo.total("rollout_cache") == cache
    rest = ledger().phase_bytes(Phase.REST, Layer.ALLOCATED)
    assert grpo.phase_bytes(Phase.REST, Layer.ALLOCATED) - rest == cache
    assert grpo.phase_bytes(Phase.LOSS, Layer.ALLOCATED) == ledger().phase_bytes(Phase.LOSS, Layer.ALLOCATED)
    ppo = ledger(training={"alignment": {"method": "ppo"}})
    assert ppo.total("reward_weights") == ppo.total("value_weights") == 2 * PARAMS
    assert ppo.total("value_states") == 2 * 2 * PARAMS


def test_a_reference_is_divided_as_the_weights_are() -> None:
    alone = {"devices": 4, "training": {"alignment": {"method": "dpo"}}}
    assert ledger(**alone, parallel={"sharding": "zero3"}).total("reference_weights") == -(-PARAMS // 4) * 2
    assert ledger(**alone, parallel={"sharding": "zero1"}).total("reference_weights") == 2 * PARAMS


def test_the_budgets_curve_trades_bytes_for_operations() -> None:
    scenario = cases.scenario(cases.LLAMA_8B, runtime={"name": "generic", "compile": True})
    curve = budget_curve(scenario, cases.TABLES, (1.0, 0.5, 0.2, 0.0))
    peaks, again = [p.peak_bytes for p in curve], [p.again_frac for p in curve]
    assert peaks == sorted(peaks, reverse=True)
    assert again == sorted(again)
    assert again[0] == 0
    assert 0 < again[-1] < 1
    assert curve[-1].again_flops == pytest.approx(again[-1] / again[1] * curve[1].again_flops)


def test_the_cheapest_bytes_go_first() -> None:
    """Of 30 bytes, 10 cost nothing, 10 one operation a byte and 10 four: half the budget drops 15."""
    pieces = [(10.0, 40.0), (10.0, 0.0), (10.0, 10.0)]
    assert done_again(pieces, 1.0) == 0
    assert done_again(pieces, 0.5) == 5
    assert done_again(pieces, 0.0) == 50
