"""`python -m tests.profiler.trace.gloo_referee CASE...`: two real ranks on gloo, and their traces, as JSON lines.

Runs in a process of its own, since it loads PyTorch; the ranks are its children.
"""

import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, is_traceable_wrapper_subclass_type

from planner.scenario import Scenario
from profiler.trace.child.distributed_shards import shard
from profiler.trace.child.distributed_tensor import cut
from profiler.trace.child.session import make_trace
from profiler.trace.documents import Part, Target
from profiler.worker import steps
from profiler.worker.steps import Loop
from profiler.worker.tracker import Tracker, adopt_model, adopt_optimizer
from profiler.worker.workloads import build, make_optimizers
from tests.profiler.scenarios import scenario
from tests.profiler.trace.gloo_cases import CASES, RANKS
from tests.profiler.trace.peaks import tensor_peaks

STEPS: Final = 2
LISTED: Final = 12


class RankTracker(Tracker):
    """The tracker, on a rank's own tensors."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(is_traceable_wrapper_subclass_type(one) for one in types):
            return NotImplemented
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _see(self, tensor: Any, func: Any, args: tuple[Any, ...]) -> None:
        """A wrapper has a storage by name only; what it wraps was seen."""
        if not is_traceable_wrapper_subclass(tensor):
            super()._see(tensor, func, args)

    def adopt(self, tensor: Any, kind: str, owner: str = "", detail: str = "") -> None:
        super().adopt(getattr(tensor, "_local_tensor", tensor), kind, owner, detail)


def real_rank(rank: int, name: str, folder: str) -> None:
    """One rank of a real job: peaks of the second step by phase, and what was alive at each."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    store = dist.FileStore(str(Path(folder, "store")), RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    config, changes, part = CASES[name]
    given = Scenario.model_validate(scenario(config, **changes))
    work = build(given, config, "cpu")
    inner, mesh = work.model, init_device_mesh("cpu", (RANKS,))
    if part.tensor > 1:
        cut(inner, mesh, part)
    if part.shards > 1:
        shard(inner, mesh, part)
    optimizer, in_backward = make_optimizers(inner, given.training.optimizer)
    work = replace(work, optimizer=optimizer, in_backward=in_backward)
    tracker = RankTracker("cpu")
    names = {id(parameter): name for name, parameter in inner.named_parameters()}
    adopt_model(tracker, inner)
    with tracker.watching_modules(inner), tracker, mock.patch.object(steps, "_with_loss", return_value=inner):
        if part.copies > 1:
            copies = DistributedDataParallel(inner, gradient_as_bucket_view=part.bucket_views)
            work = replace(work, model=copies)
        measure(Loop(work, tracker.enter_phase, tracker), tracker, names, part)
    found = {
        moment.phase: {
            "bytes": moment.bytes,
            "alive": sorted(
                ([size, one.op, list(one.shape), one.dtype] for one, size in moment.alive), reverse=True
            ),
        }
        for moment in tracker.moments()
    }
    Path(folder, f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def measure(loop: Loop, tracker: Tracker, names: dict[int, str], part: Part) -> None:
    """Run the steps."""
    work = loop._workload
    with loop.marking(), loss_parallel() if part.loss else nullcontext():
        for step in range(1, STEPS + 1):
            gc.collect()
            tracker.start_step(step)
            tracker.enter_phase("rest")
            loop.step()
            for one in work.optimizers():
                adopt_optimizer(tracker, one, names)


def real(name: str) -> list[dict[str, Any]]:
    """Both ranks of a real job."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(real_rank, args=(name, folder), nprocs=RANKS)
        return [json.loads(Path(folder, f"{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS)]


def traced(name: str, rank: int) -> dict[str, int]:
    """Peaks of a rank's trace by phase of the last step."""
    config, changes, part = CASES[name]
    document = scenario(config, **changes)
    target = Target(device="cpu", part=part.model_copy(update={"rank": rank}))
    trace = make_trace(Scenario.model_validate(document), document, config, target)
    return tensor_peaks(trace)


@contextmanager
def as_gloo_scatters() -> Iterator[None]:
    """Gloo has no reduce-scatter: it copies the whole input, all-reduces the copy and takes a part of it.

    `ProcessGroupGloo::reduce_scatter_tensor_coalesced` in `torch/csrc/distributed/c10d/ProcessGroupGloo.cpp`.
    """
    original: Callable[..., Any] = dist.reduce_scatter_single

    def scatter(output: Any, input: Any, **more: Any) -> Any:  # noqa: A002
        copy = input.clone()
        work = original(output=output, input=input, **more)
        del copy
        return work

    with mock.patch.object(dist, "reduce_scatter_single", scatter):
        yield


def main(names: list[str]) -> None:
    """Print each case."""
    for name in names:
        measured = real(name)
        plain = [traced(name, rank) for rank in range(RANKS)]
        with as_gloo_scatters():
            copied = [traced(name, rank) for rank in range(RANKS)]
        print(json.dumps({"case": name, "real": measured, "traced": plain, "as_gloo": copied}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
