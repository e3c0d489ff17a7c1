"""What a check looks at: the question as asked, with the runtime's defaults, and what it refers to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from planner.cards import gpu_of, is_known
from planner.hardware import Gpu, Tables
from planner.issues import Issue
from planner.model.spec import ModelSpec
from planner.placement import data_degree
from planner.scenario import Parallel, Scenario, Serving, Training


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def parallel(self) -> Parallel:
        """How the job is divided."""
        return self.resolved.parallel

    @property
    def training(self) -> Training:
        """The training step."""
        return self.resolved.training

    @property
    def serving(self) -> Serving:
        """The engine's settings."""
        return self.resolved.serving

    @property
    def trains(self) -> bool:
        """Whether the job trains."""
        return self.resolved.is_training

    @property
    def num_devices(self) -> int:
        """Cards in all."""
        return self.resolved.hardware.num_devices

    @property
    def data_ranks(self) -> int:
        """Ranks that hold the same weights: data times context."""
        return data_degree(self.resolved) * self.parallel.context

    def gpus(self) -> Iterator[tuple[str, Gpu]]:
        """Field and card of every device row whose card is known."""
        for i, row in enumerate(self.resolved.hardware.devices):
            if is_known(row, self.tables):
                yield (
                    f"hardware.devices.{i}",
                    gpu_of(row.model_copy(update={"memory_bytes": None}), self.tables),
                )

    def given(self, path: str) -> bool:
        """Whether the user set the field at a dotted path to something."""
        node: object = self.asked
        for part in path.split("."):
            if not isinstance(node, BaseModel) or part not in node.model_fields_set:
                return False
            node = getattr(node, part)
        return node is not None


Check = Callable[[Question], Iterator[Issue]]
