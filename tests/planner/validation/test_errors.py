"""Checks across fields that stop a plan."""

from typing import Any

import pytest

from tests.planner.validation.questions import MIXTRAL, errors, found


def test_sizes_that_do_not_multiply_to_the_gpu_count() -> None:
    """SEEDS G13: tensor 8 x pipeline 2 on 8 cards needs 16."""
    issue = errors(parallel={"tensor": 8, "pipeline": 2})["parallel_product"]
    params = dict(issue.params)
    assert issue.field == "parallel.pipeline"
    assert (params["product"], params["devices"], params["tensor"], params["pipeline"]) == (16, 8, 8, 2)
    assert "parallel_product" not in errors(parallel={"tensor": 4, "pipeline": 2})


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"parallel": {"data": 4}}, "parallel_product", "parallel.data"),
        (
            {"parallel": {"tensor": 3}, "hardware__devices__0__count": 3},
            "tensor_splits_heads",
            "parallel.tensor",
        ),
        (
            {"parallel": {"tensor": 16}, "hardware__devices__0__count": 16},
            "tensor_splits_kv_heads",
            "parallel.tensor",
        ),
        (
            {"parallel": {"pipeline": 96}, "hardware__devices__0__count": 96},
            "pipeline_above_layers",
            "parallel.pipeline",
        ),
        ({"parallel": {"virtual_stages": 2}}, "virtual_without_pipeline", "parallel.virtual_stages"),
        (
            {"parallel": {"pipeline": 2, "virtual_stages": 2, "pipeline_schedule": "gpipe"}},
            "virtual_needs_interleaved",
            "parallel.virtual_stages",
        ),
        (
            {"parallel": {"pipeline": 2, "pipeline_layers": [40, 30]}},
            "pipeline_layers_sum",
            "parallel.pipeline_layers",
        ),
        (
            {"parallel": {"pipeline": 2, "pipeline_layers": [80]}},
            "pipeline_layers_count",
            "parallel.pipeline_layers",
        ),
        (
            {"parallel": {"sharding": "zero3", "sharding_degree": 3}},
            "sharding_degree_splits_data",
            "parallel.sharding_degree",
        ),
        (
            {"parallel": {"tensor": 8, "sequence": True}, "training__sequence_length": 4097},
            "sequence_not_divisible",
            "training.sequence_length",
        ),
        ({"hardware__devices__0__gpu": "h100-sxm-80g"}, "gpu_unknown", "hardware.devices.0.gpu"),
        (
            {"hardware__devices__0__memory_bytes": 10, "hardware__devices__0__free_bytes": 11},
            "free_above_memory",
            "hardware.devices.0.free_bytes",
        ),
        ({"task": "lora"}, "adapter_missing", "adapter"),
        ({"task": "lora", "adapter": {"base": "nf4"}}, "adapter_base_quantized", "adapter.base"),
        ({"task": "qlora", "adapter": {"base": "bf16"}}, "adapter_base_not_quantized", "adapter.base"),
        ({"task": "lora", "adapter": {"targets": ["attn_q"]}}, "adapter_targets_none", "adapter.targets"),
        ({"task": "lora", "adapter": {"layers": 81}}, "adapter_layers_above", "adapter.layers"),
        ({"task": "serve", "runtime__name": "torchtune"}, "runtime_cannot_serve", "runtime.name"),
        ({"runtime__name": "vllm"}, "runtime_cannot_train", "runtime.name"),
        (
            {"training": {"gradient_accumulation": 4, "optimizer": {"in_backward": True}}},
            "in_backward_accumulation",
            "training.optimizer.in_backward",
        ),
        ({"parallel": {"data_parallel": "dp", "pipeline": 2}}, "copies_divided", "parallel.pipeline"),
        ({"parallel": {"data_parallel": "dp", "sharding": "fsdp"}}, "copies_divided", "parallel.sharding"),
        (
            {"runtime__name": "deepspeed", "parallel": {"pipeline": 2, "sharding": "zero3"}},
            "zero_with_pipeline",
            "parallel.sharding",
        ),
        (
            {
                "runtime__name": "deepspeed",
                "parallel": {"sharding": "zero2", "offload": {"parameters": "cpu"}},
            },
            "offload_needs_sharding",
            "parallel.offload.parameters",
        ),
        (
            {
                "runtime__name": "megatron_lm",
                "training__checkpointing": "selective_op",
                "training__checkpoint_modules": ["moe_act", "attention"],
            },
            "module_unknown",
            "training.checkpoint_modules",
        ),
        (
            {"task": "serve", "runtime__name": "llama_cpp", "serving__tensor_split": [0, 0]},
            "tensor_split_zero",
            "serving.tensor_split",
        ),
        ({"elastic": {"min_data": 8, "max_data": 2}}, "elastic_range", "elastic.min_data"),
    ],
)
def test_impossible_combinations(changes: dict[str, Any], code: str, field: str) -> None:
    issues = errors(**changes)
    assert code in issues, issues
    assert issues[code].field == field


