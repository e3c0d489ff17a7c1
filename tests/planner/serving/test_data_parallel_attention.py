"""Attention on replicas of their own, experts divided over all of them: DeepSeek-V3 on eight cards."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import plan
from planner.exports.serving_flags import command_for
from planner.plan_types import Plan
from tests.planner.serving.cases import DEEPSEEK_V3, scenario, tables

LOAD = {"concurrency": 256, "prompt_tokens": 4096, "output_tokens": 512}
EXPERTS = 58 * 256 * 3 * 7168 * 2048
SHARED = 58 * 3 * 7168 * 2048
DENSE = 3 * 3 * 7168 * 18432
HEAD = 129280 * 7168
LATENT = 61 * 576 * 2


def served(runtime: str, version: str | None = None, **parallel: Any) -> Plan:
    asked = scenario(
        DEEPSEEK_V3, runtime, gpu="h200-sxm-141gb", count=8, version=version, parallel=dict(parallel),
        workload=LOAD, weights="bf16", max_model_len=32768,
    )  # fmt: skip
    return plan(asked, tables())


def total(answer: Plan, *names: str) -> int:
    return answer.worst.ledger.total(*names)


@pytest.mark.parametrize(
    "parallel", [{"expert": 8}, {"expert_tensor": 8}, {}], ids=["deal", "divide", "default"]
)
def test_vllm_replicas_share_the_experts_and_nothing_else(parallel: dict[str, Any]) -> None:
    answer = served("vllm", data=8, tensor=1, **parallel)
    assert total(answer, "weights_experts") == 2 * EXPERTS // 8
    assert total(answer, "weights_shared_experts") == 2 * SHARED
    assert total(answer, "weights_mlp") == 2 * DENSE
    assert total(answer, "weights_head") == 2 * HEAD


def test_before_replicas_were_one_server_each_held_all_experts() -> None:
    assert total(served("vllm", "0.8.5", data=8, tensor=1), "weights_experts") == 2 * EXPERTS


def test_sglang_divides_the_dense_half_too() -> None:
    answer = served("sglang", data=8, tensor=1, expert=8)
    assert total(answer, "weights_experts") == 2 * EXPERTS // 8
    assert total(answer, "weights_shared_experts") == 2 * SHARED // 8
    assert total(answer, "weights_mlp") == 2 * DENSE // 8
    assert total(answer, "weights_head") == 2 * HEAD // 8
    assert total(answer, "weights_embedding") == 2 * HEAD


def test_the_latent_cache_is_not_repeated() -> None:
    """On eight tensor-parallel ranks every one holds the cache of all sequences; on replicas each its own."""
    together, apart = served("vllm", tensor=8), served("vllm", data=8, tensor=1, expert=8)
    assert total(together, "kv_cache_latent") == 256 * 4608 * LATENT
    assert total(apart, "kv_cache_latent") == 32 * 4608 * LATENT


def test_experts_gather_the_tokens_of_every_replica() -> None:
    """8 x 8192 tokens of 7168 in 16 bit, and the buffers of 32768 of them: 8 x (7168 + 2048) each."""
    entry = next(
        e
        for e in served("vllm", data=8, tensor=1, expert=8).worst.ledger.entries
        if e.name == "activation_peak"
    )
    gathered = 8 * 8192 * 7168 * 2 + 32768 * 8 * (7168 + 2048) * 2
    hidden = round(8192 * dict(entry.symbols)["a"] * 7168 * 2)
    workspace = 65536 * 576 * 2
    assert entry.bytes == pytest.approx(gathered + hidden + workspace, abs=2)


@pytest.mark.parametrize(
    ("runtime", "parallel", "there", "absent"),
    [
        ("sglang", {"data": 8, "expert": 8}, "--tp-size 8 --dp-size 8 --ep-size 8", ""),
        ("sglang", {"data": 2, "tensor": 4}, "--tp-size 4 --dp-size 2", "--enable-dp-attention"),
        ("sglang", {"data": 2, "tensor": 4, "expert": 8}, "--enable-dp-attention", ""),
        ("vllm", {"data": 8, "expert": 8}, "--enable-expert-parallel", "--tensor-parallel-size"),
    ],
)
def test_flags(runtime: str, parallel: dict[str, Any], there: str, absent: str) -> None:
    made = command_for(served(runtime, **parallel))
    assert made is not None
    words = " ".join(made.words)
    assert there in words
    assert not absent or absent not in words
