"""What of a list of variants is needed as arrays, and which of them have a part of the work in common."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.scenario import Offload, Optimizer, Scenario
from planner.search.space import ABILITIES, Variant

Rows = NDArray[np.intp]
GATHERS: Final = "fsdp"
"""Its gathered copies are in the compute format, so that autocast finds nothing to cast."""
REDUCED_LAST: Final = ("none", "zero1")
"""What Megatron-LM reduces when the last backward pass is over."""
NOT_SHARDED: Final = {"sharding": "none"}
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
        courses=_array(_but_optimizer(s) for s in scenarios),
        optimizers=_array((*_step(s), s.parallel.model_copy(update=NOT_SHARDED)) for s in scenarios),
        steps=_array((*_step(s), s.parallel) for s in scenarios),
        layouts=_array(_layout(s) for s in scenarios),
        reducers=_array(_reducer(s) for s in scenarios),
    )


def numbered(keys: Iterable[Hashable]) -> list[int]:
    """A number for each key, equal keys the same."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


def _array(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    return np.array(numbered(keys), np.int64)


def _step(scenario: Scenario) -> tuple[Hashable, ...]:
    training = scenario.training.model_copy(update={"checkpointing": None})
    return scenario.task, scenario.adapter, scenario.runtime, training


def _but_optimizer(scenario: Scenario) -> tuple[Hashable, ...]:
    parallel = scenario.parallel.model_copy(update={"offload": Offload()})
    training = scenario.training.model_copy(update={"optimizer": Optimizer()})
    return scenario.task, scenario.adapter, scenario.runtime, training, parallel


def _layout(scenario: Scenario) -> tuple[Hashable, ...]:
    sharding, megatron = scenario.parallel.sharding, scenario.runtime.name == "megatron_lm"
    kept = sharding if sharding == GATHERS or (megatron and sharding not in REDUCED_LAST) else "none"
    parallel = scenario.parallel.model_copy(update={"sharding": kept})
    return _but_optimizer(scenario.model_copy(update={"parallel": parallel}))


def _reducer(scenario: Scenario) -> tuple[Hashable, ...]:
    training = scenario.training.model_copy(update={"checkpointing": None})
    return _but_optimizer(scenario.model_copy(update={"training": training}))