@pytest.mark.parametrize(
    ("parallel", "code"),
    [
        ({"expert": 3}, "expert_splits_experts"),
        ({"expert": 8, "expert_tensor": 2}, "expert_outside_data"),
    ],
)
def test_expert_groups(parallel: dict[str, Any], code: str) -> None:
    assert code in errors(model__config=dict(MIXTRAL), parallel=parallel)
    assert not errors(model__config=dict(MIXTRAL), parallel={"expert": 8})


def test_stages_laid_out_by_hand() -> None:
    def stages(*rows: tuple[list[int], int]) -> set[str]:
        layout = [{"devices": devices, "layers": layers} for devices, layers in rows]
        return set(errors(parallel={"stages": layout}))

    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6, 7], 40)) == set()
    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6], 40)) == {"stages_devices_missing"}
    assert stages(([0, 1, 2, 3], 40), ([3, 4, 5, 6, 7], 40)) == {"stages_device_twice"}
    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6, 7, 8], 40)) == {"stages_device_outside"}
    assert stages(([0, 1, 2, 3], 40), ([4, 5, 6, 7], 39)) == {"stages_layers_sum"}
    assert stages(([0, 1, 2, 3, 4], 40), ([5, 6, 7], 40)) == {"stage_copies"}


def test_serving_copies_kv_heads_where_training_cannot() -> None:
    changes: dict[str, Any] = {"parallel": {"tensor": 16}, "hardware__devices__0__count": 16}
    assert "tensor_splits_kv_heads" in errors(**changes)
    assert not errors(task="serve", runtime__name="vllm", **changes)


@pytest.mark.parametrize(
    ("runtime", "field", "value"),
    [
        ("llama_cpp", "kv_cache", "fp8"),
        ("llama_cpp", "kv_cache", "q6_0"),
        ("llama_cpp", "weights", "awq4"),
        ("ollama", "kv_cache_v", "q5_1"),
        ("ollama", "weights", "fp8"),
        ("vllm", "kv_cache", "q8_0"),
        ("vllm", "kv_cache_v", "q4_0"),
        ("sglang", "kv_cache", "q4_0"),
        ("transformers", "kv_cache", "fp8"),
        ("tensorrt_llm", "weights", "q4_k_m"),
        ("tgi", "weights", "q8_0"),
    ],
)
def test_a_format_that_the_runtime_lacks_is_refused_by_name(runtime: str, field: str, value: str) -> None:
    asked = {"task": "serve", "runtime__name": runtime, f"serving__{field}": value}
    issue = errors(**asked)["format_not_in_runtime"]
    params = dict(issue.params)
    assert (issue.field, params["given"], params["runtime"]) == (f"serving.{field}", value, runtime)
    assert value not in str(params["allowed"]).split(", ")
    assert "format_not_in_runtime" not in errors(**(asked | {"runtime__name": "generic"}))


@pytest.mark.parametrize(
    ("runtime", "field", "value"),
    [
        ("ik_llama_cpp", "kv_cache", "q6_0"),
        ("llama_cpp", "weights", "mxfp4"),
        ("llama_cpp", "weights", "bf16"),
        ("llama_cpp", "weights", "q4_k_xl"),
        ("vllm", "kv_cache", "fp8"),
        ("vllm", "weights", "awq4"),
        ("tensorrt_llm", "weights", "mxfp4"),
    ],
)
def test_a_format_that_the_runtime_has_is_taken(runtime: str, field: str, value: str) -> None:
    asked = {"task": "serve", "runtime__name": runtime, f"serving__{field}": value}
    assert "format_not_in_runtime" not in errors(**asked)


@pytest.mark.parametrize(("value", "reason"), [("q4_k", "gguf_own_bits"), ("q4_k_m", "gguf_as_16_bit")])
def test_gguf_in_an_engine_that_only_reads_it_is_said(value: str, reason: str) -> None:
    issue = found(task="serve", runtime__name="vllm", serving__weights=value)["not_modelled"]
    assert (issue.field, dict(issue.params)["reason"]) == ("serving.weights", reason)
