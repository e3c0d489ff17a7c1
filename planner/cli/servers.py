"""`search` on the command line for a job that serves: its answer in English."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from planner.scenario import to_document
from planner.search.serving import Served, ServingResult
from planner.units import gib

MOST_ROWS = 12
MS = 1000


def server_lines(result: ServingResult, reasons: dict[str, str]) -> Iterator[str]:
    """The answer as text.

    Args:
        result: What was found.
        reasons: Words by reason of a rejection.
    """
    yield f"{result.plans:,} plans; {len(result.found)} offers serve the load, {len(result.rejected)} do not."
    named = (
        ("Cheapest hour", result.cheapest),
        ("Cheapest tokens", result.cheapest_tokens),
        ("Fastest answers", result.fastest),
        ("The articles' tree, latency first (fp8)", result.latency),
        ("The articles' tree, throughput first (4-bit weights)", result.throughput),
    )
    for name, found in named:
        yield f"{name}: {'no machine' if found is None else _served(found)}"
    if result.rejected:
        yield ""
        yield "Rejected:"
    for reason, number in Counter(one.reason for one in result.rejected).most_common():
        yield f"  {number} offers: {reasons[reason]}"
    seen: set[tuple[str, int | None]] = set()
    for one in sorted(
        (one for one in result.rejected if one.short_bytes), key=lambda one: one.short_bytes or 0
    ):
        key = one.machine.gpu.id, one.devices
        if key not in seen and len(seen) < MOST_ROWS:
            seen.add(key)
            yield f"  {one.devices} x {one.machine.gpu.id}: {gib(one.short_bytes or 0):,.1f} GiB a card short"


def _served(found: Served) -> str:
    machine = found.machine
    parts = [f"{machine.provider} {machine.name} ({found.devices} x {machine.gpu.id})".strip()]
    if found.usd_per_hour is not None:
        parts.append(f"{found.usd_per_hour:,.2f} USD an hour")
    million, band = found.usd_per_million_tokens, found.band
    if million is not None:
        ends = "" if band is None else f" ({million * band.low_frac:,.3f} to {million * band.high_frac:,.3f})"
        parts.append(f"{million:,.3f} USD a million tokens{ends}")
    if found.tokens_per_s is None or found.tpot_s is None:
        parts.append(f"speed not known ({', '.join(sorted({item.code for item in found.missing}))})")
    else:
        parts.append(f"{found.tokens_per_s:,.0f} tokens/s, {found.tpot_s * MS:.1f} ms a token")
    if found.choice.settings["weights"] != "own":
        parts.append(f"weights {found.choice.settings['weights']}")
    return ", ".join(parts)


def server_document(result: ServingResult) -> dict[str, Any]:
    """Everything that was found as plain values."""
    return {
        "plans": result.plans,
        "cheapest": _plain(result.cheapest),
        "cheapest_tokens": _plain(result.cheapest_tokens),
        "fastest": _plain(result.fastest),
        "tree_latency": _plain(result.latency),
        "tree_throughput": _plain(result.throughput),
        "found": [_plain(one) for one in result.found],
        "rejected": [
            {
                "machine": one.machine.name,
                "gpu": one.machine.gpu.id,
                "reason": one.reason.value,
                "devices": one.devices,
                "short_bytes": one.short_bytes,
            }
            for one in result.rejected
        ],
    }


def _plain(found: Served | None) -> dict[str, Any] | None:
    if found is None:
        return None
    band = found.band
    return {
        "provider": found.machine.provider,
        "machine": found.machine.name,
        "gpu": found.machine.gpu.id,
        "devices": found.devices,
        "settings": dict(found.choice.settings),
        "usd_per_hour": found.usd_per_hour,
        "usd_per_million_tokens": found.usd_per_million_tokens,
        "tokens_per_s": found.tokens_per_s,
        "time_low_frac": None if band is None else band.low_frac,
        "time_high_frac": None if band is None else band.high_frac,
        "tpot_s": found.tpot_s,
        "ttft_s": found.ttft_s,
        "concurrency": found.concurrency,
        "peak_bytes": found.peak_bytes,
        "usable_bytes": found.usable_bytes,
        "missing": [item.code for item in found.missing],
        "scenario": to_document(found.choice.scenario),
    }
