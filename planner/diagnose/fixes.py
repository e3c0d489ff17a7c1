"""What to change, as ordered codes.

A fix that is a change to the plan carries the name of that change (`Fix.change`), so that who can plan it again
says what it is worth: `ranked` orders fixes by such effects, wherever they come from.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from planner.diagnose.causes import SHORT, Cause
from planner.diagnose.engine import Engine, knows
from planner.diagnose.failure import Failure
from planner.plan_types import Plan, Verdict

ORDER: Final = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.UNKNOWN: 2, Verdict.DOES_NOT_FIT: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """One thing to do.

    Attributes:
        code: Stable id; locale files word it.
        change: The same as a change of the plan, by the name that it has among the plan's changes; empty for what
            is done outside of it.
    """

    code: str
    change: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change does to the plan.

    Attributes:
        verdict: Of the changed plan.
        delta_bytes: Need of the fullest card, after less before.
        time_frac: Change of the time a token takes, None where it is not known.
        price_frac: The same for each GiB saved of those that are missing; the time itself where that is not known.
        other_job: Whether it answers another question than the one that failed.
    """

    verdict: Verdict
    delta_bytes: int
    time_frac: float | None = None
    price_frac: float | None = None
    other_job: bool = False


_OUTSIDE: Final[dict[Cause, tuple[str, ...]]] = {
    Cause.ANOTHER_PROCESS: ("stop_other_process", "limit_other_process", "use_free_card"),
    Cause.FRACTION_CAP: ("raise_fraction",),
    Cause.SHAPE: ("check_length", "check_resolution"),
    Cause.FRAGMENTATION: ("expandable_segments", "even_lengths"),
    Cause.DRIVER_LIMIT: ("check_driver", "check_limits", "expandable_segments"),
    Cause.DRIVER_SPILL: ("no_driver_spill", "query_outside"),
    Cause.CONTEXT_ONLY: ("look_at_card", "fewer_processes", "lazy_modules"),
    Cause.DRIVER_UNREADABLE: ("reload_driver", "restart_container"),
    Cause.HOST_MEMORY: ("read_cgroup", "fewer_workers", "load_in_shards", "less_offload"),
    Cause.TIMED_OUT: ("read_other_ranks",),
    Cause.RECOVERED: ("nothing_to_do",),
    Cause.CACHED_NOT_USED: ("empty_cache_once",),
    Cause.CONFIG_AUTO: ("write_out_auto",),
    Cause.POOL_BY_DESIGN: ("lower_utilization",),
    Cause.ENGINE_MINIMUM: ("shorter_context", "no_projector", "force_layers"),
    Cause.SMALL_CARD: ("exclude_device", "tensor_split"),
    Cause.WARM_UP: ("fewer_sequences", "leave_room", "fewer_batched_tokens"),
    Cause.DISPATCHED: ("look_at_card", "raise_max_memory", "more_cards", "offload_in_fp32"),
    Cause.WORKERS_SHARED_MEMORY: ("raise_shm", "fewer_workers"),
    Cause.KERNEL_SHARED_MEMORY: ("smaller_kernel_blocks", "fewer_kernel_stages", "other_kernel"),
}
_KV: Final = ("raise_utilization", "kv_fp8", "kv_q8_0", "double_cards", "double_cards_split")
_WEIGHTS: Final = ("weights_fp8", "weights_awq4", "weights_q8_0", "weights_q4_k_m")
_PLANNED: Final = frozenset(
    {
        *(
            "fused_loss",
            "flash_attention",
            "fused_step",
            "adam_8bit",
            "zero1",
            "zero2",
            "zero3",
            "checkpointing",
        ),
        *("half_micro_batch", "half_sequence", "offload", "lora", "qlora", "move_layer", "kv_fp8", "kv_q8_0"),
        *("half_concurrency", "half_context", "double_cards", "double_cards_split", *_WEIGHTS),
    }
)
"""Fixes that are changes of a plan; they bear its names."""
_BY_PHASE: Final[dict[str, tuple[str, ...]]] = {
    "save": ("sharded_state_dict", "save_to_host"),
    "evaluation": ("eval_accumulation", "smaller_eval_batch"),
    "load": ("load_in_shards", "load_in_16_bit"),
    "graphs": ("fewer_graphs", "lower_utilization"),
    "optimizer_step": ("fused_step", "adam_8bit", "zero1", "zero2", "zero3", "offload"),
    "loss": ("fused_loss", "half_micro_batch", "half_sequence"),
    "attention": ("flash_attention", "half_sequence", "half_micro_batch"),
}
_BY_TENSOR: Final[dict[str, tuple[str, ...]]] = {
    "logits_fp32": ("fused_loss", "half_micro_batch", "half_sequence"),
    "logits_16_bit": ("fused_loss", "half_micro_batch", "half_sequence"),
    "logits_shifted": ("fused_loss", "half_micro_batch", "half_sequence"),
    "attention_scores": ("flash_attention", "half_sequence", "half_micro_batch"),
    "optimizer_temporary": ("fused_step", "adam_8bit", "zero1", "zero2", "zero3", "offload"),
    "gradient_copy": ("zero1", "zero2", "zero3", "offload"),
    "zero_bucket": ("smaller_bucket",),
    "kv_pool": ("half_context", *_KV),
    "kv_layer": ("half_context", *_KV),
}
_TRAINING: Final = (
    *("fused_loss", "flash_attention", "checkpointing", "fused_step", "adam_8bit", "zero1", "zero2", "zero3"),
    *("half_micro_batch", "half_sequence", "move_layer", "offload", "lora", "qlora"),
)
_SERVING: Final = (
    "kv_fp8",
    "kv_q8_0",
    "half_context",
    "half_concurrency",
    *_WEIGHTS,
    "double_cards",
    "double_cards_split",
)


