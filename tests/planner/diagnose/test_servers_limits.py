"""Servers that run out in weights or in warm-up, and memory that is not the card's."""

from __future__ import annotations

import json

import pytest

import run
from hardware_db import load_tables
from planner.diagnose import Diagnosis, diagnose
from planner.diagnose.causes import Cause
from planner.estimate import plan
from planner.plan_types import Plan
from planner.units import GIB
from planner.validation import parse_scenario

WARM_UP = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
)
TRITON = (
    "E0501 12:00:00.000000 139 model_lifecycle.cc:638] failed to load 'llama' version 1: Internal: unable to allocate "
    "memory: CUDA out of memory"
)
TRTLLM = (
    "[TensorRT-LLM][ERROR] Encountered an error in forwardAsync function: [TensorRT-LLM][ERROR] CUDA runtime error in "
    "::cudaMallocAsync(ptr, n, mMemPool->getPool(), mCudaStream->get()): out of memory"
)
WEIGHTS = """load_tensors: loading model tensors, this can take a while... (mmap = true)
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 39979.48 MiB on device 0: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA0 buffer of size 41921529856
llama_model_load: error loading model: unable to allocate CUDA0 buffer
common_init_from_params: failed to load model 'llama-3-70b-q4_k_m.gguf'
"""
DISPATCHED = (
    "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM to fit the "
    "quantized model."
)
WORKER = (
    "RuntimeError: DataLoader worker (pid 4093) is killed by signal: Bus error. It is possible that dataloader's "
    "workers are out of shared memory. Please try to raise your shared memory limit."
)
KERNEL = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. "
    "Reducing block sizes or `num_stages` may help."
)
DEEPSPEED = """[rank3]: RuntimeError: CUDA error: out of memory
[INFO] [utils.py:791:see_memory_usage] MA 30.52 GB         Max_MA 45.10 GB         CA 61.2 GB         Max_CA 61 GB
"""
TRAINS = {"lora", "qlora", "half_micro_batch", "checkpointing", "fused_loss", "adam_8bit", "half_sequence"}


def example(name: str) -> Plan:
    document = json.loads((run.ROOT / "examples" / f"{name}.json").read_text(encoding="utf-8"))
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, load_tables())


def codes(found: Diagnosis) -> list[str]:
    return [fix.code for fix in found.fixes]


@pytest.mark.parametrize(
    ("text", "cause", "first"),
    [
        (WARM_UP, Cause.WARM_UP, "fewer_sequences"),
        (TRITON, Cause.DEMAND, "fewer_instances"),
        (TRTLLM, Cause.DEMAND, "leave_room"),
        (WEIGHTS, Cause.DEMAND, "fewer_gpu_layers"),
        (DISPATCHED, Cause.DISPATCHED, "look_at_card"),
        (WORKER, Cause.WORKERS_SHARED_MEMORY, "raise_shm"),
        (KERNEL, Cause.KERNEL_SHARED_MEMORY, "smaller_kernel_blocks"),
    ],
)
def test_each_is_named_and_gets_fixes_of_its_own(text: str, cause: Cause, first: str) -> None:
    trained = example("llama-3.1-8b-full-8xh100")
    for given in (text, "step 1 loss 2.0 ok\n" * 10_000 + text):
        for asked in (None, trained):
            found = diagnose(given, asked)
            assert (found.failed, found.why.cause) == (True, cause)
            assert codes(found)[0] == first
            assert TRAINS.isdisjoint(codes(found))
            assert found.matches == ()


def test_weights_that_do_not_fit_have_nothing_to_do_with_the_context() -> None:
    never = {
        "shorter_context",
        "half_context",
        "kv_cache_q8_0",
        "kv_q8_0",
        "half_concurrency",
        "weights_q4_k_m",
    }
    for asked in (None, *map(example, ("qwen3-30b-a3b-llama-cpp-rtx4090", "llama-3.1-70b-vllm-4xh100"))):
        found = diagnose(WEIGHTS, asked)
        assert never.isdisjoint(codes(found))
        assert "fewer_gpu_layers" in codes(found)
    wide = WEIGHTS.replace("q4_k_m", "q8_0")
    assert "weights_q4_k_m" in codes(diagnose(wide))
    assert "weights_q8_0" not in codes(diagnose(wide))


def test_another_runs_plan_lends_no_figures() -> None:
    other = diagnose(WEIGHTS, example("qwen3-30b-a3b-llama-cpp-rtx4090"))
    assert [fix.change for fix in other.fixes] == [""] * len(other.fixes)
    told = [remark for remark in other.remarks if remark.code == "message_of_other_run"]
    assert [dict(remark.params)["file"] for remark in told] == ["llama-3-70b-q4_k_m.gguf"]
    same = WEIGHTS.replace("llama-3-70b-q4_k_m", "Qwen3-30B-A3B-Q8_0")
    own = diagnose(same, example("qwen3-30b-a3b-llama-cpp-rtx4090"))
    assert "weights_q4_k_m" in {fix.change for fix in own.fixes}
    assert "message_of_other_run" not in {remark.code for remark in own.remarks}


def test_a_memory_line_beside_a_message_without_figures_is_told() -> None:
    found = diagnose(DEEPSPEED)
    (remark,) = [remark for remark in found.remarks if remark.code == "memory_line"]
    assert dict(remark.params)["line"] == 2
    assert dict(remark.params)["allocated_bytes"] == round(30.52 * GIB)


def test_a_cache_that_does_not_fit_is_no_lack_of_room_for_weights() -> None:
    text = WEIGHTS.split("llama_model_load", maxsplit=1)[0] + (
        "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
    )
    found = diagnose(text)
    assert (found.phase, codes(found)[0]) == ("kv_cache", "shorter_context")
