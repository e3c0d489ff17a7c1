"""SkyPilot rents machines with one kind of card."""

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.exports.skypilot import skypilot
from planner.exports.types import ExportRefusedError
from planner.validation import parse_scenario


def test_several_kinds_of_card_are_named_however_many_rows_they_are_in() -> None:
    rows = [{"gpu": "rtx-4090-24gb"}, {"gpu": "a100-pcie-40gb"}, {"gpu": "rtx-4090-24gb", "count": 2}]
    document = {
        "version": 1,
        "task": "full",
        "model": {"id": "meta-llama/Llama-3.1-8B"},
        "hardware": {"devices": rows},
    }
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    with pytest.raises(ExportRefusedError) as refusal:
        skypilot(plan(scenario, load_tables()), None)
    assert refusal.value.code == "kinds"
    assert refusal.value.given == "rtx-4090-24gb, a100-pcie-40gb"
    one_kind = scenario.model_copy(
        update={"hardware": scenario.hardware.model_copy(update={"devices": scenario.hardware.devices[::2]})}
    )
    with pytest.raises(ExportRefusedError) as refusal:
        skypilot(plan(one_kind, load_tables()), None)
    assert refusal.value.code == "offer"