_HOST_OF_ENGINE: Final = ("shorter_context", "kv_cache_q8_0", "weights_q4_k_m", "less_offload", "read_cgroup")
_UNPLANNED: Final[dict[Engine, tuple[str, ...]]] = {
    "llama": ("shorter_context", "kv_cache_q8_0", "fewer_gpu_layers", "weights_q4_k_m"),
    "pool": ("weights_fp8", "weights_awq4", "shorter_context", "double_cards"),
}
"""For a server's message beside a plan that trains, or none."""
_BY_FORM: Final[dict[str, tuple[str, ...]]] = {
    "triton_load": ("fewer_instances", "leave_room", "fewer_sequences"),
    "trtllm_malloc": ("leave_room", "fewer_sequences", "fewer_batched_tokens"),
}
"""What a server's message has to itself."""
_OF_LLAMA_WEIGHTS: Final = (
    "fewer_gpu_layers",
    "experts_on_host",
    "weights_q8_0",
    "weights_q4_k_m",
    "smaller_weights",
)
"""For weights that don't go onto the card: the context has no part in it."""
OUTSIDE_WORDS: Final = {
    "weights_fp8": "quantized_weights",
    "weights_awq4": "quantized_weights",
    "weights_q8_0": "smaller_weights",
    "weights_q4_k_m": "smaller_weights",
    "double_cards": "more_cards",
    "double_cards_split": "more_cards",
    "kv_fp8": "kv_cache_fp8",
    "kv_q8_0": "kv_cache_q8_0",
    "half_context": "shorter_context",
    "half_concurrency": "fewer_sequences",
}
"""A change of the plan -> the same for a run that is not the plan's: the plan has no figures for it."""
_BITS: Final = {"weights_q8_0": 8, "weights_q4_k_m": 4}


def fixes_for(failure: Failure) -> tuple[Fix, ...]:
    """What to do, most to the point first."""
    engine, other_run, bits = failure.engine, failure.other_run, failure.bits
    own = None if other_run else failure.plan
    found = [*_BY_FORM.get(failure.form, ()), *_codes(failure, own)]
    found = [code for code in found if bits is None or _BITS.get(code, 0) < bits]
    if other_run:
        found = [OUTSIDE_WORDS.get(code, code) for code in found]
    codes = list(dict.fromkeys(found))
    if failure.why.cause in SHORT and _cached_is_enough(failure.figures):
        codes.insert(0, "expandable_segments")
    return tuple(
        Fix(code=code, change=code if code in _PLANNED and not other_run else "")
        for code in codes
        if knows(engine, code)
        and (own is None or _applies(code, own) or (failure.foreach and code == "fused_step"))
    )


def _cached_is_enough(figures: Mapping[str, int | None]) -> bool:
    request, free, cached = (figures.get(name) for name in ("request", "free", "unallocated"))
    return None not in {request, free} and cached is not None and cached >= (request or 0) - (free or 0) > 0


