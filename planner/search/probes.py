"""What a step of each variant asks, as arrays over micro-batches, from a few plans on a card that does not exist.

A step's work is linear in the micro-batch and its optimizer's part inversely so in the shards, whatever the card; so a
few calls of the planner's own `training_work` give every number, and none of its formulas is written twice. A test
holds the result against that function on real cards.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from planner.hardware import Gpu, PeakFlops, Tables
from planner.model.spec import ModelSpec
from planner.placement import place
from planner.plan_types import Plan, Verdict
from planner.scenario import Device, Hardware, Links, Scenario
from planner.search.space import Variant
from planner.throughput.step_work import StepWork
from planner.throughput.training_wires import Held, Wires
from planner.throughput.training_work import card_lacks, of_card, training_work
from planner.throughput.types import Unknown
from planner.training.setup import setup_for

REFERENCE_ID: Final = "search-reference"
UNIT_RATES: Final = PeakFlops(fp32=1.0, tf32=1.0, fp16=1.0, bf16=1.0, fp8=1.0, int8=1.0, fp4=1.0)
REFERENCE: Final = Gpu(
    id=REFERENCE_ID, name=REFERENCE_ID, form_factor="SXM", bandwidth_bytes_per_s=1.0, flops=UNIT_RATES,
    interconnect_bidir_bytes_per_s=2.0, pcie_bytes_per_s=1.0, tdp_w=1.0,
)  # fmt: skip
"""Every rate is one, so that times read as amounts."""
OF_CARD: Final = frozenset({"peak", "low_peak", "power_w", "bandwidth", "is_hopper_up"})
NOT_SHARES: Final = frozenset({"eager_frac", "bubble_frac"})
SHARES: Final = tuple(
    item.name for item in fields(StepWork) if item.name.endswith("_frac") and item.name not in NOT_SHARES
)
"""Whose the time in the layers' way is: it changes no sum."""
OF_LINKS: Final = frozenset(
    {
        *SHARES,
        *("fabric_s", "pcie_s", "network_s", "hops"),
        *("state_fabric_s", "state_pcie_s", "state_network_s", "state_hops"),
        *("once_fabric_s", "once_pcie_s", "once_network_s", "once_hops"),
    }
)
PER_SHARD: Final = frozenset({"optimizer_bytes", "host_s", "host_optimizer_bytes", "disk_s"})
OF_STEP: Final = frozenset({"micro_batches", "bubble_frac"})
PLAIN: Final = tuple(
    item.name for item in fields(StepWork) if item.name not in OF_CARD | OF_LINKS | PER_SHARD | OF_STEP
)
"""What depends on the variant and the micro-batch alone."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a variant's work on the reference card follows the micro-batch and the number of them.

    Attributes:
        fixed: Part of each plain number that does not follow the micro-batch.
        slopes: Part for each of its sequences.
        bubble: Idle over busy time with one micro-batch; it shrinks with their number (1F1B).
        activation_host: Host transfers of each sequence of a card's share of the batch.
    """

    fixed: Mapping[str, float]
    slopes: Mapping[str, float]
    bubble: float
    activation_host: float


@dataclass(frozen=True, slots=True)
class CardRates:
    """What of a step's work is the card's.

    Attributes:
        values: Numbers of `OF_CARD`.
        missing: What the tables lack; then there are no values.
    """

    values: Mapping[str, float]
    missing: tuple[Unknown, ...]


def with_reference(tables: Tables, others: Iterable[Gpu] = ()) -> Tables:
    """The tables with the card that does not exist in them; it is in no server either."""
    return replace(tables, nodes=(), gpus={**tables.gpus, **{gpu.id: gpu for gpu in (REFERENCE, *others)}})


