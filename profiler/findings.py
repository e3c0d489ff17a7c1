"""What a report says about a run beside its size: fragmentation, leaks, talk between ranks, and a checklist. Pure.

Every finding is a code with parameters and a state; what was not measured is `unknown`, never `good`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, Literal

from profiler.documents import Param
from profiler.leaks import growth_of
from profiler.report import Report
from profiler.report_parts import RankFigures

FRAGMENTED_FRAC: Final = 0.1
"""Share of the reserved bytes that lie in pieces between live blocks, from which a setting is worth it."""
CACHED_FRAC: Final = 0.2
"""Share of the reserved bytes that no tensor uses at the peak."""
TALK_FRAC: Final = 0.3
SPREAD_FRAC: Final = 0.15
BUSY_FRAC: Final = 0.8
BANDWIDTH_FRAC: Final = 0.6
ACTIVATIONS_FRAC: Final = 0.5
HALF: Final = ("bf16", "fp16")

State = Literal["good", "attention", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        topic: `fragmentation`, `leak`, `communication`, `ranks` or `checklist`.
        code: Stable id, worded by the page.
        state: Whether it asks for something.
        params: Values for the sentence.
        setting: What would help, as it is written (`PYTORCH_ALLOC_CONF=...`), empty for none.
    """

    topic: str
    code: str
    state: State
    params: dict[str, Param] = field(default_factory=dict)
    setting: str = ""


def findings(report: Report) -> tuple[Finding, ...]:
    """Everything, in order of topic."""
    return (*fragmentation(report), *leaks(report), *communication(report), *checklist(report))


def fragmentation(report: Report) -> Iterator[Finding]:
    """What the caching allocator holds and no tensor uses, from its own counters at their peaks.

    PyTorch, "Optimizing memory usage with PYTORCH_ALLOC_CONF" (docs.pytorch.org, notes/cuda).
    """
    stats = report.memory_stats
    reserved = stats.get("reserved_bytes.all.peak")
    allocated = stats.get("allocated_bytes.all.peak")
    if not reserved or allocated is None:
        yield Finding(topic="fragmentation", code="no_allocator_counters", state="unknown")
        return
    split = stats.get("inactive_split_bytes.all.peak", 0)
    params: dict[str, Param] = {
        "reserved_bytes": reserved,
        "allocated_bytes": allocated,
        "split_bytes": split,
        "split_frac": split / reserved,
        "unused_frac": 1 - allocated / reserved,
    }
    if stats.get("num_ooms", 0) or stats.get("num_alloc_retries", 0):
        retries = {"retries": stats.get("num_alloc_retries", 0), "ooms": stats.get("num_ooms", 0)}
        yield Finding(
            topic="fragmentation", code="allocator_retries", state="attention", params={**params, **retries}
        )
    if split >= FRAGMENTED_FRAC * reserved:
        yield Finding(
            topic="fragmentation",
            code="fragmented",
            state="attention",
            params=params,
            setting="PYTORCH_ALLOC_CONF=expandable_segments:True",
        )
    elif reserved - allocated >= CACHED_FRAC * reserved:
        yield Finding(
            topic="fragmentation",
            code="much_cached",
            state="attention",
            params=params,
            setting="PYTORCH_ALLOC_CONF=expandable_segments:True",
        )
    else:
        yield Finding(topic="fragmentation", code="not_fragmented", state="good", params=params)


def leaks(report: Report) -> Iterator[Finding]:
    """Whether memory grows from step to step."""
    growth = growth_of(report)
    if growth is None:
        params: dict[str, Param] = {"steps": len(report.memory_by_step)}
        yield Finding(topic="leak", code="too_few_steps", state="unknown", params=params)
        return
    yield Finding(
        topic="leak",
        code="grows" if growth.leaks else "does_not_grow",
        state="attention" if growth.leaks else "good",
        params={
            "counter": growth.counter,
            "steps": growth.steps,
            "bytes_per_step": growth.bytes_per_step,
            "growth_bytes": growth.growth_bytes,
            "steps_left": growth.steps_left,
        },
    )


def communication(report: Report) -> Iterator[Finding]:
    """How much of a step ranks talk, waiting for each other included, and which rank is the slowest and the fullest."""
    shares = [
        (rank.communication.frac, rank.rank)
        for rank in report.ranks
        if rank.communication is not None and rank.communication.frac is not None
    ]
    if shares:
        frac, rank = max(shares)
        least, _ = min(shares)
        yield Finding(
            topic="communication",
            code="talks_much" if frac > TALK_FRAC else "talks_little",
            state="attention" if frac > TALK_FRAC else "good",
            params={"frac": frac, "rank": rank, "least_frac": least},
        )
    elif report.ranks:
        yield Finding(topic="communication", code="talk_not_measured", state="unknown")
    yield from _uneven(report)


def slowest(report: Report) -> RankFigures | None:
    """The rank whose steps took longest, None for one rank."""
    timed = [rank for rank in report.ranks if rank.step_s is not None]
    return max(timed, key=lambda rank: rank.step_s or 0.0, default=None)


