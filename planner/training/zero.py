"""DeepSpeed's ZeRO: buckets of stages 1 and 2 in the backward pass, and the optimizer's step of all three stages.

Read from `stage_1_and_2.py` and `stage3.py` of 0.5.10 to 0.17.6, and held against what 0.17.6 allocates on a CPU with
collectives that move nothing (`tests/planner/training/test_zero.py`). A rank steps its part as one flat tensor: the
part's gradients are flattened, that copy is cast to fp32, both go, and the optimizer makes its temporaries beside the
fp32 gradients alone.
"""

from collections.abc import Sequence
from typing import Final

from planner.lazy import once
from planner.ledger import Category, Entry, Phase
from planner.memory.communication import ZERO_BUCKET
from planner.memory.terms import item
from planner.moments import fullest
from planner.training.groups import Group, divided, shard_of
from planner.training.optimizer_states import TRAINER_LOOPS
from planner.training.setup import STATE_OPTIMIZERS_8BIT, Setup
from planner.units import ceil_div

STAGES: Final = frozenset({"zero1", "zero2", "zero3"})
BUCKETED: Final = frozenset({"zero1", "zero2"})
SUB_GROUP: Final = 1_000_000_000
"""`sub_group_size`, in elements: how much of its part a rank of stage 3 steps at once."""
FIRST_YEAR: Final = 2019
BUFFERS_SINCE: Final = ((0, 6), (2022, 3))
"""Stage 3 holds its gradient partitions and its reduce bucket from the start, and gathers ahead."""
MANY_RANKS_SINCE: Final = ((0, 12), (2023, 11))
"""A bucket goes to all its ranks in one exchange, of a flat copy (`use_multi_rank_bucket_allreduce`); weights are
gathered in place (`all_gather_into_tensor_dp_groups`), where they were by lists before, which NCCL copies."""
PARAMETER_BUFFERS: Final = 5
PARAMETER_BUFFER: Final = 100_000_000
"""`offload_param`: `buffer_count`, and `buffer_size` in elements."""
PARAMETERS_IN_CPU: Final = 1_000_000_000
"""`offload_param.max_in_cpu`, in elements: what stays in host memory all the same."""
OPTIMIZER_BUFFERS: Final = 4
"""`offload_optimizer.buffer_count`: the fp32 weight, its gradient and both moments of the part that is stepped."""
NO_TEMPORARY: Final = STATE_OPTIMIZERS_8BIT | {"sgd", "sgd_momentum"}
"""Optimizers that step in place: fused 8-bit kernels, and SGD without weight decay (`_foreach_add_`)."""
STEP: Final = frozenset({Phase.OPTIMIZER_STEP})
BACKWARD: Final = frozenset({Phase.BACKWARD})
NORM_BYTES: Final = 8
"""A gradient is made fp64 for its norm (`get_grad_norm_direct`)."""


def is_zero(setup: Setup) -> bool:
    """Whether DeepSpeed divides the job; Megatron-LM's distributed optimizer is another thing."""
    return setup.parallel.sharding in STAGES and not setup.megatron


@once
def steps_part(setup: Setup) -> bool:
    """Whether a rank steps its flat part with fp32 copies on the card."""
    here = setup.parallel.offload.optimizer == "none" and not setup.optimizer.in_backward
    return is_zero(setup) and bool(setup.master_bytes) and here


def parts_gradients(setup: Setup) -> bool:
    """Whether gradients go through stage 2's buckets into a flat part of their own, micro-batch by micro-batch."""
    return is_zero(setup) and setup.parallel.sharding == "zero2"


