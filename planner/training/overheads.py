"""Ledger entries around the model: communication buffers, workspaces, context, and what offload moves to the host."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.hardware import Tables
from planner.ledger import ALWAYS, Category, Entry, Layer, Phase
from planner.memory import communication as comm
from planner.memory import runtime
from planner.memory.inventory import Tensor
from planner.memory.terms import item
from planner.placement import Share
from planner.plan_types import HostNeed
from planner.scenario import Offload, Scenario
from planner.training.allocator_cache import makes_in_streams
from planner.training.fsdp2_units import buffers
from planner.training.gather import gathered_entries, is_gathered, uses_fsdp2
from planner.training.gradients import zero3_keeps_buffers
from planner.training.groups import Group, total
from planner.training.optimizer_states import master_entries, state_entries
from planner.training.setup import Setup
from planner.training.step import Step
from planner.training.zero import BUFFERS_SINCE, bucket_entry, is_zero, pinned_for_disk, since
from planner.units import ceil_div

WORKING = frozenset({Phase.FORWARD, Phase.LOSS, Phase.BACKWARD})
BACKWARD = frozenset({Phase.BACKWARD})


def communication_entries(step: Step, tensors: Sequence[Tensor], groups: Sequence[Group]) -> list[Entry]:
    """Buffers of the parallel scheme."""
    setup, share = step.setup, step.share
    sharding = setup.parallel.sharding
    entries: list[Entry] = []
    if sharding == "none" and share.data > 1 and not setup.megatron:
        params, e = sum(group.params for group in groups), setup.gradient_bytes
        entries.append(
            item(
                Category.COMMUNICATION,
                "ddp_buckets",
                comm.ddp_bucket_bytes(params, e),
                "P*e",
                {"P": params, "e": e},
                "ddp_buckets",
            )
        )
    elif sharding == "fsdp":
        entries += _fsdp(step)
    elif sharding == "zero3":
        entries += _zero3(step, tensors)
    elif sharding in {"zero1", "zero2"} and not setup.megatron:
        entries.append(bucket_entry(setup, BACKWARD))
    if setup.parallel.expert > 1:
        entries += _expert_exchange(step)
    if share.num_stages > 1 and setup.megatron:
        entries.append(_stage_buffers(step))
    return entries


def _fsdp(step: Step) -> list[Entry]:
    """Gathered units of the forward pass and the loss; those of the backward pass belong to its moments.

    The second FSDP's forward pass has moments too (`planner.training.fsdp2`).
    """
    if uses_fsdp2(step):
        return []
    staged = step.share.num_stages > 1 and is_gathered(step.setup) and makes_in_streams(step.setup)
    return [
        *(buffers(step, min(2, step.num_layers), frozenset({Phase.FORWARD})) if staged else ()),
        *gathered_entries(step, 2, frozenset({Phase.FORWARD})),
        *gathered_entries(step, 0, frozenset({Phase.LOSS})),
    ]


def _stage_buffers(step: Step) -> Entry:
    """Received activations and received gradients, one of each for every model chunk, kept until the next step."""
    setup, width, e = step.setup, step.residual_width, step.setup.compute_bytes
    chunks = setup.parallel.virtual_stages or 1
    return item(
        Category.COMMUNICATION,
        "stage_buffers",
        2 * chunks * setup.tokens * width * e,
        "2*v*t*h*e",
        {"v": chunks, "t": setup.tokens, "h": width, "e": e},
        "stage_buffers",
    )


def _zero3(step: Step, tensors: Sequence[Tensor]) -> list[Entry]:
    """What comes from other ranks or from the host for its use.

    In the forward pass the output matrix comes on top, as what is needed is not held back.
    """
    setup, params, e = step.setup, total(tensors), step.setup.compute_bytes
    entries: list[Entry] = []
    if setup.shard_weights > 1 or setup.parallel.offload.parameters != "none":
        head = max((tensor.parameter for tensor in tensors), default=0)
        live, most = comm.zero3_live_params(params), comm.zero3_forward_params(params, head)
        forward = f"min(P, {comm.ZERO3_LIVE} + W)*e", {"P": params, "W": head, "e": e}
        others = f"min(P, {comm.ZERO3_LIVE + comm.ZERO3_PREFETCH})*e", {"P": params, "e": e}
        entries = [
            _gathered(most * e, *forward, frozenset({Phase.FORWARD})),
            _gathered(live * e, *others, WORKING - {Phase.FORWARD}),
            *_prefetched(setup, params),
        ]
    return [*entries, bucket_entry(setup, ALWAYS if zero3_keeps_buffers(setup) else BACKWARD)]


def _gathered(size: int, formula: str, symbols: Mapping[str, int | float], phases: frozenset[Phase]) -> Entry:
    return item(
        Category.COMMUNICATION, "gathered_layers", size, formula, symbols, "zero3_live", phases=phases
    )


def _prefetched(setup: Setup, params: int) -> list[Entry]:
    """What is gathered ahead comes as one buffer, ordered by rank, from which every parameter is put together.

    It shows where all of the model stays gathered; else there is no more when the output matrix is.
    """
    if not since(setup, BUFFERS_SINCE) or params > comm.ZERO3_LIVE:
        return []
    e, held, phases = setup.compute_bytes, min(params, comm.ZERO3_PREFETCH), {Phase.FORWARD}
    formula, symbols = f"min(P, {comm.ZERO3_PREFETCH})*e", {"P": params, "e": e}
    name = "prefetched_layers"
    return [
        item(Category.COMMUNICATION, name, held * e, formula, symbols, "zero3_gather", phases=phases)
    ]  # fmt: skip


def _expert_exchange(step: Step) -> list[Entry]:
    width = max((int(kind.form.widths["xh"]) for kind in step.kinds), default=0)
    setup, e = step.setup, step.setup.compute_bytes
    return [
        item(
            Category.COMMUNICATION,
            "expert_exchange",
            comm.expert_exchange_bytes(setup.tokens, width, e),
            "2*t*x*e",
            {"t": setup.tokens, "x": width, "e": e},
            "expert_all_to_all",
            phases=WORKING - {Phase.LOSS},
        )
    ]


def runtime_entries(share: Share, scenario: Scenario, tables: Tables) -> list[Entry]:
    """Workspaces, context, communicators."""
    workspace = runtime.cublas_workspace_bytes(share.gpu)
    context = runtime.context_bytes(share.gpu, tables)
    parallel = scenario.parallel
    degrees = (share.data, share.tensor, share.num_stages, share.context, parallel.expert)
    communicators = sum(1 for degree in degrees if degree > 1)
    each = runtime.nccl_bytes(1, tables)
    return [
        *_te_workspace(share, scenario),
        item(
            Category.CONTEXT,
            "cublas_workspaces",
            runtime.WORKSPACE_THREADS * workspace,
            "2*w",
            {"w": workspace},
            "cublas_workspace",
        ),
        item(
            Category.CONTEXT,
            "cuda_context",
            context,
            "c",
            {"c": context},
            "cuda_context",
            layer=Layer.PROCESS,
            estimate=True,
        ),
        *_kernel_modules(context, tables),
        item(
            Category.CONTEXT,
            "nccl_buffers",
            communicators * each,
            "k*c",
            {"k": communicators, "c": each},
            "nccl_buffers",
            layer=Layer.PROCESS,
            estimate=True,
        ),
    ]


def _kernel_modules(context: int, tables: Tables) -> list[Entry]:
    """Kernels of the libraries a step calls, loaded beside the context of an idle process; none without a context."""
    amount = runtime.modules_bytes(tables) if context else 0
    return [
        item(
            Category.CONTEXT, "kernel_modules", amount, "c", {"c": amount}, "kernel_modules",
            layer=Layer.PROCESS, estimate=True,
        )
    ]  # fmt: skip


def _te_workspace(share: Share, scenario: Scenario) -> list[Entry]:
    if scenario.runtime.name != "megatron_lm":
        return []
    amount = runtime.te_workspace_bytes(share.gpu)
    return [item(Category.CONTEXT, "te_workspace", amount, "w", {"w": amount}, "te_workspace")]


def states_bytes(setup: Setup, groups: Sequence[Group]) -> int:
    """Master copy and optimizer states of one device's share, wherever they are kept."""
    optimizer = setup.training.optimizer.model_copy(update={"paged": False})
    here = replace(
        setup,
        parallel=setup.parallel.model_copy(update={"offload": Offload()}),
        training=setup.training.model_copy(update={"optimizer": optimizer}),
    )
    return sum(entry.bytes for entry in (*state_entries(here, groups), *master_entries(here, groups)))


def host_need_of(setup: Setup, tensors: Sequence[Tensor], groups: Sequence[Group]) -> HostNeed:
    """Bytes of one device's share that lie in host memory or on disk."""
    offload = setup.parallel.offload
    trained = sum(ceil_div(group.params, setup.shard_states) for group in groups)
    states = states_bytes(setup, groups)
    weights = ceil_div(total(tensors), setup.shard_weights) * setup.param_bytes
    memory = nvme = 0
    for where, amount in ((offload.optimizer, states), (offload.parameters, weights)):
        memory += amount if where == "cpu" else 0
        nvme += amount if where == "nvme" else 0
    if setup.optimizer.paged:
        memory += states
    if offload.gradients == "cpu":
        memory += trained * setup.gradient_bytes
    if is_zero(setup):
        memory += pinned_for_disk(
            setup, weights=ceil_div(total(tensors), setup.shard_weights), stepped=trained
        )
    return HostNeed(memory_bytes=memory, nvme_bytes=nvme)
