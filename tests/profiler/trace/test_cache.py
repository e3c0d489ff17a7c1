"""Traces by what they depend on."""

from typing import Any

import pytest

from profiler.trace.cache import TraceCache, key_of
from profiler.trace.documents import Target
from tests.profiler.scenarios import GPT2, LLAMA, scenario
from tests.profiler.trace.traces import small_step


def key(document: dict[str, Any], config: dict[str, Any] = GPT2, target: Target | None = None) -> str:
    return key_of(document, config, target or Target())


@pytest.mark.parametrize(
    "changes", [{"name": "mine"}, {"hardware": {"devices": [{"gpu": "h100-sxm-80gb"}]}}, {"economics": {}}]
)
def test_what_changes_nothing_is_no_part_of_the_key(changes: dict[str, Any]) -> None:
    assert key(scenario(GPT2)) == key(scenario(GPT2) | changes)


def test_what_a_trace_depends_on_is_part_of_the_key() -> None:
    plain = scenario(GPT2)
    others = [
        key(scenario(GPT2, **{"training.micro_batch": 3})),
        key(scenario(GPT2, **{"training.optimizer.implementation": "fused"})),
        key(scenario(GPT2, **{"runtime.name": "generic"})),
        key(plain, LLAMA),
        key(plain, GPT2 | {"n_layer": 3}),
        key(plain, target=Target(compute_capability=(8, 0))),
        key(plain, target=Target(attention="math")),
        key_of(plain, GPT2, Target(), instant=True),
    ]
    assert len({key(plain), *others}) == len(others) + 1


def test_the_one_unused_for_longest_makes_room() -> None:
    cache = TraceCache(max_traces=2)
    trace = small_step()
    cache.put("a", trace)
    cache.put("b", trace)
    assert cache.get("a") is trace
    cache.put("c", trace)
    assert cache.get("b") is None
    assert cache.get("a") is cache.get("c") is trace
