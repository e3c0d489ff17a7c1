"""What one optimizer step of a plan asks of its slowest card: operations, bytes moved, bytes sent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from planner.hardware import Gpu, Tables
from planner.model.spec import ModelSpec
from planner.placement import Share, place
from planner.plan_types import Plan
from planner.throughput.stage_load import StageLoad
from planner.throughput.step_work import StepWork, TrainingCounts
from planner.throughput.tower_flops import tower_load
from planner.throughput.training_flops import (
    compute_format,
    layer_loads,
    low_format,
    passes_of,
    peak_flops,
    stage_load,
    token_flops,
    writes_scores,
)
from planner.throughput.training_time import step_parts, training_rates
from planner.throughput.training_wires import Held, Wires
from planner.throughput.types import Unknown
from planner.training.groups import grouped, total
from planner.training.ledgers import held_tensors
from planner.training.setup import STATE_OPTIMIZERS_8BIT, Setup, setup_for
from planner.units import GB

FUSED_RUNTIMES: Final = frozenset({"megatron_lm", "unsloth"})
"""Runtimes whose norms, activation functions and rotary embedding are single kernels; elsewhere they are chains."""
FUSED_VERSIONS: Final = ("llm.q", "llm.c")
"""The same, of runtimes that a scenario names by `generic` and a version."""
OWN_ATTENTION: Final = ("megatron-bridge", "mcore", "llm.q", "llm.c")
"""Versions whose attention kernels are made for the card at hand (cuDNN, FlashAttention-3); the FlashAttention-2 of the
others reaches a third to half of what Hopper and later can do (arXiv 2407.08608, table 1)."""
OVERLAPPED_VERSIONS: Final = ("megatron-bridge", "mcore")
"""Megatron-LM before mid-2023 reduces gradients when the last backward pass is over; these do it under it."""
CONSUMER_CLOCK: Final = 1.08
"""GeForce ratings are for a boost clock that cards pass under load: a stock RTX 4090 holds 2,730 MHz at full power,
rated for 2,520 (hothardware.com, October 2022). Data-centre ratings are for the highest clock there is."""
CONSUMER: Final = "GeForce"
PARTLY_FUSED: Final = 0.5
"""What is left of the chains where some kernels are fused."""
STATES: Final[Mapping[str, int]] = {
    "sgd": 0, "sgd_momentum": 1, "lion": 1, "lion_8bit": 1, "muon": 1, "adafactor": 0,
}  # fmt: skip
"""Elements of state per parameter, where not the two of Adam; Adafactor's rows and columns count as none."""


def training_work(plan: Plan, tables: Tables) -> tuple[StepWork | None, TrainingCounts, tuple[Unknown, ...]]:
    """The work of the stage that takes longest, the counts of the job, and what the tables lack.

    Stages on cards of one kind compare by their operations; on several kinds by what each takes on its own card.

    Args:
        plan: A plan of a training job.
        tables: Cards and servers.
    """
    scenario, model = plan.resolved, plan.model
    placed = place(scenario, model, tables)
    shares, place_of = _alike(_one_per_stage(placed))
    setups = [setup_for(share, scenario, model) for share in shares]
    loads = layer_loads(model)
    held = [_held(share, setup, model) for share, setup in zip(shares, setups, strict=True)]
    scores = writes_scores(scenario.training.attention, scenario.runtime.version)
    asked = [
        stage_load(share, setup, model, loads, own.trained, scores=scores)
        for share, setup, own in zip(shares, setups, held, strict=True)
    ]

    def asks(stage: int) -> tuple[StepWork | None, Wires, tuple[Unknown, ...]]:
        share, setup, own = shares[stage], setups[stage], held[stage]
        wires = Wires(share, setup, plan, own, tables)
        missing = card_lacks(share.gpu, setup) + wires.missing
        if missing:
            return None, wires, missing
        first = stage_load(share, setup, model, loads, own.trained, scores=scores, again=False)
        return _work(share, setup, (asked[stage], first), wires, scenario.runtime.version), wires, ()

    times = [load.flops / _rate(share.gpu, setups[0]) for share, load in zip(shares, asked, strict=True)]
    unlike: tuple[Unknown, ...] = ()
    if any(share.gpu != shares[0].gpu for share in shares):
        every = [asks(stage) for stage in range(len(shares))]
        unlike = tuple(dict.fromkeys(lack for _, _, lacks in every for lack in lacks))
        if not unlike:
            times = [_micro_batch_s(found, tables) for found, _, _ in every if found is not None]
    slow = max(range(len(shares)), key=times.__getitem__)
    every_s = sum(times[kind] for kind in place_of)
    share, setup = shares[slow], setups[slow]
    work, wires, missing = asks(slow)
    missing = unlike or missing
    if work is not None:
        others = every_s / times[slow] - 1
        work = None if missing else replace(work, bubble_frac=_bubble_frac(setup, others))
    counts = TrainingCounts(
        step_tokens=_step_tokens(setup, share),
        model_flops=token_flops(setup, model, loads) * _step_tokens(setup, share)
        + _picture_flops(shares, setups, model),
        hardware_flops=_hardware_flops(
            [asked[kind] for kind in place_of], setup, scenario.hardware.num_devices
        ),
        cards=scenario.hardware.num_devices,
        peak=_mean_peak(placed, low_format(setup) or compute_format(setup)),
        network_bytes=_network_bytes(work, wires),
    )
    return work, counts, missing


