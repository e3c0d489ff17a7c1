"""A common beginning of the prompts lowers the peak of engines that hold it once, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from planner.estimate import plan
from planner.plan_types import Plan
from planner.requests.sharing import common_beginning
from planner.sweep import sweep
from tests.planner.serving.cases import gpt_oss, llama, scenario, tables

TOKEN = 2 * 32 * 8 * 128 * 2
LOAD = {"concurrency": 64, "prompt_tokens": 1024, "output_tokens": 256}


def served(runtime: str = "vllm", *, config: Any = None, shared: int = 1000, **load: Any) -> Plan:
    workload = LOAD | load | ({"shared_prefix_tokens": shared} if shared else {})
    asked = scenario(config or llama(), runtime, workload=workload, max_model_len=2048)
    return plan(asked, tables())


@pytest.mark.parametrize("hit", [1.0, 0.5, 0.01])
def test_vllm_holds_whole_blocks_of_it_once(hit: float) -> None:
    blocks = common_beginning(
        prefix_tokens=1000, request_tokens=1280, requests=64, hit_frac=hit, block_tokens=16
    )
    assert served(prefix_hit_frac=hit).worst.ledger.total("kv_cache") == blocks.shared * 16 * TOKEN


def test_sglang_shares_to_the_token() -> None:
    assert served("sglang").worst.ledger.total("kv_cache") == (64 * 1280 - 63 * 1000) * TOKEN


@pytest.mark.parametrize("runtime", ["transformers", "mlc_llm", "llama_cpp"])
def test_other_engines_hold_it_for_every_sequence(runtime: str) -> None:
    shared, apart = served(runtime), served(runtime, shared=0)
    assert shared.worst.peak_bytes == apart.worst.peak_bytes
    assert "requests_only" in [issue.code for issue in shared.issues]


def test_nothing_is_shared_where_the_cache_is_off() -> None:
    off = plan(
        scenario(
            llama(), workload=LOAD | {"shared_prefix_tokens": 1000}, max_model_len=2048, prefix_caching=False
        ),
        tables(),
    )
    assert off.worst.peak_bytes == served(shared=0).worst.peak_bytes


def test_as_many_more_sequences_fit() -> None:
    """N sequences that fit need just the pool: the beginning once, the rest of each N times."""
    answer = served().serving
    assert answer is not None
    blocks = 62 + answer.concurrency * (80 - 62)
    assert blocks == pytest.approx(answer.kv_blocks, rel=1e-9)


def test_windows_are_not_shared() -> None:
    """Of gpt-oss's two groups the full one is shared, the windowed one is not."""
    apart = served(config=gpt_oss(24, 32), shared=0).worst.ledger
    shared = served(config=gpt_oss(24, 32)).worst.ledger
    assert apart.total("kv_cache") - shared.total("kv_cache") == 63 * 62 * 16 * 12 * 2 * 8 * 64 * 2


def test_a_sweep_says_the_same_as_its_plans() -> None:
    asked = served().scenario
    sizes = (1, 7, 64, 200)
    found = sweep(asked, tables(), ("concurrency", sizes), ("max_model_len", (1536, 2048)))
    for i, size in enumerate(sizes):
        one = served(concurrency=size)
        assert found.headroom_bytes[i, 1] == one.worst.headroom_bytes