def fullest(report: Report) -> RankFigures | None:
    """The rank that held most, by the outermost counter that all know; None for one rank."""
    return max(report.ranks, key=_held, default=None)


def _held(rank: RankFigures) -> int:
    return rank.peak_reserved_bytes or rank.peak_allocated_bytes or rank.resident_peak_bytes or 0


def _uneven(report: Report) -> Iterator[Finding]:
    if not report.ranks:
        return
    ended = [rank for rank in report.ranks if rank.outcome != "completed"]
    for rank in ended:
        params: dict[str, Param] = {"rank": rank.rank, "outcome": rank.outcome, "detail": rank.detail}
        yield Finding(topic="ranks", code="rank_ended", state="attention", params=params)
    for code, values, name in (
        ("times_differ", {rank.rank: rank.step_s for rank in report.ranks if rank.step_s}, "step_s"),
        ("memory_differs", {rank.rank: _held(rank) for rank in report.ranks if _held(rank)}, "bytes"),
    ):
        if len(values) < 2:
            continue
        most = max(values, key=lambda rank: values[rank] or 0)
        least = min(values, key=lambda rank: values[rank] or 0)
        high, low = float(values[most] or 0), float(values[least] or 0)
        spread = 1 - low / high
        yield Finding(
            topic="ranks",
            code=code if spread > SPREAD_FRAC else f"{code}_little",
            state="attention" if spread > SPREAD_FRAC else "good",
            params={
                "most": most,
                "least": least,
                f"most_{name}": high,
                f"least_{name}": low,
                "spread_frac": spread,
            },
        )


def checklist(report: Report) -> Iterator[Finding]:
    """The usual points of a run, each ticked, crossed, or said to be unknown."""
    yield _check("versions", _versions(report), torch=report.environment.torch, cuda=report.environment.cuda)
    yield _check(
        "threads",
        _threads(report),
        threads=report.environment.threads,
        processors=report.environment.processors,
    )
    compute = _precision(report)
    yield _check("precision", None if compute is None else compute in HALF, compute=compute)
    share = _activations_frac(report)
    yield _check("checkpointing", _checkpointing(report, share), activations_frac=share)
    offload = _offload(report)
    if offload is not None:
        yield _check("offload", offload)
    busy = _mean(report, "gpu_frac")
    yield _check("utilisation", None if busy is None else busy > BUSY_FRAC, frac=busy)
    memory = _mean(report, "memory_frac")
    yield _check("bandwidth", None if memory is None else memory > BANDWIDTH_FRAC, frac=memory)
    swapped = report.readings.swapped_bytes
    yield _check("swapping", None if swapped is None else swapped == 0, bytes=swapped)
    yield _check("cudnn_benchmark", report.environment.cudnn_benchmark, cudnn=report.environment.cudnn)


def _check(code: str, good: bool | None, **params: Param) -> Finding:
    state: State = "unknown" if good is None else "good" if good else "attention"
    return Finding(topic="checklist", code=code, state=state, params=params)


def _versions(report: Report) -> bool | None:
    """Whether PyTorch was built for the device that ran."""
    if not report.environment.torch:
        return None
    return report.environment.device == "cpu" or bool(report.environment.cuda)


def _threads(report: Report) -> bool | None:
    """Whether the ranks of one machine have no more threads together than it has processors."""
    processors = report.environment.processors
    if processors is None:
        return None
    hosts = [rank.host for rank in report.ranks] or [""]
    return report.environment.threads * max(map(hosts.count, hosts)) <= processors


def _training(report: Report) -> dict[str, Any]:
    found = report.scenario.get("training")
    return found if isinstance(found, dict) else {}


def _precision(report: Report) -> str | None:
    precision = _training(report).get("precision")
    found = precision.get("compute") if isinstance(precision, dict) else None
    return found if isinstance(found, str) else None


def _activations_frac(report: Report) -> float | None:
    peak = report.peak()
    if peak is None or not peak.groups or not peak.peak_allocated_bytes:
        return None
    size = sum(group.bytes for group in peak.groups if group.category == "activations")
    return size / peak.peak_allocated_bytes


def _checkpointing(report: Report, activations_frac: float | None) -> bool | None:
    kind = _training(report).get("checkpointing")
    if activations_frac is None or kind is None:
        return None
    return kind != "none" or activations_frac <= ACTIVATIONS_FRAC


def _offload(report: Report) -> bool | None:
    """Whether states that were to be on the host are not on the device; None where nothing was to be."""
    parallel = report.scenario.get("parallel")
    offload = parallel.get("offload") if isinstance(parallel, dict) else None
    if not isinstance(offload, dict) or offload.get("optimizer") in (None, "none"):
        return None
    groups = [group for figures in report.phases for group in figures.groups]
    return not any(group.category == "optimizer_states" and group.name == "exp_avg" for group in groups)


def _mean(report: Report, name: str) -> float | None:
    read = [getattr(reading, name) for card in report.cards for reading in card.readings if not reading.stale]
    known = [value for value in read if value is not None]
    return fmean(known) if known else None
