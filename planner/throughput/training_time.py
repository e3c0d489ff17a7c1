"""Seconds of a step from its work and the fitted rates. Every number may be an array."""

import re
from dataclasses import dataclass, fields
from typing import Final

from planner.hardware import Tables
from planner.scenario import Runtime
from planner.throughput.step_work import StepWork

PREFIX: Final = "speed_train_"
FACTOR_PREFIX: Final = "speed_train_factor_"
HIDDEN_FRAC: Final = 0.9
"""Share of the computing time under which gathering and reducing of states can hide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRates:
    """Fitted constants (`speed_train_*`), each with its provenance in the data file.

    Attributes:
        product_frac: Share of the rated peak that large matrix products reach while power allows.
        joule_per_tflop: Energy of 1e12 operations in 16 bit; with the power limit it bounds the clock.
        low_joule_frac: The same in fp8 and fp4, as a share of that.
        expert_slow: What is added to the time of products where they are of routed experts: many small ones, relative.
        attention_slow: Time of attention operations over that of matrix products.
        attention_slow_hopper: What is added to that on Hopper and later.
        moved_scale: Memory traffic over the counted bytes, fused kernels.
        eager_scale: Further traffic of single-step kernels, times the counted bytes.
        layer_s: Launching the kernels of a layer pass.
        hop_s: Latency of one message of a collective.
        fabric_frac: Share of the fabric's rate that collectives in the way of the layers reach.
        pcie_frac: The same of PCIe.
        network_frac: The same of the network.
        state_leak: Share of the time of gathering and reducing states that is never hidden.
        step_scale: Optimizer traffic over the counted bytes.
        host_frac: Share of the host link's rate.
        host_optimizer_bytes_per_s: Bytes per second of the host's optimizer step, a card's share.
    """

    product_frac: float
    joule_per_tflop: float
    low_joule_frac: float
    expert_slow: float
    attention_slow: float
    attention_slow_hopper: float
    moved_scale: float
    eager_scale: float
    layer_s: float
    hop_s: float
    fabric_frac: float
    pcie_frac: float
    network_frac: float
    state_leak: float
    step_scale: float
    host_frac: float
    host_optimizer_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """Seconds of a whole step that nothing else hides, in order of a stacked bar."""

    matrix_products: float
    attention: float
    memory_traffic: float
    recompute: float
    launches: float
    tensor_parallel: float
    context_parallel: float
    expert_parallel: float
    stage_transfers: float
    data_parallel: float
    pipeline_bubble: float
    optimizer_step: float
    host_transfers: float

    @property
    def total(self) -> float:
        """The step."""
        layers = self.matrix_products + self.attention + self.memory_traffic + self.recompute + self.launches
        waits = self.tensor_parallel + self.context_parallel + self.expert_parallel + self.stage_transfers
        waits += self.data_parallel
        return layers + waits + self.pipeline_bubble + self.optimizer_step + self.host_transfers


def training_rates(tables: Tables) -> TrainingRates:
    """The constants of the tables.

    Raises:
        LookupError: One is missing.
    """
    return TrainingRates(**{item.name: tables.value(PREFIX + item.name) for item in fields(TrainingRates)})


def runtime_key(runtime: Runtime) -> str:
    """Name of a runtime's own constant: `torchtitan`, `megatron_lm_megatron_bridge`, `generic_llm_q`.

    The first word of the version counts where it is a name and no number.
    """
    word = (runtime.version or "").split(" ")[0].lower()
    if not word or not word[0].isalpha():
        return runtime.name
    return f"{runtime.name}_{re.sub('[^a-z0-9]+', '_', word)}"


def runtime_factor(runtime: Runtime, tables: Tables) -> float:
    """Time of a runtime's steps over that of all; 1 where no published run tells."""
    found = tables.constants.get(FACTOR_PREFIX + runtime_key(runtime))
    return 1.0 if found is None else found.value


def scaled(parts: StepParts, factor: float) -> StepParts:
    """Every part times a factor."""
    return StepParts(**{item.name: getattr(parts, item.name) * factor for item in fields(StepParts)})


def positive(value: float) -> float:
    """The value, or 0 where it is below; written for arrays as well as for numbers."""
    half: float = (value + abs(value)) / 2
    return half


def step_parts(work: StepWork, rates: TrainingRates) -> StepParts:
    """Roofline with power: products at peak and at the energy they take, traffic beside them, then what waits.

    t = F/(peak x share) + F x energy/power for products; bytes/bandwidth for the rest; launches count where the
    card would be idle without them. Collectives in the way of a layer add up; gathering and reducing of states
    hides under 90 % of the computing. The bubble stretches everything a micro-batch does.
    """
    joule = rates.joule_per_tflop / 1e12 / work.power_w
    full_s = 1 / (work.peak * rates.product_frac) + joule
    low_s = 1 / (work.low_peak * rates.product_frac) + joule * rates.low_joule_frac
    attention_s = full_s * (rates.attention_slow + rates.attention_slow_hopper * work.is_hopper_up)
    byte_s = (rates.moved_scale + rates.eager_scale * work.eager_frac) / work.bandwidth
    attention_again, moved_again = work.again_attention_flops * attention_s, work.again_moved_bytes * byte_s
    grouped = rates.expert_slow * (work.full_expert_flops * full_s + work.low_expert_flops * low_s)
    dense = work.full_flops * full_s + work.low_flops * low_s
    products = dense + grouped
    products_again = (work.again_full_flops * full_s + work.again_low_flops * low_s) * products / dense
    attention, moved = work.attention_flops * attention_s, work.moved_bytes * byte_s
    busy = products + attention + moved
    launches = positive(work.layer_passes * rates.layer_s - busy)
    waits = _linked(work.fabric_s, work.pcie_s, work.network_s, work.hops, rates)
    computing = busy + launches
    states = _linked(work.state_fabric_s, work.state_pcie_s, work.state_network_s, work.state_hops, rates)
    once = _linked(work.once_fabric_s, work.once_pcie_s, work.once_network_s, work.once_hops, rates)
    states_seen = rates.state_leak * states + positive(
        (1 - rates.state_leak) * states - HIDDEN_FRAC * computing
    )
    once_seen = rates.state_leak * once + positive(
        (1 - rates.state_leak) * once - HIDDEN_FRAC * computing * work.once_hidden
    )
    m = work.micro_batches
    each = computing + waits + states_seen
    return StepParts(
        matrix_products=(products - products_again) * m,
        attention=(attention - attention_again) * m,
        memory_traffic=(moved - moved_again) * m,
        recompute=(products_again + attention_again + moved_again) * m,
        launches=launches * m,
        tensor_parallel=waits * work.tensor_frac * m,
        context_parallel=waits * (1 - work.tensor_frac - work.expert_frac - work.stage_frac) * m,
        expert_parallel=waits * work.expert_frac * m,
        stage_transfers=waits * work.stage_frac * m,
        data_parallel=states_seen * m + once_seen,
        pipeline_bubble=each * m * work.bubble_frac,
        optimizer_step=work.optimizer_bytes * rates.step_scale / work.bandwidth,
        host_transfers=work.host_s / rates.host_frac
        + work.host_optimizer_bytes / rates.host_optimizer_bytes_per_s
        + work.disk_s / rates.host_frac,
    )


def _linked(fabric: float, pcie: float, network: float, hops: float, rates: TrainingRates) -> float:
    """Volume over what a link reaches, and a latency for every message that waits for the one before."""
    over = fabric / rates.fabric_frac + pcie / rates.pcie_frac + network / rates.network_frac
    return over + hops * rates.hop_s
