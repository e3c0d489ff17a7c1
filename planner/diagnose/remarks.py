"""What else should be said: oddities of the text, and habits of the plan's own path that surprise people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from planner.diagnose.causes import SHORT, Cause, Why
from planner.diagnose.engine import is_of_other_run
from planner.diagnose.record import Record
from planner.diagnose.tensors import is_small
from planner.issues import Param
from planner.plan_types import DevicePlan, Plan
from planner.units import ceil_div

LATE_STEPS: Final = 5
MEMORY_LINES: Final = frozenset({"deepspeed_usage", "megatron", "nemo"})
HOST_FULL_FRAC: Final = 0.75
QUANTIZED: Final = frozenset({"awq4", "gptq4", "nf4", "nf4_dq"})
OTHER_CARD_FRAC: Final = 0.2
"""A capacity this far from that of the plan's card is another card's, not the same one's driver or settings."""
LIMITED: Final = frozenset({"given", "free", "engine"})
"""Sources of a usable size that is not the card's own."""
GROUP: Final = 128
GROUP_BITS: Final = 20
"""A 16-bit scale and a 4-bit zero a group of AWQ's or GPTQ's."""
FROZEN_FP32_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A remark.

    Attributes:
        code: Stable id; locale files word it.
        params: Its values; names that end in `_bytes` are sizes.
    """

    code: str
    params: tuple[tuple[str, Param], ...] = ()


def _remark(code: str, **params: Param) -> Remark:
    return Remark(code=code, params=tuple(params.items()))


def remarks_of(
    record: Record | None,
    why: Why,
    phase: str | None,
    steps: int,
    records: tuple[Record, ...],
    plan: Plan | None,
) -> Iterator[Remark]:
    """Remarks on the text.

    Args:
        record: The record that is judged.
        why: Its cause.
        phase: Where in the program it was.
        steps: Steps that the text tells of.
        records: All that were read.
        plan: The open plan, if there is one.
    """
    host = next((r.number("host_frac") for r in records if r.fact("host_frac") is not None), None)
    if host is not None and host > HOST_FULL_FRAC:
        yield _remark("host_nearly_full", host_frac=host)
    if record is None:
        return
    if record.fact("own_unknown"):
        yield _remark("process_size_unknown")
    if record.failure and phase == "save":
        yield _remark("broken_checkpoint")
    if record.failure and steps >= LATE_STEPS and why.cause in SHORT:
        yield _remark("late_in_run", steps=steps)
    yield from _of_other_run(record, plan)
    if record.form == "torch_driver":
        yield from _line_before(records)
    yield from _of_request(record, why)
    if record.form == "xla":
        yield _remark("xla_preallocates")
    ranks = {r.rank for r in records if r.failure and r.rank is not None}
    if len(ranks) > 1 and why.cause is not Cause.TIMED_OUT:
        yield _remark("several_ranks", count=len(ranks))


def _of_other_run(record: Record, plan: Plan | None) -> Iterator[Remark]:
    """That the plan is not the run's, where a server's message says so."""
    if plan is None or not is_of_other_run(record, plan):
        return
    if plan.resolved.is_training:
        yield _remark("message_of_a_server")
    else:
        yield _remark(
            "message_of_other_run", file=record.fact("file") or record.form, model=plan.scenario.model.id
        )


def _line_before(records: tuple[Record, ...]) -> Iterator[Remark]:
    """What a framework's last memory line said, beside a message without figures."""
    for record in reversed(records):
        allocated, reserved = record.bytes("allocated"), record.bytes("reserved")
        if record.form in MEMORY_LINES and allocated is not None and reserved is not None:
            yield _remark("memory_line", line=record.line, allocated_bytes=allocated, reserved_bytes=reserved)
            return


def remarks_beside(record: Record | None, device: DevicePlan | None) -> Iterator[Remark]:
    """A remark where the card of the text is another than the plan's."""
    has = record.bytes("total") if record is not None else None
    if has is None or device is None or not device.usable_bytes or device.usable_source in LIMITED:
        return
    if abs(has - device.usable_bytes) > OTHER_CARD_FRAC * device.usable_bytes:
        yield _remark("other_card", has_bytes=has, gpu=device.gpu_name, planned_bytes=device.usable_bytes)


def _of_request(record: Record, why: Why) -> Iterator[Remark]:
    request, free = record.size("request"), record.bytes("free")
    if request is not None and record.form.startswith("torch") and is_small(request):
        yield _remark("small_request", request_bytes=request.bytes)
    if why.cause is Cause.DEMAND and request is not None and free is not None and free >= request.bytes:
        yield _remark("free_above_request", request_bytes=request.bytes, free_bytes=free)


def remarks_on(plan: Plan) -> Iterator[Remark]:
    """Remarks on the plan's own path, that its figure does not tell by itself."""
    asked = plan.resolved
    training, sharding = asked.training, asked.parallel.sharding
    if asked.task == "lora" and sharding == "fsdp":
        cards = asked.parallel.sharding_degree or asked.parallel.data or asked.hardware.num_devices
        held = ceil_div(FROZEN_FP32_BYTES * plan.model.params_total, max(1, cards))
        yield _remark("frozen_base_fp32", held_bytes=held, cards=cards)
    base = asked.adapter.base if asked.adapter is not None else None
    if asked.task == "qlora" and plan.model.has_experts and base in {None, "nf4", "nf4_dq", "int8"}:
        idle = sum(
            linear.params for layer in plan.model.layers for linear in layer.linears if linear.copies > 1
        )
        yield _remark("experts_stay_16_bit", held_bytes=2 * idle)
    if asked.is_training and asked.runtime.compile and training.checkpointing not in {None, "none"}:
        yield _remark("compile_undoes_checkpointing")
    weights = asked.serving.weights
    if not asked.is_training and plan.model.tie_word_embeddings and weights in QUANTIZED:
        yield _tied_head(plan)


def _tied_head(plan: Plan) -> Remark:
    """A head that is quantized can no longer be the embedding: both are kept."""
    model = plan.model
    elements = model.vocab_size * model.hidden_size
    head = elements // 2 + elements // GROUP * GROUP_BITS // 8
    ledger = plan.worst.ledger
    weights = sum(entry.bytes for entry in ledger.entries if entry.category.value == "weights")
    return _remark("tied_head_doubles", head_bytes=head, weights_bytes=weights, sum_bytes=weights + head)
