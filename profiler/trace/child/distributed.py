"""A job of several ranks in one process: a process group that moves nothing, and the model divided upon it.

Every rank allocates what its own code asks for, whatever the others do, so one rank can be followed alone. FSDP2
and DTensor tensor parallelism are PyTorch's own code; DDP's reducer is not Python and is laid beside the step.
"""

from contextlib import ExitStack
from typing import Any

from planner.scenario import Scenario
from profiler.trace.child.recorder import Recorder
from profiler.trace.documents import Target
from profiler.worker.grouping import ModelShapes
from profiler.worker.workloads import Workload


class Division:
    """How a job is divided, in force until the stack closes. A job of one rank is left alone.

    Args:
        stack: Closes the process group.
        target: Whose part is followed.
        device_type: Where tensors stand.
    """

    def __init__(self, stack: ExitStack, target: Target, device_type: str) -> None:
        self._target = target
        self._device_type = device_type
        self._part = target.part
        self._mesh: Any = None
        if self._part.ranks > 1:
            from profiler.trace.child.distributed_group import ranks  # noqa: PLC0415  # a second to load

            self._mesh = stack.enter_context(ranks(self._part, device_type))

    def divide(self, workload: Workload, scenario: Scenario) -> Workload:
        """The workload of one rank: matrices cut, units sharded, the optimizer made for what is left.

        Raises:
            CannotBuildError: The model has no plan for tensor parallelism, or no blocks to shard by.
        """
        if self._mesh is None:
            return workload
        from profiler.trace.child.distributed_group import divide  # noqa: PLC0415

        return divide(workload, scenario, self._part, self._mesh)

    def recorder(self, workload: Workload) -> Recorder:
        """What records the rank's step."""
        if self._mesh is None:
            return Recorder(self._target, self._device_type)
        from profiler.trace.child.distributed_recorder import RankRecorder  # noqa: PLC0415

        return RankRecorder(self._target, self._device_type, workload.model)

    def shapes(self, shapes: ModelShapes, workload: Workload) -> ModelShapes:
        """Shapes of the whole parameters, and of this rank's pieces of cut ones."""
        if self._part.tensor == 1:
            return shapes
        pieces = {tuple(_local(one).shape) for one in workload.model.parameters()}
        matrices = {shape for shape in pieces if len(shape) > 1}
        return ModelShapes(
            vocab_size=-(-shapes.vocab_size // self._part.tensor) if self._part.loss else shapes.vocab_size,
            parameters=shapes.parameters | matrices | {shape[::-1] for shape in matrices},
        )


def _local(tensor: Any) -> Any:
    return getattr(tensor, "_local_tensor", tensor)