def _micro_batch_s(work: StepWork, tables: Tables) -> float:
    """Seconds of a stage for one micro-batch, on its own card."""
    parts = step_parts(work, training_rates(tables))
    once = parts.data_parallel + parts.pipeline_bubble + parts.optimizer_step + parts.host_transfers
    return (parts.total - once) / work.micro_batches


def _bubble_frac(setup: Setup, others: float) -> float:
    parallel = setup.parallel
    accumulation = setup.training.gradient_accumulation
    return bubble_frac(parallel.pipeline_schedule, others, accumulation, parallel.virtual_stages)


def _one_per_stage(shares: Sequence[Share]) -> list[Share]:
    """The slowest group of every stage: a stage goes at the pace of its slowest card."""
    slowest: dict[int, Share] = {}
    for share in shares:
        known = slowest.get(share.stage)
        if known is None or (share.gpu.flops.fp16 or 0.0) < (known.gpu.flops.fp16 or 0.0):
            slowest[share.stage] = share
    return [slowest[stage] for stage in sorted(slowest)]


def _alike(shares: Sequence[Share]) -> tuple[list[Share], list[int]]:
    """One share of each kind of stage, and every stage's kind: equal layers on equal cards do the same."""
    kinds: dict[tuple[object, ...], int] = {}
    first: list[Share] = []
    place_of = []
    for share in shares:
        layers = tuple(map(id, share.layers)), tuple(map(id, share.encoder_layers))
        ends = share.holds_embedding, share.holds_head
        key = (id(share.gpu), *layers, *ends, share.tensor, share.data, share.context, share.shard)
        if key not in kinds:
            kinds[key] = len(first)
            first.append(share)
        place_of.append(kinds[key])
    return first, place_of


def _mean_peak(shares: Sequence[Share], dtype: str) -> float | None:
    """Peak rate of a card, mean over all cards of the job; None where one of them has none."""
    rates = [(peak_flops(share.gpu, dtype), len(share.indices)) for share in shares]
    known = [(rate, cards) for rate, cards in rates if rate is not None]
    if len(known) < len(rates):
        return None
    return sum(rate * cards for rate, cards in known) / sum(cards for _, cards in known)


def _rate(gpu: Gpu, setup: Setup) -> float:
    return peak_flops(gpu, compute_format(setup)) or gpu.flops.fp16 or 1.0


def _held(share: Share, setup: Setup, model: ModelSpec) -> Held:
    tensors, trained = held_tensors(share, model, setup)
    stepped = sum(
        group.params / (setup.shard_experts if group.prefix else setup.shard_states)
        for group in grouped(trained)
    )
    return Held(total(tensors), total(trained), stepped)


def _step_tokens(setup: Setup, share: Share) -> float:
    training = setup.training
    return training.micro_batch * training.sequence_length * training.gradient_accumulation * share.data


