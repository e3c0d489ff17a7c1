"""A process group that moves nothing, and a model divided upon it."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final

import torch.distributed as dist
from torch.distributed._tools import fake_collectives
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import _clear_sharding_prop_cache
from torch.distributed.tensor.parallel import loss_parallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from planner.scenario import Scenario
from profiler.trace.child.distributed_shards import shard, stand_ins
from profiler.trace.child.distributed_tensor import cut
from profiler.trace.documents import Part
from profiler.worker.workloads import Workload, make_optimizers

COLLECTIVES: Final = fake_collectives
"""Loaded for its effect: collectives can be called on tensors without memory."""

COPIES, SHARDS, TENSOR = "copies", "shards", "tensor"


@contextmanager
def ranks(part: Part, device_type: str) -> Iterator[Any]:
    """A process group of the job's size, and its mesh.

    Args:
        part: Whose part is followed.
        device_type: Where tensors stand.
    """
    dist.init_process_group("fake", store=FakeStore(), rank=part.rank, world_size=part.ranks)
    try:
        with stand_ins(device_type), loss_parallel() if part.loss else nullcontext():
            yield init_device_mesh(
                "cpu", (part.copies, part.shards, part.tensor), mesh_dim_names=(COPIES, SHARDS, TENSOR)
            )
    finally:
        dist.destroy_process_group()
        _clear_sharding_prop_cache()  # shapes of this rank's pieces


def divide(workload: Workload, scenario: Scenario, part: Part, mesh: Any) -> Workload:
    """The workload of one rank.

    Args:
        workload: The whole workload.
        scenario: What it was built from.
        part: Whose part is followed.
        mesh: From `ranks`.

    Raises:
        CannotBuildError: The model has no plan for tensor parallelism, or no blocks to shard by.
    """
    model = workload.model
    if part.tensor > 1:
        cut(model, mesh[TENSOR], part)
    if part.shards > 1:
        shard(model, mesh[COPIES, SHARDS] if part.copies > 1 else mesh[SHARDS], part)
    optimizer, in_backward = make_optimizers(model, scenario.training.optimizer, scenario.runtime.name)
    return replace(workload, optimizer=optimizer, in_backward=in_backward)
