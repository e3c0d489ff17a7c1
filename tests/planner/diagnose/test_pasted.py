"""Messages as people paste them: cut short, in another program's words, beside a plan that they are not of."""

from __future__ import annotations

import json
from typing import Any

import pytest

import run
from hardware_db import load_tables
from planner.cli.diagnose import diagnosis_lines
from planner.diagnose import diagnose
from planner.diagnose.causes import Cause
from planner.estimate import plan
from planner.plan_types import Plan
from planner.units import GIB
from planner.validation import parse_scenario

FRAGMENTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB "
    "of which 1.12 GiB is free. Process 12345 has 22.52 GiB memory in use. Of the allocated memory 20.10 GiB is "
    "allocated by PyTorch, and 1.90 GiB is reserved by PyTorch but unallocated."
)


def example(name: str, **training: Any) -> Plan:
    document = json.loads((run.ROOT / "examples" / f"{name}.json").read_text(encoding="utf-8"))
    document["training"] = (
        document.get("training", {}) | training if training else document.get("training", {})
    )
    scenario, issues = parse_scenario(document)
    assert scenario is not None, issues
    return plan(scenario, load_tables())


@pytest.fixture(scope="module")
def flash() -> Plan:
    return example("llama-8b-six-unequal-cards")


def test_scores_are_named_only_where_the_attention_makes_them(flash: Plan) -> None:
    assert flash.resolved.training.attention == "flash"
    assert diagnose(FRAGMENTED, flash).matches == ()
    eager = diagnose(FRAGMENTED, example("llama-8b-six-unequal-cards", attention="eager")).tensor
    assert eager is not None
    assert (eager.name, eager.bytes) == ("attention_scores", 2 * GIB)


def test_a_card_of_another_size_than_the_plans_is_told(flash: Plan) -> None:
    def told(text: str) -> dict[str, Any]:
        return next((dict(r.params) for r in diagnose(text, flash).remarks if r.code == "other_card"), {})

    assert told(FRAGMENTED)["has_bytes"] == round(23.65 * GIB)
    assert told(FRAGMENTED)["gpu"] == "A100 PCIe 40GB"
    assert told(FRAGMENTED.replace("GPU 0", "GPU 1")) == {}, "card 1 of the plan has 24 GB"


def test_free_and_cached_that_would_do_together_are_no_mere_demand() -> None:
    found = diagnose(FRAGMENTED)
    assert found.why.cause is Cause.MIXED
    assert found.fixes[0].code == "expandable_segments"
    assert diagnose(FRAGMENTED.replace("1.90 GiB", "0.60 GiB")).why.cause is Cause.DEMAND
    assert diagnose(FRAGMENTED.replace("1.90 GiB", "2.10 GiB")).why.cause is Cause.FRAGMENTATION


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ncclUnhandledCudaError: Call failed.\nLast error:\nCuda failure 'out of memory'", Cause.CONTEXT_ONLY),
        ("node-a:1:2 [0] enqueue.cc:100 NCCL WARN Cuda failure 2 'out of memory'", Cause.CONTEXT_ONLY),
        ("CUDA out of memory", Cause.DEMAND),
        ("RuntimeError: CUDA out of memory\n", Cause.DEMAND),
        ("训练失败:显存不足", Cause.DEMAND),
        ("Error: model requires more system memory (9.5 GiB) than is available (5.2 GiB)", Cause.HOST_MEMORY),
    ],
)  # fmt: skip
def test_a_message_cut_short_or_of_a_library_is_a_failure_of_memory(text: str, cause: Cause) -> None:
    for given in (text, "step 1 loss 2.0 ok\n" * 10_000 + text):
        found = diagnose(given)
        assert found.failed
        assert found.why.cause is cause


def test_the_figures_of_a_host_too_small_are_read() -> None:
    record = diagnose("Error: model requires more system memory (9.5 GiB) than is available (5.2 GiB)").record
    assert record is not None
    assert (record.bytes("needed"), record.bytes("available")) == (round(9.5 * GIB), round(5.2 * GIB))


def test_a_kill_is_likely_for_memory_and_a_kernels_line_certain() -> None:
    killed, kernel = diagnose("Killed\n"), diagnose("Out of memory: Killed process 77 (python)")
    assert (killed.why.cause, killed.why.certain) == (Cause.HOST_MEMORY, False)
    assert (kernel.why.cause, kernel.why.certain) == (Cause.HOST_MEMORY, True)


def test_a_time_out_of_the_watchdog_is_no_failure_of_memory() -> None:
    late = (
        "[rank3]:[E ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=1233, OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, Timeout(ms)=600000) ran for "
        "600012 milliseconds before timing out.\n"
    )
    found = diagnose(late)
    assert found.why.cause is Cause.TIMED_OUT
    assert found.record is not None
    assert (found.record.rank, found.record.facts) == (3, (("operation", "ALLREDUCE"), ("ran_s", 600)))
    assert [fix.code for fix in found.fixes] == ["read_other_ranks"]
    assert diagnose(FRAGMENTED + "\n" + late).why.cause is Cause.MIXED, "the rank that ran out tells why"


LLAMA_CPP = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
)
VLLM = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (5.21 GiB). Based on the available memory, the estimated "
    "maximum model length is 42640."
)


def codes(text: str, asked: Plan | None = None) -> list[str]:
    return [fix.code for fix in diagnose(text, asked).fixes]


def test_a_servers_message_gets_no_advice_on_training(flash: Plan) -> None:
    found = diagnose(LLAMA_CPP, flash)
    assert [fix.code for fix in found.fixes[:3]] == ["shorter_context", "kv_cache_q8_0", "fewer_gpu_layers"]
    assert (found.matches, found.vain) == ((), ())
    assert {"lora", "fused_loss", "half_sequence", "adam_8bit"}.isdisjoint(codes(LLAMA_CPP, flash))
    assert {"lora", "fused_loss", "half_sequence", "adam_8bit"} & set(codes("CUDA out of memory", flash))


def test_each_server_gets_the_formats_it_has() -> None:
    others = {"kv_fp8", "weights_fp8", "weights_awq4", "double_cards"}
    for plan_ in (None, example("qwen3-30b-a3b-llama-cpp-rtx4090")):
        assert others.isdisjoint(codes(LLAMA_CPP, plan_))
        assert {"kv_q8_0", "kv_cache_q8_0"} & set(codes(LLAMA_CPP, plan_))
    for plan_ in (None, example("llama-3.1-70b-vllm-4xh100")):
        assert "kv_fp8" in codes(VLLM, plan_)
        assert not [code for code in codes(VLLM, plan_) if "q8_0" in code or "q4_k_m" in code]


def test_half_of_the_context_is_said_only_where_it_is_short_enough() -> None:
    assert codes(VLLM)[0] == "shorter_context"
    assert codes(VLLM.replace("42640", "65536"))[0] == "half_context"


def test_the_terminal_says_what_a_server_needs_and_has() -> None:
    lines = "\n".join(diagnosis_lines(diagnose(VLLM)))
    assert "Needed: 16.00GiB; available: 5.21GiB." in lines
    assert "131,072" in lines
    assert "42,640" in lines