def _hardware_flops(asked: Sequence[StageLoad], setup: Setup, cards: int) -> float:
    """Operations of all cards; every stage has as many."""
    return sum(load.flops for load in asked) * setup.training.gradient_accumulation * cards / len(asked)


def _picture_flops(shares: Sequence[Share], setups: Sequence[Setup], model: ModelSpec) -> float:
    """Operations of a step's pictures on all cards that have any, without those that are done again."""
    found = 0.0
    for share, setup in zip(shares, setups, strict=True):
        load = tower_load(share, setup, model, again=False)
        if load is not None:
            found += load.flops * setup.training.gradient_accumulation * share.data
    return found


def _network_bytes(work: StepWork | None, wires: Wires) -> float:
    """What a card sends to other nodes in a step: ideal times at the rate of its own network card."""
    if work is None or wires.net is None:
        return 0.0
    each = work.network_s + work.state_network_s
    return (each * work.micro_batches + work.once_network_s) * wires.net


def card_lacks(gpu: Gpu, setup: Setup) -> tuple[Unknown, ...]:
    """What the tables don't say of a card, of all that its rates in a job's formats come from."""
    found = [
        Unknown(code="no_peak_rate", gpu_id=gpu.id, params=(("dtype", dtype),))
        for dtype in (compute_format(setup), low_format(setup))
        if dtype is not None and peak_flops(gpu, dtype) is None
    ]
    if gpu.tdp_w is None:
        found.append(Unknown(code="no_power_limit", gpu_id=gpu.id))
    if gpu.bandwidth_bytes_per_s is None:
        found.append(Unknown(code="no_bandwidth", gpu_id=gpu.id))
    return tuple(found)


def _work(
    share: Share,
    setup: Setup,
    loads: tuple[StageLoad, StageLoad],
    wires: Wires,
    version: str | None,
) -> StepWork:
    """The numbers of a step that waits for no other stage; `loads` are with and without what is done again."""
    gpu, accumulation = share.gpu, setup.training.gradient_accumulation
    load, first = loads
    wire, whose = wires.in_the_way()
    each, once = wires.states()
    host_s, host_optimizer, disk = _offloaded(share, setup, wires)
    return StepWork(
        full_flops=load.full,
        low_flops=load.low,
        full_expert_flops=load.full_experts,
        low_expert_flops=load.low_experts,
        attention_flops=load.attention,
        moved_bytes=load.moved_bytes,
        again_full_flops=load.full - first.full,
        again_low_flops=load.low - first.low,
        again_attention_flops=load.attention - first.attention,
        again_moved_bytes=load.moved_bytes - first.moved_bytes,
        eager_frac=_eager_frac(setup, version),
        **of_card(gpu, setup, version),
        layer_passes=load.layer_passes,
        micro_batches=accumulation,
        bubble_frac=0.0,
        fabric_s=wire.fabric,
        pcie_s=wire.pcie,
        network_s=wire.network,
        hops=wire.hops,
        state_fabric_s=each.fabric,
        state_pcie_s=each.pcie,
        state_network_s=each.network,
        state_hops=each.hops,
        once_fabric_s=once.fabric,
        once_pcie_s=once.pcie,
        once_network_s=once.network,
        once_hops=once.hops,
        once_hidden=float(_hides_once(setup, version)),
        optimizer_bytes=_optimizer_bytes(setup, wires.held),
        host_s=host_s,
        host_optimizer_bytes=host_optimizer,
        disk_s=disk,
        tensor_frac=whose.tensor,
        expert_frac=whose.expert,
        stage_frac=whose.pipeline,
    )


def of_card(gpu: Gpu, setup: Setup, version: str | None) -> dict[str, float]:
    """The numbers of a step's work that follow from the card and the formats; its rates are known (`card_lacks`)."""
    dtype, low_dtype = compute_format(setup), low_format(setup)
    is_hopper_up = (gpu.compute_capability or (0, 0)) >= (9, 0) and not _named(version, OWN_ATTENTION)
    return {
        "peak": (peak_flops(gpu, dtype) or 1.0) * _clock(gpu),
        "low_peak": ((peak_flops(gpu, low_dtype) if low_dtype else None) or 1.0) * _clock(gpu),
        "power_w": gpu.tdp_w or 1.0,
        "bandwidth": gpu.bandwidth_bytes_per_s or 1.0,
        "is_hopper_up": float(is_hopper_up),
    }


