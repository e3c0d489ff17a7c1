"""Which settings one real step can run."""

from typing import Any

import pytest

from planner.scenario import Scenario
from profiler.documents import DeviceKind
from profiler.runnable import why_not_runnable
from tests.profiler.scenarios import GPT2, scenario


def fields(document: dict[str, Any], device: DeviceKind = "cpu") -> list[tuple[str, str]]:
    remarks = why_not_runnable(Scenario.model_validate(document), device)
    return [(remark.field, remark.code) for remark in remarks]


def test_a_plain_step_can_run() -> None:
    assert fields(scenario(GPT2)) == []
    assert fields(scenario(GPT2), "cuda") == []


@pytest.mark.parametrize(
    ("changes", "field", "code"),
    [
        ({"runtime.name": "megatron_lm"}, "runtime.name", "runtime_not_measured"),
        ({"runtime.name": "torchtune"}, "runtime.name", "runtime_not_measured"),
        ({"runtime.compile": True}, "runtime.compile", "compile_needs_cuda"),
        ({"parallel.tensor": 2}, "parallel.tensor", "several_devices"),
        ({"parallel.pipeline": 2}, "parallel.pipeline", "several_devices"),
        ({"parallel.context": 2}, "parallel.context", "several_devices"),
        ({"parallel.expert": 2}, "parallel.expert", "several_devices"),
        ({"parallel.data": 8}, "parallel.data", "several_devices"),
        (
            {"parallel.sharding": "fsdp", "parallel.sharding_degree": 8},
            "parallel.sharding",
            "several_devices",
        ),
        ({"hardware.devices": [{"gpu": "unknown", "count": 2}]}, "hardware.devices", "several_devices"),
        ({"parallel.offload.optimizer": "cpu"}, "parallel.offload.optimizer", "offload_not_measured"),
        ({"training.activation_offload": True}, "training.activation_offload", "offload_not_measured"),
        ({"training.precision.parameters": "fp8"}, "training.precision.parameters", "format_not_measured"),
        ({"training.precision.compute": "bf16"}, "training.precision.compute", "compute_needs_autocast"),
        ({"training.precision.master": "bf16"}, "training.precision.master", "master_copy_not_measured"),
        (
            {"training.precision.optimizer": "bf16"},
            "training.precision.optimizer",
            "state_format_not_measured",
        ),
        (
            {"training.precision.gradients": "bf16"},
            "training.precision.gradients",
            "state_format_not_measured",
        ),
        ({"training.precision.fp8": "rowwise"}, "training.precision.fp8", "format_not_measured"),
        ({"training.attention": "flex"}, "training.attention", "attention_not_measured"),
        ({"training.attention": "flash"}, "training.attention", "flash_needs_cuda"),
        ({"training.loss": "fused"}, "training.loss", "loss_not_measured"),
        ({"training.kernels": ["rms_norm"]}, "training.kernels", "kernels_not_measured"),
        (
            {"training.checkpointing": "selective_op", "training.checkpoint_modules": ["moe_act"]},
            "training.checkpoint_modules",
            "checkpointing_not_measured",
        ),
        (
            {"training.checkpointing": "selective_op", "training.checkpoint_reentrant": True},
            "training.checkpoint_reentrant",
            "checkpointing_not_measured",
        ),
        (
            {
                "training.optimizer.in_backward": True,
                "training.precision.compute": "fp16",
                "training.precision.autocast": True,
            },
            "training.optimizer.in_backward",
            "in_backward_scaling",
        ),
        ({"training.optimizer.name": "adamw_8bit"}, "training.optimizer.name", "optimizer_not_measured"),
        ({"training.optimizer.paged": True}, "training.optimizer.paged", "optimizer_not_measured"),
        (
            {"training.optimizer.in_backward": True, "training.gradient_accumulation": 2},
            "training.optimizer.in_backward",
            "in_backward_accumulation",
        ),
        (
            {"training.optimizer.name": "adafactor", "training.optimizer.implementation": "fused"},
            "training.optimizer.implementation",
            "optimizer_not_measured",
        ),
        ({"task": "qlora", "adapter": {"base": "nf4"}}, "task", "quantized_base_not_measured"),
        ({"task": "lora", "adapter": {"base": "int8"}}, "adapter.base", "quantized_base_not_measured"),
        ({"task": "lora", "adapter": {"method": "vera"}}, "adapter.method", "adapter_not_measured"),
        ({"task": "lora", "adapter": {"dtype": "bf16"}}, "adapter.dtype", "adapter_format_not_measured"),
        ({"task": "serve"}, "task", "serving_not_measured"),
        ({"quantization_aware": {"weights": "int8"}}, "quantization_aware", "quantization_not_measured"),
    ],
)
def test_what_cannot_run_names_its_field(changes: dict[str, Any], field: str, code: str) -> None:
    assert fields(scenario(GPT2, **changes)) == [(field, code)]


@pytest.mark.parametrize(
    "changes",
    [
        {"training.packing": "packed"},
        {"training.packing": "padding_free"},
        {"training.loss": "chunked"},
        {"training.loss": "fused_linear"},
        {"training.checkpointing": "every_k", "training.checkpoint_every": 2},
        {"training.checkpointing": "selective_attention"},
        {"training.checkpointing": "selective_op"},
        {"training.checkpointing": "full", "training.checkpoint_reentrant": True},
    ],
)
def test_techniques_that_any_device_can_run(changes: dict[str, Any]) -> None:
    assert fields(scenario(GPT2, **changes)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {
            "training.attention": "flash",
            "training.precision.parameters": "bf16",
            "training.precision.compute": "bf16",
        },
        {"runtime.compile": True},
        {"training.precision.compute": "bf16", "training.precision.autocast": True},
        {"task": "lora", "adapter": {"dtype": "fp32", "base": "bf16"}},
    ],
)
def test_what_cuda_can_run(changes: dict[str, Any]) -> None:
    assert fields(scenario(GPT2, **changes), "cuda") == []
