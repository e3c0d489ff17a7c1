"""`search` on the command line: everything that was found as plain values, for `--json`."""

from collections.abc import Iterable
from typing import Any, Final

from planner.scenario import to_document
from planner.search.types import Found, Machine, Rejected, SearchResult, TreeAnswer

COUNTS: Final = ("plans", "offer_plans", "timed", "by_bound", "ledgers", "machines", "offers")
OTHERS: Final = ("dimension", "value", "reason", "short_bytes", "slower_frac")
COSTS: Final = ("days", "low_days", "high_days", "usd", "low_usd", "high_usd")


def document(result: SearchResult) -> dict[str, Any]:
    """Everything that was found as plain values."""
    tree = result.tree
    return {
        "counts": {name: getattr(result.counts, name) for name in COUNTS},
        "cheapest": _plain(result.cheapest),
        "fastest": _plain(result.fastest),
        "fewest": _plain(result.fewest),
        "frontier": _all(result.frontier),
        "found": _all(result.found),
        "speed_unknown": _all(result.unknown),
        "tree": None if tree is None else _plain_tree(tree),
        "others": [{name: getattr(one, name) for name in OTHERS} for one in result.others],
        "rejected": [_plain_rejected(one) for one in result.rejected],
    }


def _all(found: Iterable[Found]) -> list[dict[str, Any] | None]:
    return [_plain(one) for one in found]


def _plain(found: Found | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        **_machine(found.machine),
        "count": found.count,
        "devices": found.devices,
        "settings": dict(found.choice.settings),
        "step_time_s": found.step_time_s,
        "tokens_per_s": found.tokens_per_s,
        "usd_per_hour": found.usd_per_hour,
        **{name: None if found.cost is None else getattr(found.cost, name) for name in COSTS},
        "peak_bytes": found.peak_bytes,
        "usable_bytes": found.usable_bytes,
        "missing": [item.code for item in found.missing],
        "scenario": to_document(found.choice.scenario),
    }


def _plain_tree(tree: TreeAnswer) -> dict[str, Any]:
    return {"step": tree.step, "framework": tree.framework, "found": _plain(tree.found)}


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "provider": machine.provider,
        "machine": machine.name,
        "gpu": machine.gpu.id,
        "region": machine.region,
        "date": machine.date,
    }


def _plain_rejected(one: Rejected) -> dict[str, Any]:
    return {
        **_machine(one.machine),
        "reason": one.reason.value,
        "devices": one.devices,
        "short_bytes": one.short_bytes,
        "value": one.value,
        "settings": None if one.nearest is None else dict(one.nearest.settings),
    }
