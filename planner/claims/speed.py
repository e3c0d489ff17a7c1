"""Claims about time: recomputation, offload, scaling, links, networks."""

from typing import Any, Final

from planner.claims.bytes_per_parameter import BILLION
from planner.claims.training import full_training
from planner.claims.types import Claim, Figure, Outcome, planned, worked
from planner.hardware import Tables
from planner.throughput.links import PCIE_BYTES_PER_S
from planner.throughput.training_speed import TrainingSpeed, training_speed
from planner.units import GB

NVME_BYTES_PER_S: Final = 7 * GB
"""A fast drive of PCIe 4.0 x4, read."""
HUNDRED_GBIT: Final = 12.5 * GB
STATES: Final = 12
H100: Final = "h100-sxm-80gb"


def speed_of(job: dict[str, Any], tables: Tables) -> TrainingSpeed:
    """The speed of a job's plan."""
    return training_speed(planned(job, tables), tables)


def _step(job: dict[str, Any], tables: Tables) -> float:
    return speed_of(job, tables).step_time_s or 0.0


def g9_time(tables: Tables) -> Claim:
    """What checkpointing costs in time, by length: what is computed again, no fixed share."""
    figures = []
    for s in (512, 4096, 16384):
        plain = _step(full_training(sequence_length=s, checkpointing="none"), tables)
        for kind, said in (("full", 0.33), ("selective_op", 0.1)):
            more = _step(full_training(sequence_length=s, checkpointing=kind), tables) / plain - 1
            figures.append(Figure(name=f"{kind}_{s}", said=said, found=more, unit="frac"))
    return Claim(id="g9_time", outcome=Outcome.DEPENDS, figures=tuple(figures))


def g19(_tables: Tables) -> Claim:
    """States of 7e9 parameters over the host link and from a drive."""
    size = 7 * BILLION * STATES
    figures = [
        worked(name, None, "s", "P*c/r", {"P": 7 * BILLION, "c": STATES, "r": rate}, size / rate)
        for name, rate in (
            ("pcie_4", PCIE_BYTES_PER_S[4]),
            ("pcie_5", PCIE_BYTES_PER_S[5]),
            ("nvme", NVME_BYTES_PER_S),
        )
    ]
    figures += [
        Figure(
            name=f"nvme_over_pcie_{g}", said=10, found=PCIE_BYTES_PER_S[g] / NVME_BYTES_PER_S, unit="ratio"
        )
        for g in (4, 5)
    ]
    return Claim(id="g19", outcome=Outcome.DEPENDS, figures=tuple(figures))


def _zero2(cards: int, accumulation: int, gbit: float | None, tables: Tables) -> float:
    links = {} if gbit is None else {"links": {"inter_node_gbit": gbit}}
    job = full_training(cards=cards, gradient_accumulation=accumulation) | {"runtime": {"name": "deepspeed"}}
    job["hardware"] = {**job["hardware"], "devices_per_node": 8, **links}
    return speed_of({**job, "parallel": {"sharding": "zero2"}}, tables).tokens_per_s_per_gpu or 0.0


def g33(tables: Tables) -> Claim:
    """ZeRO-2 from 8 to 64 cards by network; offloaded states over PCIe 5; the same from a drive."""
    one_node = _zero2(8, 4, None, tables)
    figures = [
        Figure(
            name=f"scaling_{gbit}_gbit", said=0.9, found=_zero2(64, 4, gbit, tables) / one_node, unit="frac"
        )
        for gbit in (1600, 100, 25)
    ]
    kept = full_training(cards=8, gpu=H100, checkpointing="full") | {"runtime": {"name": "deepspeed"}}
    plain = _step({**kept, "parallel": {"sharding": "zero3"}}, tables)
    for where, said in (("cpu", 0.0), ("nvme", None)):
        job = {**kept, "parallel": {"sharding": "zero3", "offload": {"optimizer": where}}}
        job["hardware"] = {**kept["hardware"], "links": {"host": "pcie5_x16", "nvme_gb_per_s": 7}}
        more = _step(job, tables) / plain - 1
        figures.append(Figure(name=f"offload_{where}", said=said, found=more, unit="frac"))
    return Claim(id="g33", outcome=Outcome.WRONG, figures=tuple(figures))


def g34(_tables: Tables) -> Claim:
    """PCIe x16: one direction, and both together."""
    figures = []
    for generation in (4, 5):
        rate = PCIE_BYTES_PER_S[generation]
        figures.append(
            Figure(name=f"pcie_{generation}_each_way", said=64 * GB, found=rate, unit="bytes_per_s")
        )
        figures.append(
            Figure(name=f"pcie_{generation}_both_ways", said=None, found=2 * rate, unit="bytes_per_s")
        )
    return Claim(id="g34", outcome=Outcome.WRONG, figures=tuple(figures))


def e5(tables: Tables) -> Claim:
    """A trial on an eighth of the cards at the same load of each: what stays and what does not."""
    figures = []
    for sharding in ("none", "zero3"):
        speeds, peaks = [], []
        for cards in (64, 8):
            job = full_training(cards=cards, checkpointing="full") | {"runtime": {"name": "deepspeed"}}
            job["hardware"] = {**job["hardware"], "devices_per_node": 8}
            made = planned({**job, "parallel": {"sharding": sharding}}, tables)
            peaks.append(made.worst.peak_bytes)
            speeds.append(training_speed(made, tables).tokens_per_s_per_gpu or 0.0)
        figures.append(
            Figure(name=f"memory_of_trial_{sharding}", said=1, found=peaks[1] / peaks[0], unit="ratio")
        )
        figures.append(
            Figure(name=f"speed_of_trial_{sharding}", said=1, found=speeds[1] / speeds[0], unit="ratio")
        )
    return Claim(id="e5", outcome=Outcome.DEPENDS, figures=tuple(figures))
