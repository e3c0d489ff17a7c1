"""Every config of a published measurement is described, or refused for a reason that is known."""

from collections import Counter

import pytest

from planner.model import ModelSpec, UnknownArchitecture, linears, model_from_config
from tests.planner.model.samples import ROOT, read_lines

FILES = ("training", "training_fits", "serving", "serving_fits", "speed")
REFUSED = {
    # The records tell the attention of each block and not the MLP.
    ("serving", "nemotron-nas", "missing_key", "block_configs.0.ffn"): 4,
}
APPROXIMATE = {
    ("serving", "gemma4", ("vision_tower_not_counted",)): 1,
    ("serving", "moondream1", ("vision_tower_not_counted",)): 1,
}


def _configs(name: str) -> list[dict[str, object]]:
    records = read_lines(ROOT / "tests" / "data" / "truth" / f"{name}.jsonl")
    found = []
    for record in records:
        scenario = record["scenario"]
        assert isinstance(scenario, dict)
        config = scenario["model"].get("config")
        if config is not None:
            found.append(config)
    return found


def test_every_config_is_built_or_refused_for_a_known_reason() -> None:
    refused: Counter[tuple[str, str, str, str]] = Counter()
    approximate: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    built = 0
    for name in FILES:
        for config in _configs(name):
            try:
                spec = model_from_config(config)
            except UnknownArchitecture as problem:
                refused[name, problem.model_type, problem.reason, problem.key] += 1
                continue
            built += 1
            if spec.approximate:
                approximate[name, spec.model_type, spec.approximate] += 1
    assert dict(refused) == REFUSED
    assert dict(approximate) == APPROXIMATE
    assert built > 1100


DEEPSEEK_GGUF = 672_050_000_000
"""Printed for files of DeepSeek-V3 that hold MLA's `kv_b_proj` a second time, cut in two."""


def _expected(spec: ModelSpec, printed: float) -> int:
    again = 0
    if printed == DEEPSEEK_GGUF:
        again = sum(linear.params for _, linear in linears(spec) if linear.name == "kv_b_proj")
    return spec.params_total + again


def test_published_parameter_counts() -> None:
    """Where an engine prints the model's parameters, ours are the same to the digits printed."""
    checked = 0
    for record in read_lines(ROOT / "tests" / "data" / "truth" / "serving.jsonl"):
        scenario, observed = record["scenario"], record["observed"]
        assert isinstance(scenario, dict)
        assert isinstance(observed, dict)
        config, printed = scenario["model"].get("config"), observed.get("parameters")
        if config is None or printed is None:
            continue
        try:
            spec = model_from_config(config)
        except UnknownArchitecture:
            continue
        assert _expected(spec, printed) == pytest.approx(printed, rel=4e-4), record["id"]
        checked += 1
    assert checked >= 20
