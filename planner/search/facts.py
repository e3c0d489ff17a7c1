"""What of a list of variants is needed as arrays, and which of them have a part of the work in common."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.runtimes.abilities import ABILITIES
from planner.scenario import Offload, Optimizer, Parallel, Scenario, Training
from planner.search.space import Variant
from planner.training.setup import casts_module

Rows = NDArray[np.intp]
Part = TypeVar("Part", bound=Hashable)
GATHERS: Final = "fsdp"
"""Its gathered copies are in the compute format, so that autocast finds nothing to cast."""
CAST: Final = "zero"
"""An engine that makes the model 16-bit, whichever of its stages."""
REDUCED_LAST: Final = ("none", "zero1")
"""What Megatron-LM reduces when the last backward pass is over."""
ANY_NUMBER: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Facts:
    """Of V variants. The last arrays are equal where variants have something in common; degrees are in all of them.

    Attributes:
        copy: Cards of a copy of the model, (V,).
        tensor: Degrees, (V,).
        context: Degrees, (V,).
        pipeline: Degrees, (V,).
        stage: Which states are divided, as stages of ZeRO, (V,).
        sharded: Whether any are, (V,).
        offloads: Whether optimizer states are on the host, (V,).
        without_bf16: Whether it is for cards that have no bf16, (V,).
        most_cards: That the framework runs on, (V,).
        formats: Number formats and kernels, as far as a card decides about them.
        format_array: The same as an array.
        courses: All but the optimizer and where its states are.
        optimizers: All but sharding and checkpointing.
        steps: All but checkpointing.
        layouts: All but the optimizer, where its states are, and sharding, as far as it changes no format.
        reducers: All but checkpointing, the optimizer and where its states are.
    """

    copy: NDArray[np.int64]
    tensor: NDArray[np.int64]
    context: NDArray[np.int64]
    pipeline: NDArray[np.int64]
    stage: NDArray[np.int64]
    sharded: NDArray[np.bool_]
    offloads: NDArray[np.bool_]
    without_bf16: NDArray[np.bool_]
    most_cards: NDArray[np.int64]
    formats: list[int]
    format_array: NDArray[np.int64]
    courses: NDArray[np.int64]
    optimizers: NDArray[np.int64]
    steps: NDArray[np.int64]
    layouts: NDArray[np.int64]
    reducers: NDArray[np.int64]


ZERO: Final = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}


def facts_of(variants: Sequence[Variant]) -> Facts:
    """Everything at once."""
    scenarios = [variant.resolved for variant in variants]
    stage = np.array([ZERO[scenario.parallel.sharding] for scenario in scenarios], np.int64)
    formats = numbered(
        (s.runtime, s.training.precision, s.training.attention, s.training.kernels) for s in scenarios
    )
    jobs = numbered((s.task, s.adapter, s.runtime) for s in scenarios)
    training, parallel = [s.training for s in scenarios], [s.parallel for s in scenarios]
    unplaced = _numbered_after(parallel, _unplaced)
    fixed = _numbered_after(training, _without_optimizer)
    limits = [ABILITIES.get(s.runtime.name, ABILITIES["generic"]).most_cards for s in scenarios]
    return Facts(
        copy=np.array([variant.copy for variant in variants], np.int64),
        tensor=np.array([variant.tensor for variant in variants], np.int64),
        context=np.array([variant.context for variant in variants], np.int64),
        pipeline=np.array([variant.pipeline for variant in variants], np.int64),
        stage=stage,
        sharded=stage > 0,
        offloads=np.array([s.parallel.offload.optimizer != "none" for s in scenarios], bool),
        without_bf16=np.array([variant.settings["compute"] == "fp16" for variant in variants], bool),
        most_cards=np.array([ANY_NUMBER if most is None else most for most in limits], np.int64),
        formats=formats,
        format_array=np.array(formats, np.int64),
        courses=_array(jobs, fixed, unplaced),
        optimizers=_array(jobs, _numbered_after(training, _uncut), _numbered_after(parallel, _unsharded)),
        steps=_array(jobs, _numbered_after(training, _uncut), numbered(parallel)),
        layouts=_array(jobs, fixed, _numbered_after([(s.parallel, _kept(s)) for s in scenarios], _as_kept)),
        reducers=_array(
            jobs, _numbered_after(training, lambda one: _without_optimizer(_uncut(one))), unplaced
        ),
    )


def numbered(keys: Iterable[Hashable]) -> list[int]:
    """A number for each key, equal keys the same."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _array(*parts: list[int]) -> NDArray[np.int64]:
    """Numbers of what is equal in all its parts."""
    return np.array(numbered(zip(*parts, strict=True)), np.int64)


def _numbered_after(parts: Sequence[Part], change: Callable[[Part], Hashable]) -> list[int]:
    """Numbers of what is equal after a change, which is made once for all that are equal before it.

    Args:
        parts: One of each variant.
        change: Takes away what does not count.
    """
    before = numbered(parts)
    first: dict[int, Part] = {}
    for number, part in zip(before, parts, strict=True):
        first.setdefault(number, part)
    after = numbered(map(change, first.values()))
    return [after[number] for number in before]


def _uncut(training: Training) -> Training:
    return training.model_copy(update={"checkpointing": None})


def _without_optimizer(training: Training) -> Training:
    return training.model_copy(update={"optimizer": Optimizer()})


def _unplaced(parallel: Parallel) -> Parallel:
    return parallel.model_copy(update={"offload": Offload()})


def _unsharded(parallel: Parallel) -> Parallel:
    return parallel.model_copy(update={"sharding": "none"})


def _as_kept(told: tuple[Parallel, str]) -> Parallel:
    parallel, sharding = told
    return _unplaced(parallel.model_copy(update={"sharding": sharding}))


def _kept(scenario: Scenario) -> str:
    """The sharding as far as a step's formats and what it hides depend on it."""
    sharding, megatron = scenario.parallel.sharding, scenario.runtime.name == "megatron_lm"
    if casts_module(scenario):
        return CAST
    return sharding if sharding == GATHERS or (megatron and sharding not in REDUCED_LAST) else "none"
