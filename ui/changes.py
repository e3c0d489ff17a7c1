"""What one change would do: the same question planned again with one thing different."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from planner.placement import stage_layers
from planner.placement_llama_cpp import LLAMA_FAMILY
from planner.plan_types import Plan, Verdict
from planner.scenario import Scenario
from planner.units import mib_bytes
from ui.answers import answer
from ui.document import Document, put_all
from ui.numbers import ranges, whole
from ui.tasks import with_task

MOST_SHOWN: Final = 6
LEAST_EFFECT_BYTES: Final = mib_bytes(64)
SHORTEST_SEQUENCE: Final = 512
ORDER: Final = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.UNKNOWN: 2, Verdict.DOES_NOT_FIT: 3}
OTHER_JOBS: Final = frozenset({"lora", "qlora", "half_sequence", "half_context", "half_concurrency"})
FULL_FORMATS: Final = frozenset({None, "bf16", "fp16", "fp32"})
NEXT_SHARDING: Final = {"none": "zero1", "zero1": "zero2", "zero2": "zero3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to a question.

    Attributes:
        name: Words are `change.<name>.what` and `change.<name>.note`.
        document: The question with it.
        params: Placeholders of the words.
        grows: Whether it spends memory rather than saving it.
    """

    name: str
    document: Document
    params: Mapping[str, str]
    grows: bool = False

    @property
    def other_job(self) -> bool:
        """Whether it answers another question than the one asked: another method, a shorter context."""
        return self.name in OTHER_JOBS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change with its plan.

    Attributes:
        change: What is different.
        plan: The answer to the changed question.
        delta_bytes: Need of the fullest card, after less before.
    """

    change: Change
    plan: Plan
    delta_bytes: int


def outcomes(document: Document, plan: Plan, most: int = MOST_SHOWN) -> tuple[Outcome, ...]:
    """Changes that matter, with their plans: those that make it fit first, then in the order of the list.

    Args:
        document: The question.
        plan: Its answer.
        most: How many to give.
    """
    found = []
    fits = plan.verdict is Verdict.FITS
    for change in _changes(document, plan):
        if change.grows and not fits:
            continue
        changed = answer(change.document).plan
        if changed is None:
            continue
        delta = changed.worst.peak_bytes - plan.worst.peak_bytes
        if abs(delta) >= LEAST_EFFECT_BYTES and (delta > 0) == change.grows:
            found.append(Outcome(change=change, plan=changed, delta_bytes=delta))
    if not fits:
        found.sort(key=lambda outcome: ORDER[outcome.plan.verdict])
    return tuple(found[:most])


def first_that_fits(found: tuple[Outcome, ...]) -> Outcome | None:
    """The first change that makes it fit, else the first that makes it tight."""
    for wanted in (Verdict.FITS, Verdict.TIGHT):
        for outcome in found:
            if outcome.plan.verdict is wanted:
                return outcome
    return None


def _changes(document: Document, plan: Plan) -> Iterator[Change]:
    longest = plan.model.max_position_embeddings
    if not plan.resolved.is_training:
        yield from _serving_growth(document, plan.resolved, longest)
        yield from _serving_savings(document, plan.resolved)
        return
    yield from _training_growth(document, plan.resolved, longest)
    yield from _moved_layer(document, plan)
    yield from _cheap_savings(document, plan.resolved)
    yield from _smaller_jobs(document, plan.resolved)


def _set(
    document: Document, name: str, changes: Mapping[str, Any], *, grows: bool = False, **params: str
) -> Change:
    return Change(name=name, document=put_all(document, changes), params=params, grows=grows)


def _moved_layer(document: Document, plan: Plan) -> Iterator[Change]:
    """One layer from the fullest stage to the one with the most room."""
    parallel = plan.resolved.parallel
    stages = parallel.pipeline
    if stages == 1 or parallel.stages or (parallel.virtual_stages or 1) > 1:
        return
    counts = list(stage_layers(plan.model.num_layers, parallel))
    target = max(plan.devices, key=lambda device: device.headroom_bytes or 0)
    source = plan.worst
    if source.stage == target.stage or counts[source.stage] < 2:
        return
    counts[source.stage] -= 1
    counts[target.stage] += 1
    yield _set(
        document,
        "move_layer",
        {"parallel.pipeline_layers": counts},
        gpu=ranges(target.indices),
        layers="\u00b7".join(map(str, counts)),
    )


def _cheap_savings(document: Document, resolved: Scenario) -> Iterator[Change]:
    """What saves memory and leaves the mathematics of the step as it is, or nearly."""
    training, parallel = resolved.training, resolved.parallel
    if training.loss != "fused_linear":
        yield _set(document, "fused_loss", {"training.loss": "fused_linear"})
    if training.attention == "eager":
        yield _set(document, "flash_attention", {"training.attention": "flash"})
    if training.optimizer.implementation == "foreach":
        yield _set(document, "fused_step", {"training.optimizer.implementation": "fused"})
    if training.optimizer.name == "adamw":
        yield _set(document, "adam_8bit", {"training.optimizer.name": "adamw_8bit"})
    if parallel.sharding in NEXT_SHARDING and _copies(resolved) > 1:
        level = NEXT_SHARDING[parallel.sharding]
        yield _set(document, level, {"parallel.sharding": level}, cards=whole(_copies(resolved)))
    if training.checkpointing != "full":
        yield _set(document, "checkpointing", {"training.checkpointing": "full"})


def _smaller_jobs(document: Document, resolved: Scenario) -> Iterator[Change]:
    """What makes the step smaller, slower, or another one."""
    training, parallel = resolved.training, resolved.parallel
    if training.micro_batch > 1:
        half = training.micro_batch // 2
        steps = training.gradient_accumulation * 2
        halved = {"training.micro_batch": half, "training.gradient_accumulation": steps}
        yield _set(document, "half_micro_batch", halved, size=whole(half), steps=whole(steps))
    if training.sequence_length >= 2 * SHORTEST_SEQUENCE:
        half = training.sequence_length // 2
        yield _set(document, "half_sequence", {"training.sequence_length": half}, size=whole(half))
    if parallel.offload.optimizer == "none" and resolved.task in {"pretrain", "full"}:
        sharding = parallel.sharding if parallel.sharding != "none" else "zero2"
        moved = {"parallel.offload.optimizer": "cpu", "parallel.sharding": sharding}
        yield _set(document, "offload", moved)
    if resolved.task == "full":
        yield Change(name="lora", document=with_task(document, "lora", {}), params={})
    if resolved.task == "lora":
        yield Change(name="qlora", document=with_task(document, "qlora", {}), params={})


def _training_growth(document: Document, resolved: Scenario, longest: int | None) -> Iterator[Change]:
    training = resolved.training
    double = training.micro_batch * 2
    yield _set(
        document, "double_micro_batch", {"training.micro_batch": double}, grows=True, size=whole(double)
    )
    longer = training.sequence_length * 2
    if longest is None or longer <= longest:
        doubled = {"training.sequence_length": longer}
        yield _set(document, "double_sequence", doubled, grows=True, size=whole(longer))
    if training.checkpointing not in {None, "none"}:
        yield _set(document, "no_checkpointing", {"training.checkpointing": "none"}, grows=True)


def _serving_growth(document: Document, resolved: Scenario, longest: int | None) -> Iterator[Change]:
    sequences = resolved.workload.concurrency if resolved.workload is not None else None
    context = resolved.serving.max_model_len
    if sequences is not None:
        double = sequences * 2
        doubled = {"workload.concurrency": double}
        yield _set(document, "double_concurrency", doubled, grows=True, size=whole(double))
    if context is not None and (longest is None or context * 2 <= longest):
        longer = context * 2
        yield _set(
            document, "double_context", {"serving.max_model_len": longer}, grows=True, size=whole(longer)
        )


def _serving_savings(document: Document, resolved: Scenario) -> Iterator[Change]:
    serving = resolved.serving
    sequences = resolved.workload.concurrency if resolved.workload is not None else None
    context = serving.max_model_len
    llama = resolved.runtime.name in LLAMA_FAMILY
    if serving.kv_cache in FULL_FORMATS:
        name, value = ("kv_q8_0", "q8_0") if llama else ("kv_fp8", "fp8")
        yield _set(document, name, {"serving.kv_cache": value})
    if serving.weights in FULL_FORMATS:
        for value in ("q8_0", "q4_k_m") if llama else ("fp8", "awq4"):
            yield _set(document, f"weights_{value}", {"serving.weights": value})
    if sequences is not None and sequences > 1:
        half = sequences // 2
        yield _set(document, "half_concurrency", {"workload.concurrency": half}, size=whole(half))
    if context is not None and context >= 2 * SHORTEST_SEQUENCE:
        half = context // 2
        yield _set(document, "half_context", {"serving.max_model_len": half}, size=whole(half))
    yield from _wider(document, resolved)


def _wider(document: Document, resolved: Scenario) -> Iterator[Change]:
    """Twice as many equal cards: one tensor-parallel group, or layers split over them where the engine does that."""
    rows = resolved.hardware.devices
    if len(rows) != 1:
        return
    cards = rows[0].count * 2
    if resolved.runtime.name in LLAMA_FAMILY:
        yield _set(document, "double_cards_split", {"hardware.devices.0.count": cards}, cards=whole(cards))
    else:
        tensor = resolved.parallel.tensor * 2
        changes = {"hardware.devices.0.count": cards, "parallel.tensor": tensor}
        yield _set(document, "double_cards", changes, cards=whole(cards), tensor=whole(tensor))


def _copies(resolved: Scenario) -> int:
    parallel = resolved.parallel
    return resolved.hardware.num_devices // max(1, parallel.tensor * parallel.pipeline)
