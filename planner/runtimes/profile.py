"""A runtime's habits: what it does where the user said nothing, each default with its source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from planner.model.spec import ModelSpec
from planner.scenario import Scenario

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...]
Defaults = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One framework or engine.

    Attributes:
        name: Id used in scenarios.
        kind: Whether it trains or serves; `both` for `generic` and `transformers`.
        defaults: Given the scenario and the model, the value of every field it decides, by dotted path
            (`training.attention`, `serving.memory_utilization`, ...). What the user set is never overwritten.
        reference: Key into `planner.references` for where the defaults were read.
    """

    name: str
    kind: Literal["training", "serving", "both"]
    defaults: Callable[[Scenario, ModelSpec], Defaults]
    reference: str
