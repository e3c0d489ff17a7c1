"""Tables made of real plans: sequences at once, and steps of a prompt."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import planner
from planner import requests
from planner.plan_types import Verdict
from planner.references import REFERENCES
from planner.requests import chunks, concurrency
from planner.requests.errors import RequestsInputError
from tests.planner.serving.cases import llama, scenario, serve, tables

PLANNER = Path(planner.__file__).parent
LOAD = {"prompt_tokens": 1500, "output_tokens": 548}


def test_the_table_is_the_plan_at_each_number() -> None:
    asked = scenario(llama(), max_model_len=2048, workload=LOAD)
    rows = concurrency.table(asked, tables(), (1, 4, 8))
    assert [row.sequences for row in rows] == [1, 4, 8]
    for row in rows:
        answer = serve(llama(), max_model_len=2048, workload=LOAD | {"concurrency": row.sequences})
        assert row.needs_bytes == answer.worst.peak_bytes
        assert row.verdict is answer.verdict
    assert rows[1].kv_bytes == 4 * rows[0].kv_bytes == 4 * 2048 * 131_072


def test_a_70b_at_1_4_and_8_on_two_cards() -> None:
    big = llama(hidden_size=8192, num_hidden_layers=80, num_attention_heads=64, intermediate_size=28672)
    asked = scenario(
        big, count=2, parallel={"tensor": 2}, weights="awq4", max_model_len=32768, max_sequences=256
    )
    rows = concurrency.table(asked, tables(), (1, 4, 8, 4096))
    kv = [row.kv_bytes for row in rows]
    assert kv[:3] == [32768 * 163_840 * number for number in (1, 4, 8)]
    assert rows[0].verdict is not Verdict.DOES_NOT_FIT
    assert rows[-1].verdict is Verdict.DOES_NOT_FIT


def test_a_question_with_errors_has_an_empty_row() -> None:
    wrong = scenario(llama(), count=2, parallel={"tensor": 5}, max_model_len=8192)
    (row,) = concurrency.table(wrong, tables(), (1,))
    assert row.verdict is None
    assert row.headroom_bytes is None


@pytest.mark.parametrize("runtime", ["sglang", "llama_cpp"])
def test_a_smaller_step_never_needs_more_working_memory(runtime: str) -> None:
    asked = scenario(llama(), runtime, max_model_len=32768)
    found = chunks.by_size(asked, tables(), prompt_tokens=10_000)
    working = [chunk.working_bytes for chunk in found]
    assert working == sorted(working)
    assert working[0] < working[-1]
    assert [chunk.steps for chunk in found] == [-(-10_000 // chunk.tokens) for chunk in found]
    assert found[-1].tokens == 16384
    assert found[-1].steps == 1


def test_a_larger_step_leaves_less_for_the_caches() -> None:
    found = chunks.by_size(
        scenario(llama(), version="0.6.0", max_model_len=32768), tables(), prompt_tokens=30_000
    )
    pools = [chunk.pool_bytes or 0 for chunk in found]
    assert pools == sorted(pools, reverse=True)
    assert pools[0] > pools[-1]


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(RequestsInputError, match="prompt_tokens"):
        chunks.by_size(scenario(llama()), tables(), prompt_tokens=0)


def test_every_module_names_a_known_reference() -> None:
    named = 0
    for found in pkgutil.iter_modules(requests.__path__):
        module = importlib.import_module(f"planner.requests.{found.name}")
        key = vars(module).get("REFERENCE")
        assert key is None or key in REFERENCES, found.name
        named += key is not None
    assert named >= 9


def test_every_reference_that_a_docstring_names_is_known() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PLANNER.rglob("*.py"))}
    named = [(path, key) for path, text in texts.items() for key in re.findall(r"Reference: (\w+)", text)]
    assert len(named) >= 9
    assert [(path.name, key) for path, key in named if key not in REFERENCES] == []
