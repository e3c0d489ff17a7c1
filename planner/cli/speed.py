"""A plan's speed as text for a terminal and as plain values: time by part, rates, bands, what binds."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, cast

from planner.cli.report import table
from planner.hardware import Tables
from planner.plan_types import Plan
from planner.throughput.types import Part, SpeedBand, Unknown
from planner.units import GB

if TYPE_CHECKING:
    from planner.throughput.draft_speed import DraftSpeed
    from planner.throughput.serving_speed import ServingSpeed
    from planner.throughput.training_speed import TrainingSpeed

BITS: Final = 8
LEAST_FRAC: Final = 0.0005
LACKING: Final = {
    "makes_pictures": "how long a picture takes on {gpu}",
    "no_peak_rate": "operations a second of {gpu} in {dtype}",
    "no_power_limit": "the power limit of {gpu}",
    "no_bandwidth": "the memory bandwidth of {gpu}",
    "no_peer_link": "the link between {gpu} cards of a node (hardware.links.intra_node)",
    "no_network_rate": "the network between nodes of {gpu} (hardware.links.inter_node_gbit)",
    "no_host_link": "the link of {gpu} to its host (hardware.links.host)",
    "no_host_memory_rate": "how fast the host of {gpu} reads its own memory, where part of the model stays,",
    "no_disk_rate": "the rate of the disk (hardware.links.nvme_gb_per_s)",
}
NAMES: Final = {
    "matrix_products": "matrix products",
    "attention": "attention",
    "memory_traffic": "memory traffic of the rest",
    "recompute": "computed again",
    "launches": "launching kernels",
    "tensor_parallel": "tensor parallelism, waiting",
    "context_parallel": "context parallelism, waiting",
    "expert_parallel": "expert parallelism, waiting",
    "stage_transfers": "handing on to the next stage",
    "data_parallel": "gathering and reducing, not hidden",
    "pipeline_bubble": "pipeline bubble",
    "optimizer_step": "optimizer step",
    "host_transfers": "offload transfers",
    "weights_read": "reading weights",
    "kv_read": "reading caches",
    "compute": "products beyond reading",
    "engine": "scheduling and sampling",
}


def speed_of(plan: Plan, tables: Tables) -> "TrainingSpeed | ServingSpeed":
    """The speed of a plan, whichever its task."""
    if plan.resolved.is_training:
        from planner.throughput.training_speed import training_speed  # noqa: PLC0415 - only training needs it

        return training_speed(plan, tables)
    from planner.throughput.serving_speed import serving_speed  # noqa: PLC0415 - only servers need it

    return serving_speed(plan, tables)


def speed_document(found: "TrainingSpeed | ServingSpeed") -> dict[str, Any]:
    """Every figure of it as plain values."""
    return asdict(found)


def speed_lines(plan: Plan, found: "TrainingSpeed | ServingSpeed", tables: Tables) -> Iterator[str]:
    """A sentence of rates and times with their bands, and a table of the parts."""
    yield ""
    if plan.resolved.is_training:
        yield from _training(plan, cast("TrainingSpeed", found), tables)
    else:
        from planner.throughput.draft_speed import draft_speeds  # noqa: PLC0415 - only servers need it

        yield from _serving(cast("ServingSpeed", found))
        yield from _drafts(draft_speeds(plan, tables))
    yield from (f"No time: {_lacking(item)} is not in the tables." for item in found.missing)


def _training(plan: Plan, found: "TrainingSpeed", tables: Tables) -> Iterator[str]:
    from planner.throughput.network_need import network_need  # noqa: PLC0415 - only training needs it

    if found.step_time_s is None or found.tokens_per_s is None or found.mfu is None:
        return
    yield (
        f"A step of {found.step_tokens:,.0f} tokens takes {_timed(found.step_time_s, found.band)}: "
        f"{_rated(found.tokens_per_s, found.band)} tokens/s, MFU {found.mfu:.0%}, "
        f"with what is computed again {found.hfu or found.mfu:.0%}."
    )
    need = network_need(plan, found, tables)
    if need is not None:
        own = "unknown" if need.own_bytes_per_s is None else f"{_gbit(need.own_bytes_per_s)}"
        yield (
            f"To hide behind the computing, the network has to carry {_gbit(need.needed_bytes_per_s)} Gbit/s a node; "
            f"it has {own}."
        )
    yield from _parts(found.parts)


def _serving(found: "ServingSpeed") -> Iterator[str]:
    if found.tpot_s is None:
        return
    first = "" if found.ttft_s is None else f"first token {_timed(found.ttft_s, found.ttft_band)}, "
    rate = found.output_tokens_per_s
    told = "" if rate is None else f", {_rated(rate, found.tokens_band)} tokens/s in all"
    running = found.load.running * found.load.replicas
    yield f"With {running:,.0f} answers at once: {first}next token {_timed(found.tpot_s, found.tpot_band)}{told}."
    if found.load.is_assumed:
        load = found.load
        yield f"No lengths are given: {load.prompt_tokens:,.0f} tokens in, {load.output_tokens:,.0f} out stand in."
    yield from _parts(found.parts)


def _drafts(drafts: "Sequence[DraftSpeed]") -> Iterator[str]:
    if not drafts:
        return
    yield f"With {drafts[0].drafted} drafted at a time, by the share accepted (no one can tell it beforehand):"
    rows = [
        (f"{row.accepted_frac:.0%}", f"{row.tokens:.2f}", _seconds(row.token_s), f"{row.gain:.2f} x")
        for row in drafts
    ]
    yield from table(("accepted", "tokens a check", "next token", "against no draft"), rows)


def _parts(parts: Sequence[Part]) -> Iterator[str]:
    whole = sum(part.time_s for part in parts) or 1.0
    shown = [part for part in parts if part.time_s / whole >= LEAST_FRAC]
    yield from table(
        ("part", "time", "share"),
        [(NAMES[part.name], _seconds(part.time_s), f"{part.time_s / whole:.0%}") for part in shown],
    )


def _lacking(item: Unknown) -> str:
    return LACKING[item.code].format(gpu=item.gpu_id, **dict(item.params))


def _seconds(value: float) -> str:
    if value >= 1:
        return f"{value:,.3g} s" if value < 1000 else f"{value:,.0f} s"
    return f"{value * 1000:.3g} ms"


def _timed(value: float, band: SpeedBand | None) -> str:
    if band is None:
        return _seconds(value)
    return f"{_seconds(value)} ({_seconds(band.low_s)} to {_seconds(band.high_s)})"


def _rated(value: float, band: SpeedBand | None) -> str:
    if band is None:
        return _number(value)
    return f"{_number(value)} ({_number(value / band.high_frac)} to {_number(value / band.low_frac)})"


def _number(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def _gbit(bytes_per_s: float) -> str:
    return _number(bytes_per_s * BITS / GB)
