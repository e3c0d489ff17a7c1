"""This process as one rank of a real job: the process group, the model divided upon it, and what ranks tell each other.

The launcher is `torchrun`; division is PyTorch's own (DDP, FSDP2, DTensor tensor parallelism), made by the same code
that traces divide by.
"""

import datetime as dt
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel

from planner.scenario import Scenario
from profiler.documents import DeviceKind
from profiler.rank_place import RankPlace
from profiler.report import Report
from profiler.report_parts import RankFigures
from profiler.trace.child.distributed_shards import shard
from profiler.trace.child.distributed_tensor import cut
from profiler.trace.division import part_of
from profiler.worker.workloads import Workload, make_optimizers

COPIES, SHARDS, TENSOR = "copies", "shards", "tensor"
MOST_WAIT_S: Final = 120.0
"""A collective that waits longer has a rank that does not come."""
GATHER_S: Final = 10.0
"""How long rank 0 waits for the figures of the others when it is done."""
LOOK_S: Final = 0.05


class Ranks:
    """The process group of a job.

    Args:
        place: This rank.
        scenario: The job.
        device: Where it runs; ranks of one machine take its cards in order.
        timeout_s: Of the whole job; a collective may take half of it.
    """

    def __init__(self, place: RankPlace, scenario: Scenario, device: DeviceKind, timeout_s: float) -> None:
        self._place = place
        self._scenario = scenario
        self._device = device
        self.part = part_of(scenario, place.rank)
        if device == "cuda":
            torch.cuda.set_device(place.local_rank)
        dist.init_process_group(
            "nccl" if device == "cuda" else "gloo",
            timeout=dt.timedelta(seconds=min(MOST_WAIT_S, timeout_s / 2)),
        )
        self._mesh = init_device_mesh(
            device,
            (self.part.copies, self.part.shards, self.part.tensor),
            mesh_dim_names=(COPIES, SHARDS, TENSOR),
        )
        self._store: Any = dist.distributed_c10d._get_default_store()  # noqa: SLF001  # it has no public name
        self._say("begun", "1")

    def divide(self, workload: Workload) -> Workload:
        """The workload of this rank.

        Raises:
            CannotBuildError: The model has no plan for tensor parallelism, or no blocks to shard by.
        """
        model, part = workload.model, self.part
        if part.tensor > 1:
            cut(model, self._mesh[TENSOR], part)
        if part.shards > 1:
            shard(model, self._mesh[COPIES, SHARDS] if part.copies > 1 else self._mesh[SHARDS], part)
        given = self._scenario
        optimizer, in_backward = make_optimizers(model, given.training.optimizer, given.runtime.name)
        workload = replace(workload, optimizer=optimizer, in_backward=in_backward)
        if part.copies > 1 and part.shards == 1:
            workload = replace(workload, model=self._copied(model))
        return workload

    def _copied(self, model: Any) -> Any:
        bucket = {} if self.part.bucket_mb is None else {"bucket_cap_mb": self.part.bucket_mb}
        return DistributedDataParallel(
            model,
            device_ids=[self._place.local_rank] if self._device == "cuda" else None,
            process_group=self._mesh[COPIES].get_group(),
            gradient_as_bucket_view=self.part.bucket_views,
            find_unused_parameters=self.part.finds_unused,
            **bucket,
        )

    def seed(self, seed: int) -> None:
        """Batches differ from copy to copy, and are the same on the ranks that cut one."""
        torch.manual_seed(seed + 1 + self._place.rank // self.part.tensor)

    def losses(self) -> AbstractContextManager[Any]:
        """What the loss needs where the logits stay cut."""
        context: AbstractContextManager[Any] = loss_parallel() if self.part.loss else nullcontext()
        return context

    def exchange(self, report: Report) -> Report:
        """Tell the others this rank's figures; on rank 0 the report with everybody's, however the others ended."""
        own = figures_of(report, self._place.rank)
        self._say("done", own.model_dump_json())
        if self._place.rank != 0:
            return report
        return report.model_copy(update={"ranks": tuple(self._gather(own))})

    def _gather(self, own: RankFigures) -> Iterator[RankFigures]:
        until_s = time.monotonic() + GATHER_S
        yield own
        for rank in range(1, self._place.world):
            while not self._has("done", rank) and time.monotonic() < until_s:
                time.sleep(LOOK_S)
            if self._has("done", rank):
                yield RankFigures.model_validate_json(self._store.get(_key("done", rank)))
            else:
                yield RankFigures(rank=rank, outcome="silent" if self._has("begun", rank) else "missing")

    def _say(self, what: str, text: str) -> None:
        self._store.set(_key(what, self._place.rank), text)

    def _has(self, what: str, rank: int) -> bool:
        try:
            return bool(self._store.check([_key(what, rank)]))
        except RuntimeError:  # the store went away with its process
            return False


def figures_of(report: Report, rank: int) -> RankFigures:
    """What the others are told of a rank."""
    steps: dict[int, float] = {}
    for one in report.steps:
        steps[one.step] = steps.get(one.step, 0.0) + one.time_s
    failed = report.outcome == "failed"
    detail = next((str(remark.params.get("detail")) for remark in report.remarks if failed), "")
    reserved = (figures.peak_reserved_bytes for figures in report.phases)
    return RankFigures(
        rank=rank,
        host=socket.gethostname()[:100],
        device_name=report.environment.device_name,
        outcome="completed" if report.outcome == "interrupted" else report.outcome,
        detail=detail[:300],
        peak_allocated_bytes=max((one.peak_allocated_bytes for one in report.phases), default=None),
        peak_reserved_bytes=max((one for one in reserved if one is not None), default=None),
        resident_peak_bytes=report.readings.resident_peak_bytes,
        device_peak_bytes=report.readings.peak_bytes,
        step_s=sum(steps.values()) / len(steps) if steps else None,
        communication=report.communication,
    )


def _key(what: str, rank: int) -> str:
    return f"headroom/{what}/{rank}"
