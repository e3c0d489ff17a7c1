"""Names of copies stand for the model they were made from, and for no other."""

from __future__ import annotations

import pytest

from hardware_db import load_tables
from planner.model.names import catalog_name, nearest_name
from planner.validation import check, model_for, parse_scenario

KNOWN = tuple(load_tables().models)

COPIES = {
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen2.5-7B-Instruct": "Qwen/Qwen2.5-7B",
    "Qwen/Qwen2.5-72B-Instruct-AWQ": "Qwen/Qwen2.5-72B",
    "NousResearch/Meta-Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "unsloth/Meta-Llama-3.1-8B-bnb-4bit": "meta-llama/Llama-3.1-8B",
    "mistralai/Mistral-7B-Instruct-v0.3": "mistralai/Mistral-7B-v0.3",
    "TheBloke/Llama-2-13B-chat-GPTQ": "meta-llama/Llama-2-13b-hf",
    "google/gemma-3-27b-it": "google/gemma-3-27b-pt",
    "llama-3.1-8b": "meta-llama/Llama-3.1-8B",
    "gpt2-medium": "openai-community/gpt2-medium",
}
OTHERS = (
    "llama3",
    "mistralai/Mistral-7B-Instruct-v0.2",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen2.5-Coder-7B-Instruct",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF",
    "instruct",
    "/",
    "",
)


@pytest.mark.parametrize(("given", "made_from"), COPIES.items())
def test_a_copy_is_known_by_its_name(given: str, made_from: str) -> None:
    assert catalog_name(given, KNOWN) == made_from


@pytest.mark.parametrize("given", OTHERS)
def test_another_model_is_no_copy(given: str) -> None:
    assert catalog_name(given, KNOWN) is None


def test_every_name_of_the_catalogue_stands_for_itself() -> None:
    assert {name: catalog_name(name, KNOWN) for name in KNOWN} == {name: name for name in KNOWN}


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("Qwen/Qwen2.5-Coder-7B-Instruct", "Qwen/Qwen2.5-7B"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B"),
        ("meta-llama/Lama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("llama3", None),
        ("x" * 300, None),
    ],
)
def test_what_is_suggested_is_of_the_size_that_is_named(given: str, near: str | None) -> None:
    assert nearest_name(given, KNOWN) == near


def test_the_plan_of_a_copy_says_what_it_was_taken_for() -> None:
    asked = {
        "version": 1,
        "task": "serve",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
        "hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]},
        "runtime": {"name": "vllm"},
    }
    scenario, issues = parse_scenario(asked)
    assert scenario is not None, issues
    tables = load_tables()
    model = model_for(scenario, tables)
    base = model_for(
        scenario.model_copy(update={"model": scenario.model.model_copy(update={"id": "Qwen/Qwen2.5-7B"})}),
        tables,
    )
    assert model is base
    said = {issue.code: dict(issue.params) for issue in check(scenario, scenario, model, tables)}
    assert said["model_made_from"] == {"given": "Qwen/Qwen2.5-7B-Instruct", "taken": "Qwen/Qwen2.5-7B"}
