"""A trial on an eighth of the cards is as full a card as the run's."""

from typing import Any

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.trial import Trial, smaller_division, trial, with_layers
from planner.validation import parse_scenario
from tests.planner.test_elastic import question


def tried(document: dict[str, Any]) -> tuple[Trial, int]:
    """The trial, and bytes of the run's fullest card."""
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    full = plan(scenario, load_tables())
    return trial(full, load_tables()), full.worst.peak_bytes


def test_copies_keep_the_whole_model() -> None:
    found, wanted = tried(question(16, parallel={}))
    assert found.plan is not None
    assert found.layers == found.full_layers == 32
    assert found.plan.resolved.hardware.num_devices == 2
    assert found.plan.worst.peak_bytes == wanted


def test_divided_states_take_fewer_layers_for_the_same_load() -> None:
    found, wanted = tried(question(model={"id": "meta-llama/Llama-2-13b-hf"}))
    assert found.plan is not None
    assert found.plan.resolved.hardware.num_devices == 1
    assert 1 < found.layers < 40
    assert found.plan.worst.peak_bytes == pytest.approx(wanted, rel=0.1)
    for layers in (found.layers - 1, found.layers + 1):
        config = dict(found.document["model"]["config"])
        other, _ = parse_scenario(found.document | {"model": {"config": with_layers(config, layers)}})
        assert other is not None
        away = abs(plan(other, load_tables()).worst.peak_bytes - wanted)
        assert away >= abs(found.plan.worst.peak_bytes - wanted)


def test_a_pipeline_keeps_the_layers_of_a_stage() -> None:
    parallel = {"tensor": 8, "pipeline": 8}
    found, wanted = tried(question(64, parallel=parallel, runtime={"name": "megatron_lm"}))
    assert found.plan is not None
    held = found.plan.resolved.parallel
    assert (held.tensor, held.pipeline, found.plan.resolved.hardware.num_devices) == (8, 1, 8)
    assert found.plan.worst.peak_bytes == pytest.approx(wanted, rel=0.2)


def test_every_degree_of_the_smaller_division_divides_the_cards() -> None:
    for cards in (1, 2, 3, 4, 6, 8, 12, 16):
        for tensor, context, pipeline in ((1, 1, 1), (2, 1, 4), (4, 2, 2), (8, 1, 8), (3, 1, 5)):
            document = question(
                tensor * context * pipeline * 8,
                parallel={"tensor": tensor, "context": context, "pipeline": pipeline},
            )
            scenario, _ = parse_scenario(document)
            assert scenario is not None
            degrees = smaller_division(scenario, cards)
            product = degrees["tensor"] * degrees["context"] * degrees["pipeline"]
            assert cards % product == 0
            assert (
                tensor % degrees["tensor"]
                == context % degrees["context"]
                == pipeline % degrees["pipeline"]
                == 0
            )


def test_what_has_no_trial_says_so() -> None:
    assert tried(question(1, parallel={}))[0].refusal == "one_card"
    mixed = [{"gpu": "a100-sxm-80gb"}, {"gpu": "rtx-3090-24gb"}]
    assert tried(question(hardware={"devices": mixed}, parallel={}))[0].refusal == "unequal_cards"
    assert (
        tried(question(task="serve", runtime={"name": "vllm"}, parallel={}, training={}))[0].refusal
        == "serves"
    )


def test_a_config_is_cut_with_its_lists() -> None:
    config = {"num_hidden_layers": 4, "layer_types": ["a", "b", "a", "b"], "other": [1, 2]}
    assert with_layers(config, 2) == {"num_hidden_layers": 2, "layer_types": ["a", "b"], "other": [1, 2]}
    assert with_layers({"hidden_size": 4}, 2) is None
