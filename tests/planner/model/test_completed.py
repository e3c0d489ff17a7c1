"""A config that lacks what its class needs, completed by the catalog's row of the same id."""

import pytest

from hardware_db import load_tables
from planner.estimate import plan
from planner.model import UnknownArchitecture
from planner.model.completed import joined, left_out, model_of
from planner.model.from_row import config_from_row
from planner.scenario import Scenario

ROWS = load_tables().models
ULTRA = "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1"
FULL = config_from_row(ROWS[ULTRA])
BLOCKS = FULL["block_configs"]


def attention_only() -> dict[str, object]:
    """The config as a GGUF header tells it: the attention of each layer, not its feed-forward half."""
    assert isinstance(BLOCKS, list)
    return FULL | {"block_configs": [{"attention": block["attention"]} for block in BLOCKS]}


def test_the_published_counts_come_out() -> None:
    assert model_of(FULL, ULTRA, ROWS).params_total == 253_401_268_224
    super_49b = "nvidia/Llama-3_3-Nemotron-Super-49B-v1"
    assert model_of(config_from_row(ROWS[super_49b]), super_49b, ROWS).params_total == 49_867_145_216


def test_what_is_left_out_stands_in_the_row() -> None:
    assert left_out(attention_only(), ULTRA) == "block_configs.0.ffn"
    assert model_of(attention_only(), ULTRA, ROWS).layers == model_of(FULL, ULTRA, ROWS).layers


def test_what_is_given_decides() -> None:
    given = attention_only() | {"vocab_size": 1024}
    assert model_of(given, ULTRA, ROWS).vocab_size == 1024


def test_without_such_a_row_nothing_is_guessed() -> None:
    for model_id in (None, "", "no/such-model", "meta-llama/Llama-3.1-8B"):
        with pytest.raises(UnknownArchitecture, match="ffn"):
            model_of(attention_only(), model_id, ROWS)


def test_lists_of_other_lengths_are_not_joined() -> None:
    assert joined({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"y": 3}]}) == {"a": [{"y": 3}]}
    assert joined({"a": [{"x": 1}], "b": 2}, {"a": [{"y": 3}], "b": None}) == {
        "a": [{"x": 1, "y": 3}],
        "b": 2,
    }


def test_the_plan_says_so() -> None:
    def issues(config: dict[str, object]) -> list[tuple[str, object]]:
        document = {
            "version": 1, "task": "serve", "model": {"id": ULTRA, "config": config},
            "hardware": {"devices": [{"gpu": "h100-sxm-80gb", "count": 8}]},
            "runtime": {"name": "vllm"}, "parallel": {"tensor": 8},
        }  # fmt: skip
        found = plan(Scenario.model_validate(document), load_tables()).issues
        return [
            (issue.code, dict(issue.params)["key"]) for issue in found if issue.code == "config_completed"
        ]

    assert issues(attention_only()) == [("config_completed", "block_configs.0.ffn")]
    assert issues(FULL) == []