def since(setup: Setup, first: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Whether DeepSpeed is that version or newer; a version may be a date, and the newest counts where none is given.

    Args:
        setup: The step.
        first: Version and date of the first.
    """
    if setup.runtime != "deepspeed" or not setup.version:
        return True
    return setup.version >= (first[0] if setup.version[0] < FIRST_YEAR else first[1])


def pinned_for_disk(setup: Setup, *, weights: int, stepped: int) -> int:
    """Bytes of host memory that one rank pins to read from NVMe and write to it.

    DeepSpeed `AsyncPartitionedParameterSwapper`, `OptimizerSwapper` (`SwapBufferManager`), at its documented defaults.

    Args:
        setup: The step.
        weights: Elements of the rank's part of all weights.
        stepped: Elements of the rank's part that is trained.
    """
    offload, pinned = setup.parallel.offload, 0
    if offload.parameters == "nvme":
        held = PARAMETER_BUFFERS * PARAMETER_BUFFER + min(weights, PARAMETERS_IN_CPU)
        pinned += held * setup.compute_bytes
    if offload.optimizer == "nvme":
        pinned += OPTIMIZER_BUFFERS * min(stepped, SUB_GROUP) * 4
    return pinned


def bucket_entry(setup: Setup, phases: frozenset[Phase]) -> Entry:
    """The reduce bucket, which is as large as configured however little is trained (`torch.empty(reduce_bucket_size)`).

    `overlap_comm` makes it two; stages 1 and 2 leave that off by default.
    """
    e = setup.gradient_bytes if setup.parallel.sharding in BUCKETED else setup.compute_bytes
    symbols = {"e": e}
    name, formula = "reduce_bucket", f"{ZERO_BUCKET}*e"
    return item(
        Category.COMMUNICATION, name, ZERO_BUCKET * e, formula, symbols, "zero_buckets", phases=phases
    )


def flat_bucket(setup: Setup, params: int) -> list[Entry]:
    """The flat copy of what is in a bucket, while it is exchanged.

    Args:
        setup: The step.
        params: Elements that were trained, of which a bucket holds as many as it can.
    """
    if not since(setup, MANY_RANKS_SINCE):
        return []
    e, held = setup.gradient_bytes, min(params, ZERO_BUCKET)
    formula, symbols = f"min(P, {ZERO_BUCKET})*e", {"P": params, "e": e}
    return [
        item(
            Category.COMMUNICATION, "flattened_bucket", held * e, formula, symbols, "zero_reduce",
            phases=BACKWARD,
        )
    ]  # fmt: skip


def reduced_so_far(setup: Setup, come: int, trained: int) -> list[Entry]:
    """Stage 2, when so many gradients have come: none but what is in the bucket until that is full and exchanged.

    Then the part's own flat tensor is made, as a whole: the last rank's part comes first. Later buckets are exchanged
    beside it.

    Args:
        setup: The step.
        come: Elements whose gradients have come.
        trained: Elements that get gradients.
    """
    if come < ZERO_BUCKET:
        return []
    flat, part = flat_bucket(setup, come), _part_of(setup, trained)
    return [*flat, *part] if come >= 2 * ZERO_BUCKET else fullest((flat, part))


def arriving(setup: Setup, place: int, trained: int) -> list[Entry]:
    """Stage 2, as the last gradient comes: whole, before it goes into the bucket, beside the part.

    Args:
        setup: The step.
        place: Elements of that parameter.
        trained: Elements that get gradients.
    """
    e, symbols = setup.gradient_bytes, {"W": place, "e": setup.gradient_bytes}
    whole = item(Category.GRADIENTS, "gradients", place * e, "W*e", symbols, "zero_reduce", phases=BACKWARD)
    part = _part_of(setup, trained) if trained >= ZERO_BUCKET else []
    return [*part, *([whole] if place else ())]


def _part_of(setup: Setup, params: int) -> list[Entry]:
    if setup.parallel.offload.gradients != "none":
        return []
    held, formula, symbols = divided(params, setup.shard_states)
    e = setup.gradient_bytes
    return [
        item(
            Category.GRADIENTS, "gradients", held * e, f"{formula}*e", {**symbols, "e": e}, "zero_reduce",
            phases=BACKWARD,
        )
    ]  # fmt: skip


def at_last_reduction(setup: Setup, params: int) -> list[Entry]:
    """The end of the backward pass of stages 1 and 2: the last bucket's exchange, or the part beside all gradients.

    Stage 1 exchanges when the backward pass is over. As buckets go, their gradients do; the part comes with the first.

    Args:
        setup: The step.
        params: Elements trained.
    """
    if parts_gradients(setup):
        before = params - ZERO_BUCKET
        return (
            flat_bucket(setup, params)
            if before < 0
            else [*flat_bucket(setup, before), *_part_of(setup, params)]
        )
    part, e = ceil_div(params, setup.shard_states), setup.gradient_bytes
    beside = max(0, part - min(params, ZERO_BUCKET))
    if not beside:
        return []
    formula, symbols = (
        f"(ceil(P/N) - min(P, {ZERO_BUCKET}))*e",
        {"P": params, "N": setup.shard_states, "e": e},
    )
    return [
        item(
            Category.GRADIENTS, "gradients", beside * e, formula, symbols, "zero_reduce", phases=BACKWARD
        )
    ]  # fmt: skip


def step_moments(setup: Setup, groups: Sequence[Group]) -> list[list[Entry]]:
    """The optimizer's step: the norm, the fp32 gradients being made, the step itself, the weights being gathered."""
    if not steps_part(setup) or not groups:
        return []
    largest = max(groups, key=lambda group: _stepped(setup, group))
    whole = _whole_part(setup, groups)
    moments = [
        [*whole, _norm_temporary(setup, groups)],
        [*whole, _flattened(setup, largest), _in_fp32(setup, largest)],
        [*_left_in_step(setup, groups, largest), _in_fp32(setup, largest), *_temporary(setup, largest)],
    ]
    bucketed = setup.parallel.sharding in BUCKETED
    return [*moments, _gathered(setup, groups)] if bucketed else moments


def _stepped(setup: Setup, group: Group) -> int:
    """Elements stepped at once."""
    held = ceil_div(group.params, shard_of(setup, group, setup.shard_states))
    return min(held, SUB_GROUP) if setup.parallel.sharding == "zero3" else held


def _divided(setup: Setup, group: Group) -> tuple[int, str, dict[str, int | float]]:
    held, formula, symbols = divided(group.params, shard_of(setup, group, setup.shard_states))
    if setup.parallel.sharding == "zero3":
        return min(held, SUB_GROUP), f"min({formula}, {SUB_GROUP})", symbols
    return held, formula, symbols


def _whole_part(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """Gradients of the part in their own format; stage 3's are there at all times and counted elsewhere."""
    if setup.parallel.sharding not in BUCKETED or setup.parallel.offload.gradients != "none":
        return []
    entries, e = [], setup.gradient_bytes
    for group in groups:
        held, formula, symbols = _divided(setup, group)
        entries.append(
            item(
                Category.GRADIENTS, f"{group.prefix}gradients", held * e, f"{formula}*e",
                {**symbols, "e": e}, "gradients", phases=STEP,
            )
        )  # fmt: skip
    return entries


def _left_in_step(setup: Setup, groups: Sequence[Group], stepped: Group) -> list[Entry]:
    """Gradients that are still there while a group is stepped.

    All groups' gradients are views of one tensor (`grads_in_partition`), which goes with the last of them: the
    Trainer's optimizer has a second group, of norms and biases, that holds it. Elsewhere only experts are apart.
    """
    if setup.runtime in TRAINER_LOOPS:
        return _whole_part(setup, groups)
    return _whole_part(setup, [group for group in groups if group is not stepped])


def _flattened(setup: Setup, group: Group) -> Entry:
    held, formula, symbols = _divided(setup, group)
    e = setup.gradient_bytes
    return item(
        Category.GRADIENTS, f"{group.prefix}flattened_gradients", held * e, f"{formula}*e",
        {**symbols, "e": e}, "zero_step", phases=STEP,
    )  # fmt: skip


def _in_fp32(setup: Setup, group: Group) -> Entry:
    held, formula, symbols = _divided(setup, group)
    return item(
        Category.GRADIENTS, f"{group.prefix}gradients_fp32", held * 4, f"{formula}*4",
        symbols, "zero_step", phases=STEP,
    )  # fmt: skip


def _temporary(setup: Setup, group: Group) -> list[Entry]:
    """Temporaries as large as the flat tensor: one with `foreach`, two in PyTorch's loop over single tensors.

    DeepSpeed's own Adam is a fused kernel and makes none.
    """
    kind, name = setup.optimizer.implementation or "foreach", setup.optimizer.name
    if kind == "fused" or name in NO_TEMPORARY or setup.optimizer.paged:
        return []
    k = 2 if kind == "single" else 1
    held, formula, symbols = _divided(setup, group)
    return [
        item(
            Category.OPTIMIZER, f"{group.prefix}step_temporary", k * held * 4, f"k*{formula}*4",
            {"k": k, **symbols}, "foreach_temporary", phases=STEP,
        )
    ]  # fmt: skip


def _norm_temporary(setup: Setup, groups: Sequence[Group]) -> Entry:
    """The fp64 copy of one parameter's gradient: the largest's, no more of it than the part."""
    largest = max(tensor.parameter for group in groups for tensor in group.tensors)
    n, c = setup.shard_states, NORM_BYTES
    if setup.parallel.sharding == "zero3":
        formula, held = "ceil(W/N)*c", ceil_div(largest, n)
        symbols = {"W": largest, "N": n, "c": c}
    else:
        params = sum(group.params for group in groups)
        formula, held = "min(W, ceil(P/N))*c", min(largest, ceil_div(params, n))
        symbols = {"W": largest, "P": params, "N": n, "c": c}
    return item(Category.GRADIENTS, "norm_temporary", held * c, formula, symbols, "zero_norm", phases=STEP)


def _gathered(setup: Setup, groups: Sequence[Group]) -> list[Entry]:
    """The copy that a gather by lists makes of what it gathers, one bucket at a time."""
    if since(setup, MANY_RANKS_SINCE):
        return []
    params, e = sum(group.params for group in groups), setup.compute_bytes
    formula, symbols = f"min(P, {ZERO_BUCKET})*e", {"P": params, "e": e}
    return [
        item(
            Category.COMMUNICATION, "gather_bucket", min(params, ZERO_BUCKET) * e, formula, symbols,
            "zero_buckets", phases=STEP,
        )
    ]  # fmt: skip