def _clock(gpu: Gpu) -> float:
    return CONSUMER_CLOCK if gpu.name.startswith(CONSUMER) else 1.0


def _named(version: str | None, names: tuple[str, ...]) -> bool:
    return (version or "").lower().startswith(names)


def _hides_once(setup: Setup, version: str | None) -> bool:
    """Whether what is reduced once a step hides under the last micro-batch; see `OVERLAPPED_VERSIONS`."""
    if setup.runtime != "megatron_lm" or setup.parallel.sharding not in ("none", "zero1"):
        return True
    return _named(version, OVERLAPPED_VERSIONS)


def _eager_frac(setup: Setup, version: str | None) -> float:
    if setup.runtime in FUSED_RUNTIMES or setup.compiled or (version or "").startswith(FUSED_VERSIONS):
        return 0.0
    return PARTLY_FUSED if setup.training.kernels else 1.0


def bubble_frac(schedule: str | None, others: float, micro_batches: int, virtual_stages: int | None) -> float:
    """Idle over busy time of the slowest stage.

    1F1B and GPipe: every other stage passes once, (p-1)/m where stages are equal; interleaving divides that by the
    chunks of a stage. Narayanan et al. 2021 (arXiv 2104.04473), section 2.2. Zero bubble leaves the third that
    weight gradients cannot fill (arXiv 2401.10241, ZB-H1). `naive`: one stage at a time.

    Args:
        schedule: Name, None for 1F1B.
        others: Time of all other stages over that of the slowest; p-1 where they are equal.
        micro_batches: Of a step.
        virtual_stages: Chunks of a stage, None for one.
    """
    if schedule == "naive":
        return others
    idle = others / micro_batches / (virtual_stages or 1)
    return idle / 3 if schedule == "zero_bubble" else idle


def _per_param(setup: Setup) -> float:
    """Bytes an optimizer step moves a parameter: gradient read, states read and written, weight written."""
    kept = setup.master_bytes or setup.train_bytes
    copies = setup.train_bytes if setup.master_bytes else 0
    state_bytes = 1 if setup.optimizer.name in STATE_OPTIMIZERS_8BIT else setup.state_bytes
    return setup.gradient_bytes + 2 * _states(setup) * state_bytes + 2 * kept + copies


def _states(setup: Setup) -> int:
    return STATES.get(setup.optimizer.name, 2)


def _optimizer_bytes(setup: Setup, held: Held) -> float:
    if setup.parallel.offload.optimizer != "none":
        return 0.0
    return held.stepped * _per_param(setup)


def _offloaded(share: Share, setup: Setup, wires: Wires) -> tuple[float, float, float]:
    """Ideal seconds over the host link, bytes of the host's optimizer step, ideal seconds of the disk."""
    offload, training, held = setup.parallel.offload, setup.training, wires.held
    moved = host = disk = 0.0
    if offload.optimizer != "none":
        moved += held.stepped * (setup.gradient_bytes + setup.compute_bytes)
        host += held.stepped * _per_param(setup)
        states = 2 * _states(setup) * setup.state_bytes + 2 * setup.master_bytes
        disk += held.stepped * states * (offload.optimizer == "nvme")
    if offload.parameters != "none":
        weights = held.params * setup.compute_bytes / setup.shard_weights
        visits = passes_of(setup).visits * training.gradient_accumulation
        moved += weights * visits
        disk += weights * visits * (offload.parameters == "nvme")
    if training.activation_offload:
        kept = len(share.layers) * setup.tokens * wires.model.hidden_size * setup.compute_bytes
        moved += 2 * kept * training.gradient_accumulation
    cards = min(wires.per_node, wires.cards)
    return moved / (wires.host or 1.0), host, disk * cards / ((wires.disk_gb_per_s or 1.0) * GB)
