"""`diagnose`: a reading of a text, and a plan where there is one, to what happened and what to do."""

from dataclasses import dataclass
from typing import Final

from planner.diagnose.causes import NO_FAILURE, Cause, Why, why
from planner.diagnose.engine import engine_of, file_bits, is_of_other_run, is_of_server
from planner.diagnose.failure import Failure
from planner.diagnose.fixes import Fix, fixes_for
from planner.diagnose.layers import Layers, layers_of, unallocated_of
from planner.diagnose.links import Links, links_of
from planner.diagnose.phases import phase_of
from planner.diagnose.record import Fact, Record
from planner.diagnose.remarks import LATE_STEPS, Remark, remarks_beside, remarks_of, remarks_on
from planner.diagnose.scan import Reading, read_whole
from planner.diagnose.tensors import Match, Tensor, is_small, matches, named, tensors_of
from planner.diagnose.vain import Vain, vain_for
from planner.ledger import Layer, Phase
from planner.plan_types import DevicePlan, Plan
from planner.units import MIB

UNFUSED: Final = ("_foreach", "_multi_tensor", "_single_tensor", "denom = ")
"""Signs that the optimizer's step runs tensor by tensor or list by list: the fused one has no such lines."""
ENGINE_SPARE_BYTES: Final = 457 * MIB
"""What Ollama leaves free on a CUDA card."""
WRAPPERS: Final = frozenset({"vllm_load"})
CONSEQUENCES: Final = frozenset({"host_signal", "torch_driver", "nvml_lost", "nccl_memory", "nccl_timeout"})
"""Often the echo of a failure that is told in full elsewhere in the text."""
FIGURES_FIRST: Final = (
    "ollama_offload", "memory_summary", "deepspeed_usage", "megatron", "nemo", "nvidia_smi_query", "nvidia_smi",
    "vllm_profile", "vllm_budget", "vllm_kv", "sglang_kv", "llama_cpp", "deepspeed_allocated", "deepspeed_config",
)  # fmt: skip
_PHASES: Final = {
    "optimizer_step": Phase.OPTIMIZER_STEP,
    "loss": Phase.LOSS,
    "forward": Phase.FORWARD,
    "attention": Phase.FORWARD,
    "backward": Phase.BACKWARD,
}
_SUSPECTS: Final = {
    "save": ("whole_weights_fp32",),
    "optimizer_step": ("optimizer_temporary",),
    "loss": ("logits_fp32",),
    "attention": ("attention_scores",),
    "load": ("vocabulary_matrix",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What happened.

    Attributes:
        reading: All that the text holds.
        record: The record that is judged: the newest failure with figures, or figures alone; None where there is none.
        layers: What was on the card.
        why: The cause.
        phase: Where in the program it was, None where nothing says it.
        tensor: What was asked for, of the plan's tensors; without a request, the likeliest of them.
        matches: All tensors of that size.
        num_tensors: How many sizes were compared.
        device: The group of cards of the plan that failed; the fullest where the text names none of it.
        plan_phase_bytes: What the plan has allocated at that phase, on that card.
        missing_bytes: Request less what was free.
        fixes: What to do, in order.
        vain: What would not help.
        remarks: What else should be said.
        figures: Values worked out beside the record's own, by name.
        links: How the ranks are joined, where NCCL's lines are in the text.
    """

    reading: Reading
    record: Record | None
    layers: Layers | None
    why: Why
    phase: str | None
    tensor: Tensor | None
    matches: tuple[Match, ...]
    num_tensors: int
    device: DevicePlan | None
    plan_phase_bytes: int | None
    missing_bytes: int | None
    fixes: tuple[Fix, ...]
    vain: tuple[Vain, ...]
    remarks: tuple[Remark, ...]
    figures: tuple[tuple[str, Fact], ...] = ()
    links: Links | None = None

    @property
    def failed(self) -> bool:
        """Whether something failed."""
        return self.why.cause not in NO_FAILURE and (self.record is None or self.record.failure)


def diagnose(reading: Reading | str, plan: Plan | None = None) -> Diagnosis:
    """Say what happened. Never raises for any text.

    Args:
        reading: What was read, or a text.
        plan: The plan that was run, if there is one.
    """
    reading = read_whole(reading) if isinstance(reading, str) else reading
    record = _chosen(reading)
    layers = layers_of(record) if record is not None else None
    cause = _cause(reading, record, layers, plan)
    phase = _phase(reading, record)
    device = _device(record, plan)
    other_run = plan is not None and is_of_other_run(record, plan)
    tensors = () if plan is None or device is None or other_run else tensors_of(plan, device)
    found = _matches(record, tensors)
    failure = Failure(
        why=cause,
        phase=phase,
        tensor=found[0].tensor if found else _suspect(record, phase, tensors, plan),
        plan=plan,
        figures=_asked(record) | _lengths(record),
        engine=engine_of(record, plan),
        of_server=is_of_server(record),
        form=record.form if record is not None else "",
        other_run=other_run,
        bits=file_bits(record),
        late=reading.steps >= LATE_STEPS,
        foreach=any(mark in line for line in reading.context for mark in UNFUSED),
    )
    return Diagnosis(
        reading=reading,
        record=record,
        layers=layers,
        why=cause,
        phase=phase,
        tensor=failure.tensor,
        matches=found,
        num_tensors=len(tensors),
        device=device,
        plan_phase_bytes=_plan_bytes(phase, device),
        missing_bytes=_missing_bytes(failure),
        fixes=fixes_for(failure),
        vain=tuple(vain_for(failure)),
        remarks=(
            *remarks_of(record, cause, phase, reading.steps, reading.records, plan),
            *remarks_beside(record, device),
            *(remarks_on(plan) if plan is not None else ()),
        ),
        figures=_figures(record, cause, plan),
        links=links_of(reading.records),
    )


def _cause(reading: Reading, record: Record | None, layers: Layers | None, plan: Plan | None) -> Why:
    if record is None:
        return Why(cause=Cause.NOTHING)
    forms = {one.form for one in reading.records}
    recovered = "llama_cpp_retry" in forms and "llama_cpp_buffer" not in forms
    return why(record, layers, plan, recovered=recovered)


def _asked(record: Record | None) -> dict[str, int | None]:
    """Bytes that were asked for, that were free, and that the allocator held unused."""
    if record is None:
        return {"request": None, "free": None, "unallocated": None}
    cached = unallocated_of(record)
    return {
        "request": record.bytes("request"),
        "free": record.bytes("free"),
        "unallocated": cached.bytes if cached else None,
    }


def _missing_bytes(failure: Failure) -> int | None:
    request, free = failure.figures["request"], failure.figures["free"]
    return None if request is None or free is None else request - free


def _lengths(record: Record | None) -> dict[str, int | None]:
    """Tokens of a server's longest request, and those that its KV cache can hold."""
    told = [
        record.number(name) if record is not None else None
        for name in ("max_len", "max_fit_len", "kv_tokens")
    ]
    length, *fits = (None if number is None else int(number) for number in told)
    return {"length": length, "fits": next((number for number in fits if number is not None), None)}


def _chosen(reading: Reading) -> Record | None:
    """The record to judge: a failure with figures before its echoes, the newest, and of one request the least free."""
    failures = reading.failures
    if not failures:
        return _figures_of(reading.records)
    telling = [r for r in failures if r.form not in CONSEQUENCES | WRAPPERS] or list(failures)
    with_figures = [r for r in telling if r.sizes or (r.facts and not r.form.startswith("torch"))] or telling
    newest = with_figures[-1]
    alike = [
        r for r in with_figures if r.form == newest.form and r.bytes("request") == newest.bytes("request")
    ]
    return min(alike, key=lambda r: (r.bytes("free") is None, r.bytes("free") or 0))


def _figures_of(records: tuple[Record, ...]) -> Record | None:
    """The newest of the most telling form; of several cards in one listing the fullest."""
    for form in FIGURES_FIRST:
        alike = [r for r in records if r.form == form and (r.sizes or r.facts)]
        if not alike:
            continue
        if form.startswith("nvidia_smi"):
            return max(alike, key=lambda r: (r.bytes("used") or 0) / (r.bytes("total") or 1))
        return alike[-1]
    return records[-1] if records else None


def _phase(reading: Reading, record: Record | None) -> str | None:
    if record is None:
        return None
    told = record.fact("phase")
    if isinstance(told, str):
        return told
    if record.form.startswith("llama_cpp"):
        return next((str(r.fact("phase")) for r in reading.records if r.fact("phase") is not None), None)
    return phase_of(reading.context) if record.failure else None


def _device(record: Record | None, plan: Plan | None) -> DevicePlan | None:
    if plan is None:
        return None
    number = record.device if record is not None and record.device is not None else None
    rank = record.rank if record is not None else None
    for wanted in (number, rank):
        found = next((d for d in plan.devices if wanted in d.indices), None)
        if found is not None:
            return found
    return plan.worst


def _matches(record: Record | None, tensors: tuple[Tensor, ...]) -> tuple[Match, ...]:
    if record is None or not record.failure:
        return ()
    request = record.size("request")
    is_torch = record.form.startswith("torch")
    if request is None or not request.bytes or (is_torch and is_small(request)):
        return ()
    return matches(request, tensors, segments=is_torch)


def _suspect(
    record: Record | None, phase: str | None, tensors: tuple[Tensor, ...], plan: Plan | None
) -> Tensor | None:
    """Without a figure for the request: the tensor of the phase, or the largest that comes and goes."""
    if record is None or plan is None or record.size("request") is not None:
        return None
    if record.form not in {"torch_unknown", "vllm_load"} or not tensors:
        return None
    if phase in _SUSPECTS:
        return named(tensors, *_SUSPECTS[phase])
    if not plan.resolved.is_training or phase is not None:
        return None
    asked = plan.resolved.training
    names = ["optimizer_temporary"] if asked.optimizer.implementation == "foreach" else []
    if asked.loss in {None, "standard", "fused"}:
        names.append("logits_fp32")
    if asked.attention == "eager":
        names.append("attention_scores")
    likely = [tensor for name in names for tensor in [named(tensors, name)] if tensor is not None]
    return max(likely, key=lambda tensor: tensor.bytes, default=None)


def _plan_bytes(phase: str | None, device: DevicePlan | None) -> int | None:
    planned = _PHASES.get(phase or "")
    if planned is None or device is None or planned not in device.ledger.phases:
        return None
    return device.ledger.phase_bytes(planned, Layer.ALLOCATED)


def _figures(record: Record | None, cause: Why, plan: Plan | None) -> tuple[tuple[str, Fact], ...]:
    """What follows from the record, by itself and together with the plan."""
    if record is None:
        return ()
    if cause.cause is Cause.ENGINE_MINIMUM and (least := _engine_minimum(record)) is not None:
        return (("minimum_bytes", least),)
    if plan is None:
        return ()
    if cause.cause is Cause.CONFIG_AUTO:
        h = plan.model.hidden_size
        return (
            ("reduce_bucket_elements", h * h),
            ("prefetch_bucket_elements", int(0.9 * h * h)),
            ("persistence_threshold_elements", 10 * h),
        )
    if cause.cause is Cause.POOL_BY_DESIGN and plan.serving is not None:
        served = plan.serving
        share = plan.resolved.serving.memory_utilization
        found: list[tuple[str, Fact]] = [
            ("needs_bytes", served.needs_bytes),
            ("reserves_bytes", served.reserves_bytes),
        ]
        return (*found, ("pool_frac", share)) if share is not None else tuple(found)
    return ()


def _engine_minimum(record: Record) -> int | None:
    """What Ollama must find free before it puts one layer on a card; None where the line lacks a part.

    Overhead, projector with its graph, the larger graph, a spare of 457 MiB and two layers; a layer is its weights and
    its share of the cache. Ollama 0.7 `llm/memory.go`, `EstimateGPULayers`; `discover/gpu.go`, `cudaMinimumMemory`.
    """
    layers = record.number("layers_model")
    needed = [record.bytes(name) for name in ("weights", "graph", "graph_partial")]
    if layers is None or layers < 2 or any(size is None for size in needed):
        return None
    weights, *graphs = (size or 0 for size in needed)
    beside = sum(record.bytes(name) or 0 for name in ("overhead", "projector", "projector_graph"))
    return beside + max(graphs) + ENGINE_SPARE_BYTES + 2 * round(weights / (layers - 1))
