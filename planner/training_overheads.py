"""Ledger entries around the model: communication buffers, workspaces, context, and what offload moves to the host."""

from collections.abc import Sequence

from planner.hardware import Tables
from planner.ledger import Category, Entry, Layer, Phase
from planner.memory import communication as comm
from planner.memory import runtime
from planner.memory.inventory import Tensor
from planner.memory.terms import item
from planner.placement import Share
from planner.plan_types import HostNeed
from planner.scenario import Scenario
from planner.training_setup import Setup
from planner.training_states import Group, total
from planner.training_step import Step
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
                Category.COMMUNICATION, "ddp_buckets", comm.ddp_bucket_bytes(params, e), "P*e", {"P": params, "e": e},
                "ddp_buckets",
            )
        )  # fmt: skip
    elif sharding == "fsdp":
        entries += _fsdp(step, tensors)
    elif sharding == "zero3":
        entries += _zero3(step, tensors)
    elif sharding in {"zero1", "zero2"} and not setup.megatron:
        entries += _zero_buckets(step, groups)
    if setup.parallel.expert > 1:
        entries += _expert_exchange(step)
    return entries


def _units(step: Step, tensors: Sequence[Tensor]) -> tuple[int, int]:
    """Elements of the root unit (all outside the layers) and of an average layer, quantized ones in packed bytes."""
    inside = total(t for t in tensors if t.place in {"layers", "experts"})
    layers = max(1, len(step.layers))
    return total(tensors) - inside, ceil_div(inside, layers)


def _fsdp(step: Step, tensors: Sequence[Tensor]) -> list[Entry]:
    setup = step.setup
    if setup.shard_weights == 1:
        return []
    root, unit = _units(step, tensors)
    e = setup.compute_bytes
    c = 0.5 if setup.quantized_base else 1.0
    entries = [
        item(
            Category.COMMUNICATION, "gathered_root", root * e, "R*e", {"R": root, "e": e}, "fsdp_gather", phases=WORKING
        ),
        item(
            Category.COMMUNICATION, "gathered_layers", -(-2 * unit * e * c // 2) if setup.quantized_base else 2 * unit * e,
            "ceil(2*U*e*c/2)" if setup.quantized_base else "2*U*e",
            {"U": unit, "e": e, **({"c": c} if setup.quantized_base else {})}, "fsdp_gather", phases=WORKING,
        ),
    ]  # fmt: skip
    if setup.adapter is None:
        entries.append(
            item(
                Category.COMMUNICATION, "unit_gradients", comm.unit_gradient_bytes(unit, e), "U*e", {"U": unit, "e": e},
                "fsdp_scatter", phases=BACKWARD,
            )
        )  # fmt: skip
    return entries


def _zero3(step: Step, tensors: Sequence[Tensor]) -> list[Entry]:
    setup, params, e = step.setup, total(tensors), step.setup.compute_bytes
    live = comm.zero3_live_params(params)
    bucket = comm.zero_bucket_params(params, comm.ZERO_BUCKET)
    entries = [
        item(
            Category.COMMUNICATION, "gathered_layers", live * e, "min(P, 1050000000)*e", {"P": params, "e": e},
            "zero3_live", phases=WORKING,
        )
    ] if setup.shard_weights > 1 else []  # fmt: skip
    if setup.adapter is None:
        entries.append(
            item(
                Category.COMMUNICATION, "reduce_bucket", bucket * e, "min(P, 500000000)*e", {"P": params, "e": e},
                "zero_buckets",
            )
        )  # fmt: skip
    return entries


def _zero_buckets(step: Step, groups: Sequence[Group]) -> list[Entry]:
    setup, e = step.setup, step.setup.gradient_bytes
    params = sum(group.params for group in groups)
    bucket = comm.zero_bucket_params(params, comm.ZERO_BUCKET)
    formula, symbols = "min(P, 500000000)*e", {"P": params, "e": e}
    return [
        item(Category.COMMUNICATION, "reduce_bucket", bucket * e, formula, symbols, "zero_buckets", phases=BACKWARD),
        item(
            Category.COMMUNICATION, "gather_bucket", bucket * e, formula, symbols, "zero_buckets",
            phases=frozenset({Phase.OPTIMIZER_STEP}),
        ),
    ]  # fmt: skip


def _expert_exchange(step: Step) -> list[Entry]:
    width = max((int(form.widths["xh"]) for _, _, form in step.forms), default=0)
    setup, e = step.setup, step.setup.compute_bytes
    return [
        item(
            Category.COMMUNICATION, "expert_exchange", comm.expert_exchange_bytes(setup.tokens, width, e), "2*t*x*e",
            {"t": setup.tokens, "x": width, "e": e}, "expert_all_to_all", phases=WORKING,
        )
    ]  # fmt: skip


def runtime_entries(share: Share, scenario: Scenario, tables: Tables) -> list[Entry]:
    """Workspaces, context, communicators."""
    workspace = runtime.cublas_workspace_bytes(share.gpu)
    context = runtime.context_bytes(share.gpu, tables)
    parallel = scenario.parallel
    degrees = (share.data, parallel.tensor, parallel.pipeline, parallel.context, parallel.expert)
    communicators = sum(1 for degree in degrees if degree > 1)
    each = runtime.nccl_bytes(1, tables)
    return [
        item(
            Category.CONTEXT, "cublas_workspaces", runtime.WORKSPACE_THREADS * workspace, "2*w", {"w": workspace},
            "cublas_workspace",
        ),
        item(Category.CONTEXT, "cuda_context", context, "c", {"c": context}, "cuda_context", layer=Layer.PROCESS, estimate=True),
        item(
            Category.CONTEXT, "nccl_buffers", communicators * each, "k*c", {"k": communicators, "c": each}, "nccl_buffers",
            layer=Layer.PROCESS, estimate=True,
        ),
    ]  # fmt: skip


def host_need_of(setup: Setup, tensors: Sequence[Tensor], groups: Sequence[Group]) -> HostNeed:
    """Bytes of one device's share that lie in host memory or on disk."""
    offload = setup.parallel.offload
    trained = sum(ceil_div(group.params, setup.shard_states) for group in groups)
    states = int(trained * (setup.master_bytes + 2 * setup.state_bytes))
    weights = ceil_div(total(tensors), setup.shard_weights) * setup.param_bytes
    memory = nvme = 0
    for where, amount in ((offload.optimizer, states), (offload.parameters, weights)):
        memory += amount if where == "cpu" else 0
        nvme += amount if where == "nvme" else 0
    if setup.optimizer.paged:
        memory += states
    if offload.gradients == "cpu":
        memory += trained * setup.gradient_bytes
    return HostNeed(memory_bytes=memory, nvme_bytes=nvme)
