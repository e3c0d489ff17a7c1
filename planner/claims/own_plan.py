"""Rules of thumb put to the open plan: what each says for this very job, beside what the planner finds."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from planner.claims.training import STATES, activation_bytes, allocated, of_activations
from planner.claims.types import Figure, Unit, worked
from planner.estimate import plan as make_plan
from planner.hardware import Gpu, Tables
from planner.issues import ScenarioError
from planner.ledger import Category
from planner.memory.kv_cache import model_shapes
from planner.memory.weight_formats import FORMATS
from planner.plan_types import DevicePlan, Plan
from planner.requests.lengths import CHAT, CHAT_PROMPT_FRAC, draw, prompts
from planner.requests.reservation import paged
from planner.scenario import to_document
from planner.throughput.training_speed import training_speed
from planner.units import GB
from planner.validation import parse_scenario

HALF: Final = 2
WITHOUT_MASTER: Final = 12
WITH_MASTER: Final = 16
KEPT_FREE: Final = 0.2
REQUESTS: Final = 500
BLOCK: Final = 16
SHARDERS: Final = frozenset({"deepspeed", "hf_trainer", "generic"})
FULL: Final = frozenset({"full", "pretrain"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of thumb on one plan.

    Attributes:
        claim: The row of the founding articles it is from (`g7`, `a7`); locale files word `rule.<figure name>`.
        figure: What it says, and what the planner finds.
    """

    claim: str
    figure: Figure


def rules(plan: Plan, tables: Tables) -> tuple[Rule, ...]:
    """Every rule that speaks of such a job; those whose other half can't be planned are left out."""
    ways = (*_ANY, *(_TRAINING if plan.resolved.is_training else _SERVING))
    return tuple(rule for way in ways for rule in way(plan, tables))


def _rule(
    claim: str, name: str, said: float, found: float, unit: Unit, formula: str = "", **symbols: float
) -> Rule:
    return Rule(claim=claim, figure=worked(name, said, unit, formula, symbols, found))


def _of_activations(rule: Rule) -> Rule:
    return replace(rule, figure=of_activations(rule.figure))


def _changed(plan: Plan, tables: Tables, **changes: Any) -> Plan | None:
    """The same question with other values (`__` for a dot); None where that is no question."""
    document = copy.deepcopy(to_document(plan.scenario))
    for path, value in changes.items():
        *above, name = path.split("__")
        block = document
        for part in above:
            block[part] = block.get(part) or {}
            block = block[part]
        block[name] = value
    scenario, _ = parse_scenario(document)
    try:
        return None if scenario is None else make_plan(scenario, tables)
    except ScenarioError:
        return None


def _cards(plan: Plan) -> int:
    return sum(len(device.indices) for device in plan.devices)


