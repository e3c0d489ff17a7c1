"""The sequences of a step that a question itself tells."""

from typing import Any

import pytest

from planner.search.step import step_sequences
from planner.validation import parse_scenario

BASE = {
    "version": 1,
    "task": "full",
    "model": {"id": "meta-llama/Llama-3.1-8B"},
    "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
    "runtime": {"name": "torchtitan"},
}
STAGES = [{"devices": [0, 1], "layers": 20}, {"devices": [2, 3], "layers": 12}]


@pytest.mark.parametrize(
    ("blocks", "sequences"),
    [
        ({}, None),
        ({"training": {"sequence_length": 2048}}, None),
        ({"training": {"micro_batch": 1}}, 8),
        ({"training": {"gradient_accumulation": 4}, "parallel": {"data": 8}}, 32),
        ({"training": {"micro_batch": 3, "gradient_accumulation": 2}, "parallel": {"tensor": 4}}, 12),
        ({"training": {"micro_batch": 1}, "parallel": {"tensor": 2, "pipeline": 2, "context": 2}}, 1),
        (
            {
                "training": {"micro_batch": 2},
                "parallel": {"stages": STAGES},
                "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 4}]},
            },
            4,
        ),
    ],
)
def test_the_question_tells_its_step(blocks: dict[str, Any], sequences: int | None) -> None:
    scenario, issues = parse_scenario(BASE | blocks)
    assert scenario is not None, issues
    assert step_sequences(scenario) == sequences
