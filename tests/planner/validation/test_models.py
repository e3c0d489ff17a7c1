"""Models looked up by id or read from a config: what is refused, and where."""

from typing import Any

import pytest

from planner.issues import ScenarioError
from planner.model import model_from_config
from planner.scenario import Scenario
from planner.validation import model_for
from tests.planner.validation.questions import LLAMA, TABLES, document


def test_the_config_decides_over_the_id() -> None:
    scenario = Scenario.model_validate(document(model={"id": "no/such-model", "config": LLAMA}))
    assert model_for(scenario, TABLES).params_total == model_from_config(LLAMA).params_total


def test_an_unknown_id_names_the_closest() -> None:
    scenario = Scenario.model_validate(document(model={"id": "meta-llama/Lama-3.1-8b"}))
    with pytest.raises(ScenarioError) as caught:
        model_for(scenario, TABLES)
    issue = caught.value.issues[0]
    assert (issue.code, issue.field) == ("model_id_unknown", "model.id")
    assert dict(issue.params)["closest"] == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("stable-diffusion-xl", "stabilityai/stable-diffusion-xl-base-1.0"),
        ("runwayml/stable-diffusion-v1-5", "stable-diffusion-v1-5"),
        ("stable-diffusion-3", "stabilityai/stable-diffusion-3-medium"),
    ],
)
def test_a_pipeline_is_meant_by_part_of_its_name(given: str, meant: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        model_for(Scenario.model_validate(document(model={"id": given})), TABLES)
    assert dict(caught.value.issues[0].params)["closest"] == meant


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"model_type": "lama"}, "model_type_unknown", "model.config.model_type"),
        ({"model_type": None}, "config_key_missing", "model.config.model_type"),
        ({"hidden_size": None}, "config_key_missing", "model.config.hidden_size"),
        ({"hidden_size": -1}, "config_value_bad", "model.config.hidden_size"),
        ({"hidden_size": 10**12}, "config_value_bad", "model.config.hidden_size"),
        ({"num_hidden_layers": "80"}, "config_value_bad", "model.config.num_hidden_layers"),
    ],
)
def test_a_config_that_cannot_be_used(change: dict[str, Any], code: str, field: str) -> None:
    config = {key: value for key, value in (LLAMA | change).items() if value is not None}
    scenario = Scenario.model_validate(document(model={"config": config}))
    with pytest.raises(ScenarioError) as caught:
        model_for(scenario, TABLES)
    assert (caught.value.issues[0].code, caught.value.issues[0].field) == (code, field)


def test_no_model_at_all() -> None:
    scenario = Scenario.model_validate(document(model={}))
    with pytest.raises(ScenarioError) as caught:
        model_for(scenario, TABLES)
    assert caught.value.issues[0].code == "model_not_given"


def test_an_unknown_card_is_named_beside_an_unknown_model() -> None:
    asked = document(model={"id": "no/such"}, hardware__devices=[{"gpu": "h100"}])
    with pytest.raises(ScenarioError) as caught:
        model_for(Scenario.model_validate(asked), TABLES)
    assert [issue.code for issue in caught.value.issues] == ["model_id_unknown", "gpu_unknown"]