def _copies(plan: Plan) -> int:
    """Whole copies of the states: one for every data-parallel rank, unless they are divided."""
    parallel = plan.resolved.parallel
    if parallel.sharding != "none":
        return 1
    return max(1, _cards(plan) // (parallel.tensor * parallel.pipeline * parallel.context))


def _states(plan: Plan) -> int:
    """Weights, gradients and optimizer states of all cards, each at its fullest."""
    return sum(len(device.indices) * _states_of(device) for device in plan.devices)


def _states_of(device: DevicePlan) -> int:
    ledger = device.ledger
    return max(sum(ledger.by_category(phase).get(kind, 0) for kind in STATES) for phase in ledger.phases)


# --- any job


def _margin(plan: Plan, tables: Tables) -> Iterator[Rule]:
    """A fifth of the card kept free, as a stand-in for what is worked out here."""
    worst = plan.worst
    gpu: Gpu | None = tables.gpus.get(worst.gpu_id)
    if gpu is None or gpu.memory_nominal_gb is None or worst.usable_bytes is None:
        return
    whole, share = gpu.memory_nominal_gb * GB, plan.scenario.hardware.margin_frac
    found = worst.usable_bytes * (1 - share)
    yield _rule(
        "a7", "margin", (1 - KEPT_FREE) * whole, found, "bytes", "U*(1 - m)", U=worst.usable_bytes, m=share
    )


def _weights(plan: Plan, _tables: Tables) -> Iterator[Rule]:
    """Parameters times the bits of the format."""
    asked = plan.resolved
    name = asked.training.precision.parameters if asked.is_training else asked.serving.weights
    kind = FORMATS.get(name or "")
    if kind is None or asked.task in {"lora", "qlora"}:
        return
    size = {"quantized": round(kind.bits) / 8, "gguf": kind.bits // 1 / 8}.get(kind.family, kind.bits / 8)
    held = sum(
        len(device.indices) * device.ledger.category_bytes(phase, Category.WEIGHTS)
        for device in plan.devices
        for phase in device.ledger.phases[:1]
    )
    copies = _copies(plan)
    symbols = {"P": plan.model.params_total, "w": size, "n": copies}
    yield _rule("g3", "weights", plan.model.params_total * size * copies, held, "bytes", "P*w*n", **symbols)


# --- training


def _bytes_per_parameter(plan: Plan, _tables: Tables) -> Iterator[Rule]:
    """Twelve or sixteen bytes a parameter, over the whole job."""
    if plan.resolved.task not in FULL:
        return
    held, parameters, copies = _states(plan), plan.model.params_total, _copies(plan)
    for each in (WITHOUT_MASTER, WITH_MASTER):
        said = parameters * each * copies
        yield _rule("g2", f"states_{each}", said, held, "bytes", "P*c*n", P=parameters, c=each, n=copies)


def _tenth(plan: Plan, _tables: Tables) -> Iterator[Rule]:
    """A tenth of the weights times the batch."""
    weights, batch = plan.model.params_total * HALF, plan.resolved.training.micro_batch
    said, found = 0.1 * weights * batch, activation_bytes(plan)
    yield _of_activations(
        _rule("g7", "activations_tenth", said, found, "bytes", "0.1*W*b", W=weights, b=batch)
    )


def _longer(plan: Plan, tables: Tables) -> Iterator[Rule]:
    """Twice the batch, twice the length."""
    before = activation_bytes(plan)
    training = plan.resolved.training
    for claim, name, path, value, said in (
        ("g5", "batch_doubled", "training__micro_batch", training.micro_batch, 2),
        ("g6", "sequence_doubled", "training__sequence_length", training.sequence_length, 4),
    ):
        after = _changed(plan, tables, **{path: 2 * value})
        if after is not None and before:
            yield _of_activations(_rule(claim, name, said, activation_bytes(after) / before, "ratio"))


def _checkpointing(plan: Plan, tables: Tables) -> Iterator[Rule]:
    """What checkpointing every layer saves of activations, and costs in time."""
    without, full = (
        _changed(plan, tables, training__checkpointing=kind, training__checkpoint_every=None)
        for kind in ("none", "full")
    )
    if without is None or full is None or not activation_bytes(without):
        return
    saved = 1 - activation_bytes(full) / activation_bytes(without)
    yield _of_activations(_rule("g9", "checkpointing_saves", 0.5, saved, "frac"))
    before, after = (training_speed(made, tables).step_time_s for made in (without, full))
    if before and after:
        yield _rule("g9", "checkpointing_costs", 0.33, after / before - 1, "frac")


def _zero(plan: Plan, tables: Tables) -> Iterator[Rule]:
    """What ZeRO-2 saves, and what ZeRO-3 leaves on a card."""
    runtime, cards = plan.resolved.runtime.name, _cards(plan)
    parallel = plan.resolved.parallel
    alone = cards == parallel.tensor * parallel.context
    if alone or parallel.pipeline > 1 or runtime not in SHARDERS:
        return
    plain, second, third = (
        plan if parallel.sharding in names else _changed(plan, tables, parallel__sharding=names[0])
        for names in (("none",), ("zero2",), ("zero3", "fsdp"))
    )
    if plain is not None and second is not None:
        yield _rule("g10", "zero2_saves", 0.6, 1 - allocated(second) / allocated(plain), "frac")
    if third is not None:
        working, parameters = activation_bytes(third), plan.model.params_total
        said = parameters * HALF / cards + working
        yield _of_activations(
            _rule(
                "g27", "zero3_card", said, allocated(third), "bytes", "P*w/N + A",
                P=parameters, w=HALF, N=cards, A=working,
            )
        )  # fmt: skip


def _offload(plan: Plan, tables: Tables) -> Iterator[Rule]:
    """Optimizer states in host memory cost almost nothing, it is said."""
    if plan.resolved.parallel.sharding in {"none", "zero1"}:
        return
    kept, moved = (
        _changed(plan, tables, parallel__offload={"optimizer": where}) for where in ("none", "cpu")
    )
    if kept is None or moved is None:
        return
    before, after = (training_speed(made, tables).step_time_s for made in (kept, moved))
    if before and after:
        yield _rule("g33", "offload_costs", 0.0, after / before - 1, "frac")


# --- serving


def _cache(plan: Plan, _tables: Tables) -> Iterator[Rule]:
    """Two times hidden size times layers a token, whatever the heads."""
    served, model, asked = plan.serving, plan.model, plan.resolved.serving
    if served is None or not model.hidden_size:
        return
    sequences = (plan.resolved.workload.concurrency if plan.resolved.workload else None) or 1
    tokens, layers = sequences * served.context_tokens, len(model.layers)
    kind = asked.kv_cache or "bf16"
    token = sum(
        shape.token_bytes(kind, asked.kv_cache_v or kind) * count
        for shape, count in model_shapes(model, model.layers, 1).items()
        if not shape.ring
    )
    symbols = {"t": tokens, "h": model.hidden_size, "L": layers, "e": HALF}
    said = 2 * tokens * model.hidden_size * layers * HALF
    yield _rule("g8", "kv_cache", said, tokens * token, "bytes", "2*t*h*L*e", **symbols)


def _paged(plan: Plan, _tables: Tables) -> Iterator[Rule]:
    """Paging uses nearly all of the cache it takes."""
    served = plan.serving
    if served is None or plan.resolved.runtime.name not in {"vllm", "sglang"}:
        return
    lengths = plan.resolved.workload.length_distribution if plan.resolved.workload else None
    total = draw(lengths or CHAT, REQUESTS, longest=max(2, served.context_tokens))
    total = total[total > 1]
    if not total.size:
        return
    block = plan.resolved.serving.block_size or BLOCK
    held = paged(prompts(total, CHAT_PROMPT_FRAC), total, block)
    yield _rule("g11", "paged_used", 0.96, held.used_frac, "frac")


def _fewer_bits(plan: Plan, tables: Tables) -> Iterator[Rule]:
    """Four bits save seven eighths, it is said."""
    runtime = plan.resolved.runtime.name
    format_of = {"llama_cpp": ("q4_k_m", "f16"), "ollama": ("q4_k_m", "f16")}.get(runtime, ("awq4", "bf16"))
    few, plain = (_changed(plan, tables, serving__weights=name) for name in format_of)
    if few is None or plain is None:
        return
    held = [
        made.worst.ledger.category_bytes(made.worst.peak_phase, Category.WEIGHTS) for made in (few, plain)
    ]
    if held[1]:
        yield _rule("g24", "four_bits_save", 0.875, 1 - held[0] / held[1], "frac")


Way = Callable[[Plan, Tables], Iterator[Rule]]
_ANY: Final[tuple[Way, ...]] = (_margin, _weights)
_TRAINING: Final[tuple[Way, ...]] = (_bytes_per_parameter, _tenth, _longer, _checkpointing, _zero, _offload)
_SERVING: Final[tuple[Way, ...]] = (_cache, _paged, _fewer_bits)
