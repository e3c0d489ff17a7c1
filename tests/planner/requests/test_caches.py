"""A cache of answers, a KV cache in tiers, bytes that lie outside the card."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.hardware import Gpu, gpu_for
from planner.requests import answer_cache, tiers
from planner.requests.errors import RequestsInputError
from planner.scenario import CacheTier, Links
from planner.units import gib_bytes
from tests.planner.serving.cases import tables

A100 = "a100-sxm-80gb"


def saved(**changes: float | None) -> answer_cache.Saved:
    """A stream of 10 a second with a cache that has a quarter of it."""
    asked: dict[str, float | None] = {
        "requests_per_s": 10.0, "hit_frac": 0.25, "local_frac": 1.0, "local_s": 0.0005, "store_s": 0.0,
        "model_first_token_s": 0.4, "capacity_per_s": 2.0,
    }  # fmt: skip
    return answer_cache.with_cache(**(asked | changes))  # type: ignore[arg-type]


def test_a_quarter_answered_by_hand() -> None:
    found = saved()
    assert found.model_requests_per_s == pytest.approx(7.5)
    assert found.first_token_s == pytest.approx(0.0005 + 0.75 * 0.4)
    assert (found.replicas, found.replicas_without) == (4, 5)


def test_g32_38_percent_less_takes_38_percent_of_hits() -> None:
    # A local look-up below half a millisecond, as claimed, against a first token of 400 ms.
    assert saved(hit_frac=0.38).first_token_frac == pytest.approx(-0.38, abs=0.002)
    assert saved(hit_frac=0.1).first_token_frac == pytest.approx(-0.10, abs=0.002)
    assert saved(hit_frac=0.7).first_token_frac == pytest.approx(-0.70, abs=0.002)
    assert answer_cache.hits_for(0.38, 0.0005 / 0.4) == pytest.approx(0.38125)
    # A miss in both tiers waits for the store as well: with few hits the first token comes later than without.
    slow = saved(hit_frac=0.02, store_s=0.02).first_token_frac
    assert slow is not None
    assert slow > 0


def test_what_is_not_known_stays_unknown() -> None:
    found = saved(model_first_token_s=None, capacity_per_s=None)
    assert (found.first_token_s, found.first_token_frac) == (None, None)
    assert (found.replicas, found.replicas_without) == (None, None)


@given(low=st.floats(0, 1), high=st.floats(0, 1), local=st.floats(0, 1))
def test_more_hits_never_need_more(low: float, high: float, local: float) -> None:
    few, many = sorted((low, high))
    less, more = saved(hit_frac=many, local_frac=local), saved(hit_frac=few, local_frac=local)
    assert less.model_requests_per_s <= more.model_requests_per_s
    assert (less.first_token_s or 0) <= (more.first_token_s or 0) + 1e-12
    assert (less.replicas or 0) <= (more.replicas or 0)


def test_bad_values_are_refused() -> None:
    for changes, field in (
        ({"hit_frac": 1.2}, "hit_frac"),
        ({"requests_per_s": 0.0}, "requests_per_s"),
        ({"local_s": -1.0}, "local_s"),
        ({"capacity_per_s": 0.0}, "capacity_per_s"),
    ):
        with pytest.raises(RequestsInputError, match=field):
            saved(**changes)


def test_tiers_by_hand() -> None:
    gpu = gpu_for(A100, tables())
    found = tiers.cache_loads(
        (
            CacheTier(where="gpu", gib=10, hit_frac=0.2),
            CacheTier(where="host", gib=100, hit_frac=0.3),
            CacheTier(where="shared", gib=1000, hit_frac=0.1),
        ),
        token_bytes=131_072,
        reused_tokens=1000,
        gpu=gpu,
        links=Links(inter_node_gbit=100),
    )
    on_card, host, shared = found
    assert on_card.capacity_tokens == gib_bytes(10) // 131_072
    assert (on_card.moved_bytes, on_card.load_s) == (0.0, 0.0)
    assert host.moved_bytes == pytest.approx(0.3 * 131_072_000)
    assert gpu.pcie_bytes_per_s is not None
    assert host.load_s == pytest.approx(131_072_000 / gpu.pcie_bytes_per_s)
    # 100 Gbit/s are 12.5 GB/s.
    assert shared.load_s == pytest.approx(131_072_000 / 12.5e9)


def test_an_unknown_link_has_no_time_and_full_hits_no_rest() -> None:
    gpu = Gpu(id="x", name="x")
    shared = CacheTier(where="shared", gib=1, hit_frac=0.4)
    (found,) = tiers.cache_loads((shared,), token_bytes=1, reused_tokens=1, gpu=gpu, links=Links())
    assert found.load_s is None
    assert tiers.recomputed_frac((shared,)) == pytest.approx(0.6)
    with pytest.raises(RequestsInputError, match="hit_frac"):
        tiers.cache_loads((shared,) * 3, token_bytes=1, reused_tokens=1, gpu=gpu, links=Links())
    with pytest.raises(RequestsInputError, match="shared_prefix_tokens"):
        tiers.cache_loads((shared,), token_bytes=1, reused_tokens=-1, gpu=gpu, links=Links())


def test_bytes_fill_the_nearest_memory_first_by_hand() -> None:
    near = tiers.Memory(name="card", capacity_bytes=60, bytes_per_s=10.0)
    far = tiers.Memory(name="host", capacity_bytes=None, bytes_per_s=2.0)
    on_card, host = tiers.placed(100, 50, (near, far))
    assert (on_card.held_bytes, host.held_bytes) == (60, 40)
    # Of 50 bytes read, 30 come from the card in 3 s and 20 from the host in 10 s instead of 2.
    assert on_card.read_s == pytest.approx(3)
    assert on_card.lost_s == 0
    assert host.read_s == pytest.approx(10)
    assert host.lost_s == pytest.approx(8)


def test_a_step_over_pcie_costs_what_the_link_takes() -> None:
    gpu = gpu_for(A100, tables())
    where = tiers.memories(gpu, Links(), peer_bytes=gib_bytes(10))
    assert [memory.name for memory in where] == ["card", "peer", "host"]
    found = tiers.placed(gib_bytes(140), gib_bytes(140), where)
    assert sum(each.held_bytes for each in found) == gib_bytes(140)
    card, peer, host = found
    assert gpu.pcie_bytes_per_s is not None
    assert host.read_s == pytest.approx(host.held_bytes / gpu.pcie_bytes_per_s, rel=1e-6)
    assert (card.lost_s or 0) < (peer.lost_s or 0) < (host.lost_s or 0)


@given(need=st.integers(1, 10**6), room=st.integers(0, 10**6), share=st.floats(0, 1))
def test_nothing_is_lost_between_memories(need: int, room: int, share: float) -> None:
    near = tiers.Memory(name="card", capacity_bytes=room, bytes_per_s=100.0)
    far = tiers.Memory(name="host", capacity_bytes=None, bytes_per_s=7.0)
    found = tiers.placed(need, int(need * share), (near, far))
    assert sum(each.held_bytes for each in found) == need
    assert all((each.lost_s or 0) >= 0 for each in found)


def test_too_little_memory_is_refused() -> None:
    small = tiers.Memory(name="card", capacity_bytes=5, bytes_per_s=None)
    with pytest.raises(RequestsInputError, match="host_memory_gib"):
        tiers.placed(6, 6, (small,))
    with pytest.raises(RequestsInputError, match="read_bytes"):
        tiers.placed(6, 7, (small,))
    assert tiers.placed(5, 5, (small,))[0].lost_s is None


def test_links_of_the_scenario_go_before_the_cards_own() -> None:
    gpu = gpu_for(A100, tables())
    links = Links(host="pcie5_x16", inter_node_gbit=400)
    assert tiers.link_bytes_per_s("host", gpu, links, 8) == pytest.approx(64e9)
    assert tiers.link_bytes_per_s("shared", gpu, links, 8) == pytest.approx(400e9 / 8 / 8)
    assert tiers.link_bytes_per_s("shared", gpu, Links(), 8) is None
    assert tiers.link_bytes_per_s("gpu", gpu, links, 8) == gpu.bandwidth_bytes_per_s
