"""Operations of layers, and speculative decoding."""

import pytest

from planner.model.from_row import model_from_row
from planner.throughput import flops as fl
from planner.throughput.speculative import expected_tokens, speculative_token_s
from planner.throughput.training_speed import training_speed
from tests.planner.throughput.cases import TABLES, made, training


def test_a_causal_query_sees_half_the_sequence() -> None:
    assert fl.seen_keys(4095, None, causal=True) == 2048
    assert fl.seen_keys(4095, None, causal=False) == 4095


def test_a_window_is_counted_key_by_key() -> None:
    length, window = 50, 8
    by_hand = sum(min(position + 1, window) for position in range(length)) / length
    assert fl.seen_keys(length, window, causal=True) == pytest.approx(by_hand)


def test_full_training_is_six_operations_a_parameter_and_token() -> None:
    plan = made(training(sequence_length=128))
    speed = training_speed(plan, TABLES)
    matrices = plan.model.params_total - plan.model.embedding_params
    assert speed.model_flops / speed.step_tokens == pytest.approx(6 * matrices, rel=0.02)


def test_attention_adds_six_layers_widths_and_lengths() -> None:
    short, long = (training_speed(made(training(sequence_length=s)), TABLES) for s in (1024, 8192))
    per_token = long.model_flops / long.step_tokens - short.model_flops / short.step_tokens
    assert per_token == pytest.approx(6 * 32 * 4096 * (8192 - 1024), rel=0.001)


def test_an_adapter_needs_two_thirds_of_the_products() -> None:
    full = training_speed(made(training(sequence_length=128)), TABLES)
    job = training(sequence_length=128, task="lora") | {"adapter": {"method": "lora", "rank": 8}}
    lora = training_speed(made(job), TABLES)
    assert lora.model_flops / full.model_flops == pytest.approx(2 / 3, rel=0.01)


def test_a_mixture_counts_the_experts_a_token_visits() -> None:
    plan = made(training("mistralai/Mixtral-8x7B-v0.1", cards=16, sequence_length=128))
    speed = training_speed(plan, TABLES)
    active = plan.model.params_active - plan.model.embedding_params
    assert speed.model_flops / speed.step_tokens == pytest.approx(6 * active, rel=0.02)


def test_full_checkpointing_does_a_third_more() -> None:
    job = training(checkpointing="full", sequence_length=128)
    speed = training_speed(made(job), TABLES)
    assert speed.hfu is not None
    assert speed.mfu is not None
    assert speed.hfu / speed.mfu == pytest.approx(4 / 3, rel=0.05)


def test_speculative_decoding_by_hand() -> None:
    assert expected_tokens(0.5, 3) == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert expected_tokens(1.0, 4) == 5
    assert speculative_token_s(0.010, 0.001, 1.0, 4) == pytest.approx((4 * 0.001 + 0.010) / 5)
    with pytest.raises(ValueError, match=r"accepted_frac: 1.5; allowed: 0 to 1"):
        expected_tokens(1.5, 3)


@pytest.mark.parametrize(
    ("model_id", "side", "counted"),
    [
        ("stable-diffusion-v1-5", 64, 0.80327e12),
        ("stabilityai/stable-diffusion-2-1", 96, 2.14911e12),
        ("stabilityai/stable-diffusion-xl-base-1.0", 128, 6.76124e12),
    ],
)
def test_a_u_nets_layers_see_a_quarter_of_the_cells_after_each_halving(
    model_id: str, side: int, counted: float
) -> None:
    """`FlopCounterMode` of PyTorch 2.13.0 over diffusers 0.42.1's class; what is of the text alone is left out here."""
    model = model_from_row(TABLES.pipelines[model_id])
    found = 0.0
    for layer, count in model.distinct_layers():
        load, cells = fl.layer_load(layer, model.hidden_size), side * side * fl.token_share(layer)
        found += count * fl.matrix_flops(cells, load.weights)
        found += count * fl.attention_flops(cells, cells, load.score_width)
    assert found == pytest.approx(counted, rel=0.015)
