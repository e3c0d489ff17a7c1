"""From a plan to a request."""

import json

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.plan_types import Plan
from planner.scenario import Scenario
from profiler.compare import NOT_ON_CPU
from profiler.plan_request import CHILD_BYTES, prepare
from tests.profiler.scenarios import GPT2, LLAMA, scenario


def made(**changes: object) -> Plan:
    return plan(Scenario.model_validate(scenario(GPT2, **changes)), load_tables())


def test_everything_a_start_needs() -> None:
    prepared = prepare(made(), "cpu", 10**12)
    assert prepared.config == GPT2
    assert prepared.scenario["training"]["loss"] == "standard"  # a default filled in
    assert Scenario.model_validate_json(json.dumps(prepared.scenario)).training.loss == "standard"
    assert (prepared.refused, prepared.too_large) == ((), None)
    assert prepared.needed_bytes == prepared.predicted_bytes + CHILD_BYTES


def test_cpu_does_not_count_what_only_cuda_has() -> None:
    ledger = made().worst.ledger
    most = max(
        sum(e.bytes for e in ledger.alive(phase) if e.layer == "allocated" and e.name not in NOT_ON_CPU)
        for phase in ledger.phases
    )
    assert prepare(made(), "cpu", None).predicted_bytes == most
    assert prepare(made(), "cuda", None).predicted_bytes > most


@pytest.mark.parametrize(("spare", "refused"), [(0, False), (-1, True)])
def test_too_little_host_memory_is_refused(spare: int, refused: bool) -> None:
    needed = prepare(made(), "cpu", None).needed_bytes
    remark = prepare(made(), "cpu", needed + spare).too_large
    assert (remark is not None) == refused
    if remark is not None:
        assert remark.code == "will_not_fit"
        assert remark.params["needed_bytes"] == needed
        assert remark.params["free_bytes"] == needed - 1


def test_unknown_free_memory_refuses_nothing_on_cpu() -> None:
    assert prepare(made(), "cpu", None).too_large is None


def test_a_card_that_is_too_small_is_refused() -> None:
    small = {"hardware.devices": [{"gpu": "generic-1gb", "memory_bytes": 30_000_000}]}
    assert prepare(made(**small), "cuda", 30_000_000).too_large is not None


def test_fields_that_cannot_run_are_passed_on() -> None:
    prepared = prepare(made(**{"runtime.name": "torchtune"}), "cpu", None)
    assert "runtime.name" in [remark.field for remark in prepared.refused]


def test_a_catalog_model_gets_its_config() -> None:
    document = scenario(LLAMA) | {"model": {"id": "openai-community/gpt2"}}
    try:
        answer = plan(Scenario.model_validate(document), load_tables())
    except ValueError:
        pytest.fail("the catalog lacks openai-community/gpt2")
    prepared = prepare(answer, "cpu", None)
    assert prepared.config["model_type"] == "gpt2"
    assert prepared.scenario["model"] == {"id": "openai-community/gpt2"}
