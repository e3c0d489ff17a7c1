"""What each technique of a training question does: the same job without any of them, then one more at a time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from planner.plan_types import Plan
from planner.scenario import Scenario
from ui.answers import REMEMBERED, answer
from ui.document import Document, canonical, put_all

Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One technique of a question.

    Attributes:
        name: Words are `waterfall.step.<name>`.
        without: Fields of the question without it.
        given: The same fields with it, as this question has them.
    """

    name: str
    without: Values
    given: Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The question with one more technique.

    Attributes:
        names: The technique; several where it can't be planned without the next.
        peak_bytes: Need of the fullest card with it and all before it; None where it can't be planned.
    """

    names: tuple[str, ...]
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The way from the plain job to the question.

    Attributes:
        plain_bytes: Need of the fullest card without any technique.
        steps: Each technique in order; the last one's peak is the question's own.
        usable_bytes: What the limiting card of the question offers, None if not known.
    """

    plain_bytes: int
    steps: tuple[Step, ...]
    usable_bytes: int | None


def effects(document: Document, plan: Plan) -> Effects | None:
    """The way from the plain job; None when serving, without techniques, or where the plain job can't be planned."""
    return _effects(canonical(document)) if plan.resolved.is_training else None


@lru_cache(maxsize=REMEMBERED)
def _effects(text: str) -> Effects | None:
    document: Document = json.loads(text)
    plan = answer(document).plan
    if plan is None:
        return None
    found = tuple(techniques(plan.resolved))
    changed = _put(document, [values for technique in found for values in technique.without.items()])
    plain = answer(changed).plan
    if plain is None or not found:
        return None
    steps: list[Step] = []
    waiting: list[str] = []
    for technique in found:
        last = technique is found[-1]
        changed = document if last else _put(changed, list(technique.given.items()))
        names = (*waiting, technique.name)
        after = answer(changed).plan
        waiting = [] if after else list(names)
        if after is not None:
            steps.append(Step(names=names, peak_bytes=after.worst.peak_bytes))
    usable = plan.worst.usable_bytes
    return Effects(plain_bytes=plain.worst.peak_bytes, steps=tuple(steps), usable_bytes=usable)


def _put(document: Document, values: list[tuple[str, Any]]) -> Document:
    return put_all(document, dict(values))


def techniques(resolved: Scenario) -> Iterator[Technique]:
    """The techniques a resolved question has, in the order in which one would reach for them."""
    yield from _method(resolved)
    yield from _step(resolved)
    yield from _optimizer(resolved)
    yield from _parallel(resolved)


def _method(resolved: Scenario) -> Iterator[Technique]:
    adapter = resolved.adapter
    if resolved.task not in {"lora", "qlora"} or adapter is None:
        return
    given = adapter.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    if resolved.task == "lora":
        yield Technique(
            name="lora", without={"task": "full", "adapter": None}, given={"task": "lora", "adapter": given}
        )
        return
    unpacked = {key: value for key, value in given.items() if key != "base"}
    yield Technique(
        name="lora", without={"task": "full", "adapter": None}, given={"task": "lora", "adapter": unpacked}
    )
    yield Technique(name="packed_base", without={}, given={"task": "qlora", "adapter": given})


def _step(resolved: Scenario) -> Iterator[Technique]:
    training = resolved.training
    if training.attention in {"flash", "sdpa", "flex"}:
        yield _one("attention", "training.attention", "eager", training.attention)
    if training.loss not in {None, "standard"}:
        yield _one("loss", "training.loss", "standard", training.loss)
    if training.checkpointing not in {None, "none"}:
        yield _one("checkpointing", "training.checkpointing", "none", training.checkpointing)
    if training.activation_offload:
        yield _one("activation_offload", "training.activation_offload", False, True)


def _optimizer(resolved: Scenario) -> Iterator[Technique]:
    optimizer, offload = resolved.training.optimizer, resolved.parallel.offload
    if optimizer.name not in {"adamw", "adam"}:
        yield _one("optimizer", "training.optimizer.name", "adamw", optimizer.name)
    if optimizer.paged:
        yield _one("paged", "training.optimizer.paged", False, True)
    if optimizer.in_backward:
        yield _one("in_backward", "training.optimizer.in_backward", False, True)
    if resolved.parallel.sharding != "none":
        yield _one("sharding", "parallel.sharding", "none", resolved.parallel.sharding)
    for part in ("optimizer", "parameters", "gradients"):
        where = getattr(offload, part)
        if where != "none":
            yield _one(f"offload_{part}", f"parallel.offload.{part}", "none", where)


def _parallel(resolved: Scenario) -> Iterator[Technique]:
    parallel = resolved.parallel
    if parallel.stages is not None:
        return
    if parallel.tensor > 1:
        alone: Values = {"parallel.tensor": 1, "parallel.data": None}
        yield Technique(name="tensor", without=alone, given={"parallel.tensor": parallel.tensor})
    if parallel.sequence:
        yield _one("sequence", "parallel.sequence", False, True)
    if parallel.pipeline_layers is None and parallel.pipeline > 1:
        given: Values = {
            "parallel.pipeline": parallel.pipeline,
            "parallel.virtual_stages": parallel.virtual_stages,
            "parallel.pipeline_schedule": parallel.pipeline_schedule,
        }
        without = {**dict.fromkeys(given), "parallel.pipeline": 1, "parallel.data": None}
        yield Technique(name="pipeline", without=without, given=given)


def _one(name: str, path: str, without: Any, given: Any) -> Technique:
    return Technique(name=name, without={path: without}, given={path: given})
