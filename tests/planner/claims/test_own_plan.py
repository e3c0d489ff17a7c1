"""Rules of thumb on the open plan (SEEDS A7, G2, G3, G5-G11, G24, G27, G33)."""

import json
from functools import cache

import pytest

import run
from hardware_db import load_tables
from planner.claims.own_plan import Rule, rules
from planner.estimate import plan
from planner.units import GB
from planner.validation import parse_scenario

TABLES = load_tables()
EXAMPLES = sorted(path.stem for path in (run.ROOT / "examples").glob("*.json"))


@cache
def found(example: str) -> dict[str, Rule]:
    scenario, issues = parse_scenario(
        json.loads((run.ROOT / "examples" / f"{example}.json").read_text(encoding="utf-8"))
    )
    assert scenario is not None, issues
    return {rule.figure.name: rule for rule in rules(plan(scenario, TABLES), TABLES)}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_has_rules_with_figures(example: str) -> None:
    told = found(example)
    assert "margin" in told
    assert len(told) >= 3
    for rule in told.values():
        assert rule.figure.said is not None
        assert rule.figure.found >= 0


def test_a7_a_fifth_kept_free_leaves_64_gb_of_80() -> None:
    figure = found("llama-3.1-8b-full-8xh100")["margin"].figure
    assert figure.said == 64 * GB
    assert 78 * GB < figure.found < 82 * GB


def test_g2_the_plan_keeps_sixteen_bytes_a_parameter_in_fp32() -> None:
    told = found("llama-7b-full-four-3090")
    assert told["states_16"].figure.error_frac == pytest.approx(0)
    assert told["states_12"].figure.error_frac == pytest.approx(-0.25)


def test_g7_a_tenth_of_the_weights_is_no_measure() -> None:
    off = [
        found(example)["activations_tenth"].figure.error_frac or 0
        for example in EXAMPLES
        if "activations_tenth" in found(example)
    ]
    assert min(off) < -0.5
    assert max(off) > 1


def test_g5_and_g6_twice_the_load() -> None:
    told = found("llama-3.1-8b-full-8xh100")
    assert told["batch_doubled"].figure.found == pytest.approx(2, abs=0.01)
    assert told["sequence_doubled"].figure.found == pytest.approx(2, abs=0.01)
    eager = found("llama-7b-full-four-3090")["sequence_doubled"].figure
    assert 2.2 < eager.found < 4


def test_g27_live_parameters_are_left_out_of_the_rule() -> None:
    figure = found("llama-7b-full-four-3090")["zero3_card"].figure
    assert (figure.error_frac or 0) < -0.5


def test_g8_eight_kv_heads_of_64() -> None:
    assert found("llama-3.1-70b-vllm-4xh100")["kv_cache"].figure.error_frac == pytest.approx(7)


def test_g24_four_bits_save_less_than_three_quarters() -> None:
    assert 0.65 < found("llama-70b-awq-two-l40s")["four_bits_save"].figure.found < 0.75


def test_a_rule_whose_other_half_is_no_question_is_left_out() -> None:
    assert "sequence_doubled" not in found("gpt3-175b-megatron-64xa100")
