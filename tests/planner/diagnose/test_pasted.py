"""Messages as people paste them: cut short, in another program's words, beside a plan that they are not of."""

from __future__ import annotations

import json
from typing import Any

import pytest

import run
from hardware_db import load_tables
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
