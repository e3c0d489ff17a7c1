"""How fast a server answers: first token, each next token, tokens a second, by concurrency."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.hardware import Tables
from planner.plan_types import Plan
from planner.throughput import serving_work as sw
from planner.throughput.bands import speed_band
from planner.throughput.serving_load import Load, load_of
from planner.throughput.serving_time import (
    PromptParts,
    ServingRates,
    TokenParts,
    offline_tokens_per_s,
    prompt_parts,
    request_s,
    serving_rates,
    token_parts,
)
from planner.throughput.types import Part, PartName, SpeedBand, Unknown

REFERENCES: Final[dict[PartName, str]] = {
    "weights_read": "decode_roofline",
    "kv_read": "decode_roofline",
    "compute": "matrix_tiles",
    "matrix_products": "matrix_flops",
    "attention": "attention_flops",
    "memory_traffic": "roofline",
    "launches": "kernel_launches",
    "tensor_parallel": "ring_all_reduce",
    "engine": "engine_step",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSpeed:
    """A server under one load. Figures are None where `missing` says what the tables lack.

    Attributes:
        load: The load it was worked out for.
        tpot_s: A decoding step: seconds between two tokens of one answer, at mean context.
        parts: What that step is made of; they add up to it.
        tpot_band: The interval nine of ten published runs lie in.
        ttft_s: Prefill, which yields the first token, of the prompts that come in at once; no wait in a queue.
        ttft_band: The interval nine of ten published prefills lie in.
        request_latency_s: The whole batch, from prompts to last token, waves included.
        output_tokens_per_s: Whole server.
        tokens_band: Band of the request latency (of the time for a fixed number of tokens where offline).
        ttft_parts: What that is made of; empty where there is no prompt.
        bound: The largest part of a step.
        speculative_left_out: A draft model is asked for, whose acceptance rate nobody told; not counted.
        missing: What the tables lack.
    """

    load: Load
    tpot_s: float | None
    parts: tuple[Part, ...]
    tpot_band: SpeedBand | None
    ttft_s: float | None
    ttft_band: SpeedBand | None
    request_latency_s: float | None
    output_tokens_per_s: float | None
    tokens_band: SpeedBand | None
    bound: PartName | None
    ttft_parts: tuple[Part, ...] = ()
    speculative_left_out: bool = False
    missing: tuple[Unknown, ...] = ()


def serving_speed(plan: Plan, tables: Tables, concurrency: int | None = None) -> ServingSpeed:
    """The speed of a server under its own load.

    Args:
        plan: A plan of a server, whether it fits or not.
        tables: Cards and the constants `speed_serve_*`.
        concurrency: Another number of sequences than the workload's.

    Raises:
        ValueError: The plan trains.
    """
    if plan.scenario.is_training:
        raise ValueError(f"task: {plan.scenario.task}; a serving speed needs the task serve")
    return _speed(plan, tables, sw.server_of(plan, tables), load_of(plan, concurrency), serving_rates(tables))


def speed_by_concurrency(plan: Plan, tables: Tables, asked: Sequence[int]) -> tuple[ServingSpeed, ...]:
    """The speed at several numbers of sequences (the table of first token, next token and tokens a second)."""
    server, rates = sw.server_of(plan, tables), serving_rates(tables)
    return tuple(_speed(plan, tables, server, load_of(plan, number), rates) for number in asked)


def _speed(plan: Plan, tables: Tables, server: sw.Server, load: Load, rates: ServingRates) -> ServingSpeed:
    speculative = plan.resolved.serving.speculative is not None
    lacking = sw.missing(server, prefill=False)
    if plan.model.latents is not None:
        lacking = (Unknown(code="makes_pictures", gpu_id=plan.worst.gpu_id),)
    if lacking:
        return ServingSpeed(
            load=load, tpot_s=None, parts=(), tpot_band=None, ttft_s=None, ttft_band=None, request_latency_s=None,
            output_tokens_per_s=None, tokens_band=None, bound=None, speculative_left_out=speculative, missing=lacking,
        )  # fmt: skip
    times = token_parts(sw.token_work(server, load.running, load.context_tokens), rates)
    step, parts = times.total, _parts(times)
    lacking = sw.missing(server, prefill=True)
    prefill, first = 0.0, None
    if load.prompt_tokens > 1 and not lacking:
        first = prompt_parts(sw.prompt_work(server, load.prompt_tokens, load.together), rates)
        prefill = first.total
    has_answer = not lacking or load.prompt_tokens <= 1
    latency = request_s(step, prefill, load.output_tokens, 1.0, load.waves)
    kind = band_kind(server, load)
    return ServingSpeed(
        load=load,
        tpot_s=step,
        parts=parts,
        tpot_band=speed_band(step, kind, tables),
        ttft_s=(prefill or step) if has_answer else None,
        ttft_band=speed_band(prefill, "prefill", tables) if prefill else None,
        request_latency_s=latency if has_answer and not load.is_offline else None,
        output_tokens_per_s=_tokens_per_s(step, prefill, load, rates) if has_answer else None,
        tokens_band=speed_band(latency, kind, tables) if has_answer else None,
        bound=max(parts, key=lambda part: part.time_s).name,
        ttft_parts=() if first is None else _parts(first),
        speculative_left_out=speculative,
        missing=lacking,
    )


def _tokens_per_s(step: float, prefill: float, load: Load, rates: ServingRates) -> float:
    if load.is_offline:
        return load.replicas * offline_tokens_per_s(
            step, prefill / load.together, load.output_tokens, load.running, rates
        )
    latency = request_s(step, prefill, load.output_tokens, 1.0, load.waves)
    return load.replicas * load.running * load.waves * load.output_tokens / latency


def band_kind(server: sw.Server, load: Load) -> str:
    """Which published runs a load is like."""
    if load.is_offline:
        return "offline"
    if load.running * load.waves > 1:
        return "served_batch"
    return "decode_packed" if sw.is_packed(server) else "decode_full"


def _parts(times: TokenParts | PromptParts) -> tuple[Part, ...]:
    return tuple(
        Part(name=name, time_s=getattr(times, name), reference=reference)
        for name, reference in REFERENCES.items()
        if getattr(times, name, 0.0) > 0
    )