def _applies(code: str, plan: Plan) -> bool:
    """Whether a change is still to be made in this plan; what is done outside of a plan always is."""
    asked = plan.resolved
    training, sharding = asked.training, asked.parallel.sharding
    parallel = asked.parallel
    is_alone = asked.hardware.num_devices <= parallel.tensor * parallel.pipeline * parallel.context
    if code == "experts_on_host":
        return plan.model.has_experts
    done = {
        "fused_loss": training.loss == "fused_linear",
        "flash_attention": training.attention != "eager",
        "fused_step": training.optimizer.implementation not in {None, "foreach"},
        "adam_8bit": training.optimizer.name != "adamw",
        "checkpointing": training.checkpointing == "full",
        "half_micro_batch": training.micro_batch == 1,
        "offload": asked.parallel.offload.optimizer != "none",
        "lora": asked.task != "full",
        "qlora": asked.task != "lora",
        "zero1": sharding != "none" or is_alone,
        "zero2": sharding not in {"none", "zero1"} or is_alone,
        "zero3": sharding not in {"none", "zero1", "zero2"} or is_alone,
        "move_layer": asked.parallel.pipeline == 1,
    }
    return not (done.get(code, False) or (code in done and not asked.is_training))


def _codes(failure: Failure, plan: Plan | None) -> Iterator[str]:
    cause, phase, engine = failure.why.cause, failure.phase, failure.engine
    if cause in {Cause.NOTHING, Cause.FIGURES}:
        return
    if failure.late and cause in SHORT and engine is None:
        yield "cap_longest_row"
    of_host = cause is Cause.HOST_MEMORY and engine == "llama"
    yield from _HOST_OF_ENGINE if of_host else _OUTSIDE.get(cause, ())
    if cause is Cause.WARM_UP:
        yield from (*(() if plan is None else ("half_concurrency",)), *_WEIGHTS, "double_cards")
    elif cause is Cause.KV_TOO_SMALL:
        yield _less_context(plan, failure.figures)
        yield from _KV
    elif cause is Cause.BUDGET_SPENT:
        yield from ("raise_utilization", *_WEIGHTS, "double_cards")
    elif cause is Cause.PARTIAL_OFFLOAD:
        yield from ("half_context", "kv_q8_0", "weights_q4_k_m", "double_cards_split")
    elif cause in {*SHORT, Cause.SHAPE}:
        yield from _BY_PHASE.get(phase or "", ())
        yield from _BY_TENSOR.get(failure.tensor.name if failure.tensor else "", ())
        if engine == "llama" and phase == "weights":
            yield from (*_OF_LLAMA_WEIGHTS, "more_cards" if plan is None else "double_cards_split")
        elif cause in SHORT and phase != "save":
            yield from _any_savings(plan, engine)


def _less_context(plan: Plan | None, figures: Mapping[str, int | None]) -> str:
    """Half of the context where that is short enough; else as short as the message says."""
    fits = figures.get("fits")
    planned = None if plan is None or plan.resolved.is_training else plan.resolved.serving.max_model_len
    longest = max(figures.get("length") or 0, planned or 0)
    return "half_context" if fits is None or longest // 2 <= fits else "shorter_context"


def _any_savings(plan: Plan | None, engine: Engine | None) -> tuple[str, ...]:
    if engine is not None and (plan is None or plan.resolved.is_training):
        return _UNPLANNED[engine]
    if plan is None:
        return ("half_micro_batch", "checkpointing", "fused_loss")
    if plan.resolved.is_training:
        return _TRAINING
    return (*_SERVING, "fewer_gpu_layers") if engine == "llama" else _SERVING


def ranked(fixes: tuple[Fix, ...], effects: Mapping[str, Effect]) -> tuple[Fix, ...]:
    """Fixes by what they do to the plan: outside it first, then those that fit, the same job and least time first.

    Args:
        fixes: In order of how much they are to the point.
        effects: By the name of the change; a planned change that is not in it does not apply here and is left out.
    """
    kept = [fix for fix in fixes if not fix.change or fix.change in effects]

    timed = all(effects[fix.change].time_frac is not None for fix in kept if fix.change)

    def place(fix: Fix) -> tuple[int, bool, float, int]:
        effect = effects.get(fix.change) if fix.change else None
        if effect is None:
            return (-1, False, 0.0, 0)
        if not timed:
            return (ORDER[effect.verdict], effect.other_job, 0.0, 0)
        price = effect.time_frac if effect.price_frac is None else effect.price_frac
        return (ORDER[effect.verdict], effect.other_job, price or 0.0, effect.delta_bytes)

    return tuple(sorted(kept, key=place))