def placed(
    scenario: Scenario, gpu_id: str, devices: int, *, data: int, micro_batch: int, accumulation: int,
    per_node: int | None = None, ram_gib: float | None = None,
) -> Scenario:  # fmt: skip
    """A question on equal cards, its division and its micro-batches told; the reference card has its own links.

    Args:
        scenario: The question.
        gpu_id: The card.
        devices: How many.
        data: Data-parallel degree.
        micro_batch: Sequences of a pass.
        accumulation: Passes of a step.
        per_node: Cards of a machine, None: the table's own.
        ram_gib: Memory of a machine, None where it is not known.
    """
    hardware = scenario.hardware
    links = Links() if gpu_id == REFERENCE_ID else hardware.links
    on = Hardware(
        devices=(Device(gpu=gpu_id, count=devices),), devices_per_node=per_node, host_memory_gib=ram_gib,
        margin_frac=hardware.margin_frac, links=links,
    )  # fmt: skip
    training = scenario.training.model_copy(
        update={"micro_batch": micro_batch, "gradient_accumulation": accumulation}
    )
    parallel = scenario.parallel.model_copy(update={"data": data})
    return scenario.model_copy(update={"hardware": on, "training": training, "parallel": parallel})


def with_network(scenario: Scenario, gbit: float | None) -> Scenario:
    """A question with the network of the machines that it is put on; its own where that is None."""
    if gbit is None:
        return scenario
    hardware = scenario.hardware
    links = hardware.links.model_copy(update={"inter_node_gbit": gbit})
    return scenario.model_copy(update={"hardware": hardware.model_copy(update={"links": links})})


def thin_plan(resolved: Scenario, model: ModelSpec) -> Plan:
    """A plan without its ledgers: all that a speed is worked out from."""
    return Plan(
        scenario=resolved, resolved=resolved, model=model, devices=(), fullest=0, verdict=Verdict.UNKNOWN
    )


def _work(
    variant: Variant, model: ModelSpec, tables: Tables, micro_batch: int, accumulation: int, data: int
) -> StepWork:
    scenario = placed(
        variant.resolved, REFERENCE_ID, data * variant.copy,
        data=data, micro_batch=micro_batch, accumulation=accumulation,
    )  # fmt: skip
    work, _, missing = training_work(thin_plan(scenario, model), tables)
    if work is None:
        raise ValueError(f"the reference card lacks {missing}")
    return work


def course(variant: Variant, model: ModelSpec, tables: Tables) -> Course:
    """How the work of a variant grows, whatever its sharding and optimizer. `tables` hold the reference card."""
    one, two = (_work(variant, model, tables, sequences, 1, 2) for sequences in (1, 2))
    slopes = {name: getattr(two, name) - getattr(one, name) for name in PLAIN}
    return Course(
        fixed={name: getattr(one, name) - slopes[name] for name in PLAIN},
        slopes=slopes,
        bubble=one.bubble_frac,
        activation_host=two.host_s - one.host_s,
    )


def per_shard(
    variant: Variant, model: ModelSpec, tables: Tables, found: Course, data: int
) -> dict[str, float]:
    """What the optimizer's step asks of a card if nothing were sharded, from a plan on `data` copies."""
    work = _work(variant, model, tables, 1, 1, data)
    shards = shards_of(variant, data)
    amounts = {name: getattr(work, name) * shards for name in PER_SHARD}
    amounts["host_s"] = (work.host_s - found.activation_host) * shards
    return amounts


def shards_of(variant: Variant, data: int) -> int:
    """Cards that one copy of the states is divided over."""
    return 1 if variant.resolved.parallel.sharding == "none" else data * variant.context


def card_rates(variant: Variant, gpu_id: str, model: ModelSpec, tables: Tables) -> CardRates:
    """What of the work is the card's, in the formats of a variant."""
    scenario = placed(
        variant.resolved.model_copy(update={"parallel": type(variant.resolved.parallel)()}),
        gpu_id, 1, data=1, micro_batch=1, accumulation=1,
    )  # fmt: skip
    share = place(scenario, model, tables)[0]
    setup = setup_for(share, scenario, model)
    wires = Wires(share, setup, thin_plan(scenario, model), Held(0, 0, 0.0), tables)
    missing = card_lacks(share.gpu, setup) + wires.missing
    return CardRates({} if missing else of_card(share.gpu, setup, scenario.runtime.version), missing)
