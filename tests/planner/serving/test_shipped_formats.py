"""Catalogue models that ship quantized are served in the format they ship in."""

import json
from typing import Any

import pytest

from planner.estimate import plan
from planner.memory.weight_formats import declared_format, engine_format, served_experts
from planner.model import model_from_config
from planner.model.from_row import config_from_row
from planner.plan_types import Plan, Verdict
from planner.scenario import Scenario
from planner.units import GIB
from tests.planner.model.samples import catalogue
from tests.planner.serving.cases import Config, llama, scenario, tables

SHIPPED = {
    "deepseek-ai/DeepSeek-V3": "fp8",
    "deepseek-ai/DeepSeek-R1": "fp8",
    "deepseek-ai/DeepSeek-V3.2": "fp8",
    "deepseek-ai/DeepSeek-V4-Flash": "fp8",
    "deepseek-ai/DeepSeek-V4-Pro": "fp8",
    "deepseek-ai/DeepSeek-V4.1-Flash": "fp8",
    "moonshotai/Kimi-K2-Instruct": "fp8",
    "moonshotai/Kimi-K2.5": "int4",
    "moonshotai/Kimi-K3": "mxfp4",
    "openai/gpt-oss-20b": "mxfp4",
    "openai/gpt-oss-120b": "mxfp4",
    "MiniMaxAI/MiniMax-M2.5": "fp8",
    "MiniMaxAI/MiniMax-M2.7": "fp8",
    "XiaomiMiMo/MiMo-V2-Flash": "fp8",
}

ROWS: list[dict[str, Any]] = [dict(row) for row in catalogue() if row["kind"] == "model"]


def served(model: str, gpu: str, count: int = 1, runtime: str = "vllm", **serving: Any) -> Plan:
    """The plan of a catalogue model with `count` tensor ranks."""
    asked = scenario({}, runtime, gpu=gpu, count=count, parallel={"tensor": count}, **serving)
    named = asked.model.model_copy(update={"id": model, "config": None})
    return plan(asked.model_copy(update={"model": named}), tables())


def weights_gib(found: Plan) -> float:
    ledger = found.devices[0].ledger
    return sum(e.bytes for e in ledger.entries if e.name.startswith("weights_")) / GIB


def test_rows_name_what_their_files_say() -> None:
    rows = [row for row in ROWS if (row.get("extra") or {}).get("quantization_config")]
    assert {row["id"] for row in rows} == set(SHIPPED)
    assert all(f"{row['id'].replace('/', '--')}_config.json" in row["source"] for row in rows)


@pytest.mark.parametrize("runtime", ["vllm", "sglang", "tensorrt_llm", "tgi", "transformers"])
@pytest.mark.parametrize("model", SHIPPED)
def test_served_as_shipped(model: str, runtime: str) -> None:
    found = served(model, "b200-sxm-180gb", 8, runtime, max_model_len=4096)
    assert found.resolved.serving.weights == SHIPPED[model]


@pytest.mark.parametrize(
    ("model", "gpu", "count", "low", "high"),
    [
        ("deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", 8, 78, 82),
        ("openai/gpt-oss-120b", "h100-sxm-80gb", 1, 60, 66),
        ("openai/gpt-oss-20b", "rtx-5080-16gb", 1, 12, 14),
        ("deepseek-ai/DeepSeek-V4-Flash", "h200-sxm-141gb", 4, 36, 41),
        ("moonshotai/Kimi-K2.5", "h200-sxm-141gb", 8, 66, 75),
    ],
)
def test_weights_of_a_card(model: str, gpu: str, count: int, low: float, high: float) -> None:
    found = served(model, gpu, count, max_model_len=8192)
    assert low < weights_gib(found) < high
    if count == 8 or "120b" in model:
        assert found.verdict is not Verdict.DOES_NOT_FIT


def test_given_weights_hold_for_experts_too() -> None:
    given = served("deepseek-ai/DeepSeek-V4-Flash", "h200-sxm-141gb", 8, weights="bf16", max_model_len=4096)
    kinds = {e.name for e in given.devices[0].ledger.entries if e.name.startswith("weights_")}
    assert "weights_experts" in kinds
    assert weights_gib(given) > 60


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("runtime", ["vllm", "sglang", "tgi"])
def test_a_token_takes_no_more_of_the_pool_than_its_price(model: str, runtime: str) -> None:
    answer = served(model, "b200-sxm-180gb", 8, runtime).serving
    assert answer is not None
    mean = answer.kv_pool_bytes / answer.kv_tokens
    assert 0 < mean <= answer.kv_bytes_per_token * 1.001
    windowed = "gpt-oss" in model and runtime == "vllm"
    assert (mean < 0.9 * answer.kv_bytes_per_token) is windowed


def packed(**weights: Any) -> Config:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ({"type": "int", "num_bits": 4, "group_size": 32}, "int4"),
        ({"type": "int", "num_bits": 8}, "int8"),
        ({"type": "float", "num_bits": 8}, "fp8"),
        ({"type": "float", "num_bits": 4, "group_size": 16}, "nvfp4"),
        ({"type": "float", "num_bits": 4, "group_size": 32}, "mxfp4"),
        ({"type": "float", "num_bits": 3}, None),
        ({}, None),
    ],
)
def test_compressed_tensors(stored: Config, name: str | None) -> None:
    assert declared_format(model_from_config(llama(quantization_config=packed(**stored)))) == name


def test_compressed_tensors_states_group_and_reach() -> None:
    config = packed(type="int", num_bits=4, group_size=32, symmetric=True)
    whole = engine_format("int4", model_from_config(llama(quantization_config=config)))
    assert whole is not None
    assert (whole.elements, whole.bytes, whole.experts_only) == (32, 18, False)
    config["ignore"] = ["lm_head", "re:.*self_attn.*"]
    part = engine_format("int4", model_from_config(llama(quantization_config=config)))
    assert part is not None
    assert part.experts_only


def test_experts_of_their_own_format_only_as_declared() -> None:
    config = llama(quantization_config={"quant_method": "fp8"}, expert_dtype="fp4")
    model = model_from_config(config)
    assert served_experts("fp8", model) == "mxfp4"
    assert served_experts("bf16", model) is None
    assert served_experts("fp8", model_from_config(llama(expert_dtype="fp8"))) is None


@pytest.mark.parametrize("model", ["openai/gpt-oss-20b", "moonshotai/Kimi-K2.5"])
def test_training_does_not_change(model: str) -> None:
    row = next(r for r in ROWS if r["id"] == model)
    extra = {key: value for key, value in row["extra"].items() if key != "quantization_config"}
    peaks = []
    for config in (config_from_row(row), config_from_row({**row, "extra": extra})):
        document = {
            "version": 1, "task": "full", "model": {"config": config}, "runtime": {"name": "hf_trainer"},
            "hardware": {"devices": [{"gpu": "h200-sxm-141gb", "count": 1}]},
        }  # fmt: skip
        peaks.append(plan(Scenario.model_validate_json(json.dumps(document)), tables()).worst.peak_bytes)
    assert peaks[0] == peaks[1] > 2 * row["params_total"]
