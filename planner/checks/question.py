"""What a check looks at: the question as asked, with the runtime's defaults, and what it refers to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from planner.cards import gpu_of, is_known
from planner.hardware import Gpu, Tables
from planner.issues import Issue
from planner.lazy import lazy
from planner.model.spec import ModelSpec
from planner.placement import data_degree
from planner.scenario import Device, Parallel, Scenario, Serving, Training


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question under check.

    Attributes:
        asked: What the user gave.
        resolved: The same with the runtime's defaults.
        model: The model it names.
        tables: Cards and the rest.
    """

    asked: Scenario
    resolved: Scenario
    model: ModelSpec
    tables: Tables

    @lazy
    def parallel(self) -> Parallel:
        """How the job is divided."""
        return self.resolved.parallel

    @lazy
    def training(self) -> Training:
        """The training step."""
        return self.resolved.training

    @lazy
    def serving(self) -> Serving:
        """The engine's settings."""
        return self.resolved.serving

    @lazy
    def trains(self) -> bool:
        """Whether the job trains."""
        return self.resolved.is_training

    @lazy
    def num_devices(self) -> int:
        """Cards in all."""
        return self.resolved.hardware.num_devices

    @lazy
    def data_ranks(self) -> int:
        """Ranks that hold the same weights: data times context."""
        return data_degree(self.resolved) * self.parallel.context

    @lazy
    def gpus(self) -> tuple[tuple[str, Gpu], ...]:
        """Field and card of every device row whose card is known; without the reading that the row may carry."""
        rows = enumerate(self.resolved.hardware.devices)
        return tuple(
            (f"hardware.devices.{i}", gpu_of(_unread(row), self.tables))
            for i, row in rows
            if is_known(row, self.tables)
        )

    def given(self, path: str) -> bool:
        """Whether the user set the field at a dotted path to something."""
        return path in self._given

    @lazy
    def _given(self) -> frozenset[str]:
        return frozenset(_paths(self.asked, ""))


def _paths(block: BaseModel, within: str) -> Iterator[str]:
    """Dotted paths of what was set in a block, and in the blocks of it."""
    for name in block.model_fields_set:
        value = getattr(block, name)
        if value is not None:
            yield f"{within}{name}"
        if isinstance(value, BaseModel):
            yield from _paths(value, f"{within}{name}.")


def _unread(row: Device) -> Device:
    return row if row.memory_bytes is None else row.model_copy(update={"memory_bytes": None})


Check = Callable[[Question], Iterator[Issue]]
