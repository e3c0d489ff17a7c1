"""Weights coming in and states going out: what loading and saving take of device, host and disk.

Loading: `full` reads a whole state dict into host memory beside the module (twice the weights); `meta` makes the
module without memory and reads one shard at a time; `sharded` is each rank reading its own part; `device_map` reads
tensor by tensor straight to the card (Hugging Face Accelerate, big-model inference). Saving: weights, master copy and
optimizer states; a gathered checkpoint comes together in the host memory of one rank, a divided one as each rank's part
(PyTorch distributed checkpoint). How often: Young 1974, the first-order optimum sqrt(2 x save time x time between
failures), with its lost time.
"""

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Final, Literal

from planner.hardware import Tables
from planner.ledger import Category, Layer, Phase
from planner.model.spec import ModelSpec
from planner.placement_fit import place_job
from planner.plan_types import Plan
from planner.training.groups import grouped, total
from planner.training.ledgers import held_tensors
from planner.training.overheads import states_bytes
from planner.training.setup import setup_for
from planner.units import GB

Method = Literal["full", "sharded", "device_map", "meta"]
METHODS: Final[tuple[Method, ...]] = ("full", "meta", "device_map", "sharded")
SHARD_BYTES: Final = 5 * GB
"""Largest file of a checkpoint that Hugging Face's `save_pretrained` writes by default (`max_shard_size`)."""
HOURS_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """What loading takes.

    Attributes:
        method: As asked, or `meta`, which is what `from_pretrained` does today.
        checkpoint_bytes: The weights' files.
        host_bytes_per_process: Host memory of the process that takes most, at its fullest.
        device_peak_bytes: The card's allocated bytes at their fullest: the weights, and what is not divided yet.
    """

    method: Method
    checkpoint_bytes: int
    host_bytes_per_process: int
    device_peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What a checkpoint of a training job takes.

    Attributes:
        disk_bytes: One checkpoint: weights, master copy, optimizer states of everything trained; a frozen base is
            not saved again.
        gathered_host_bytes: Host memory of the rank where it comes together.
        divided_host_bytes: Host memory of the rank with the largest part, where each writes its own.
        weights_only_bytes: What is left of it once training is over.
    """

    disk_bytes: int
    gathered_host_bytes: int
    divided_host_bytes: int
    weights_only_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """How often to save.

    Attributes:
        seconds: Between two checkpoints.
        save_s: One checkpoint's writing.
        lost_frac: Share of the time spent on saving and on work done twice.
    """

    seconds: float
    save_s: float
    lost_frac: float


def loading(plan: Plan, tables: Tables, method: Method | None = None) -> Loading:
    """What it takes to load the weights of a plan's fullest device.

    Args:
        plan: The answer.
        tables: The tables it was made from.
        method: How; as the question asks if not given.
    """
    asked = plan.resolved.loading
    method = method or (asked.method if asked is not None else None) or "meta"
    weights = plan.worst.ledger.by_category(Phase.REST, Layer.ALLOCATED).get(Category.WEIGHTS, 0)
    checkpoint = _checkpoint_bytes(plan, tables)
    shard = min(SHARD_BYTES, checkpoint)
    host = {
        "full": 2 * checkpoint,
        "meta": shard,
        "sharded": _own_part_bytes(plan, tables, checkpoint, weights),
        "device_map": _largest_tensor_bytes(plan, tables),
    }[method]
    whole_first = method != "sharded" and _ranks(plan, tables) > 1
    device = max(weights, _largest_unit_bytes(plan.model) if whole_first else weights)
    return Loading(
        method=method, checkpoint_bytes=checkpoint, host_bytes_per_process=host, device_peak_bytes=device
    )


def saving(plan: Plan, tables: Tables) -> Saving | None:
    """One checkpoint of a training plan; None when serving."""
    if not plan.resolved.is_training:
        return None
    share = place_job(plan.resolved, plan.model, tables)[plan.fullest]
    setup = setup_for(share, plan.resolved, plan.model)
    groups = grouped(held_tensors(share, plan.model, setup)[1])
    held = sum(group.params for group in groups)
    trained = plan.trainable_params or held
    beside = states_bytes(setup, groups) * setup.shard_states / held if held else 0
    disk = round(trained * (setup.train_bytes + beside))
    return Saving(
        disk_bytes=disk,
        gathered_host_bytes=disk,
        divided_host_bytes=ceil(
            disk * max(stage.frac / stage.ranks for stage in _stages(plan, tables, trained=True))
        ),
        weights_only_bytes=trained * setup.train_bytes,
    )


def interval(saved_bytes: int, write_bytes_per_s: float, hours_between_failures: float) -> Interval:
    """Young's interval.

    Args:
        saved_bytes: One checkpoint.
        write_bytes_per_s: How fast it is written while training waits.
        hours_between_failures: Mean time between failures of the whole job.

    Raises:
        ValueError: A rate or a time is not positive.
    """
    if write_bytes_per_s <= 0 or hours_between_failures <= 0:
        raise ValueError(
            f"positive rates only: {write_bytes_per_s} bytes/s, {hours_between_failures} h between failures"
        )
    save_s, failure_s = saved_bytes / write_bytes_per_s, hours_between_failures * HOURS_S
    every_s = sqrt(2 * save_s * failure_s)
    return Interval(seconds=every_s, save_s=save_s, lost_frac=save_s / every_s + every_s / (2 * failure_s))


def _ranks(plan: Plan, tables: Tables) -> int:
    return place_job(plan.resolved, plan.model, tables)[plan.fullest].shard


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """A pipeline stage: its share of the parameters, the ranks that hold it, and how many hold different parts."""

    frac: float
    ranks: int
    parts: int


def _stages(plan: Plan, tables: Tables, *, trained: bool) -> tuple[_Stage, ...]:
    """The stages of a training job, by all parameters or by those that are trained."""
    ranks: dict[int, int] = {}
    params: dict[int, float] = {}
    parts: dict[int, int] = {}
    for share in place_job(plan.resolved, plan.model, tables):
        tensors = held_tensors(share, plan.model, setup_for(share, plan.resolved, plan.model))[trained]
        ranks[share.stage] = ranks.get(share.stage, 0) + len(share.indices)
        params[share.stage] = total(tensors) * share.tensor
        parts[share.stage] = share.tensor * share.shard
    everything = sum(params.values()) or 1.0
    return tuple(
        _Stage(frac=params[stage] / everything, ranks=ranks[stage], parts=parts[stage]) for stage in params
    )


def _own_part_bytes(plan: Plan, tables: Tables, checkpoint_bytes: int, weights_bytes: int) -> int:
    """What the rank with the largest part reads."""
    if not plan.resolved.is_training:
        return weights_bytes
    largest = max(stage.frac / stage.parts for stage in _stages(plan, tables, trained=False))
    return ceil(checkpoint_bytes * largest)


def _checkpoint_bytes(plan: Plan, tables: Tables) -> int:
    """16-bit files, which is how weights are published, or the format that is served."""
    if not plan.resolved.is_training:
        weights = plan.worst.ledger.by_category(Phase.REST, Layer.ALLOCATED).get(Category.WEIGHTS, 0)
        return weights * max(1, sum(len(device.indices) for device in plan.devices))
    share = place_job(plan.resolved, plan.model, tables)[plan.fullest]
    setup = setup_for(share, plan.resolved, plan.model)
    return plan.model.params_total * min(setup.param_bytes, 2)


def _largest_tensor_bytes(plan: Plan, tables: Tables) -> int:
    share = place_job(plan.resolved, plan.model, tables)[plan.fullest]
    tensors = held_tensors(share, plan.model, setup_for(share, plan.resolved, plan.model))[0]
    return max((tensor.rows * tensor.columns * 2 for tensor in tensors), default=0)


def _largest_unit_bytes(model: ModelSpec) -> int:
    """The largest layer in 16 bit, whole on a card before it is divided."""
    return 2 * max((layer.params for layer in model.layers), default=0)
