"""Which part of a divided job a trace follows, and which divisions it cannot follow. No PyTorch here."""

from collections.abc import Iterator
from typing import Any, Final

from planner.memory.formats import QUANTIZED
from planner.placement import data_degree
from planner.scenario import Parallel, Scenario
from profiler.documents import Param, Remark
from profiler.trace.documents import Part

FLOATS: Final = ("fp32", "bf16", "fp16")
COMMUNICATION: Final = "communication"
"""Kind of a storage that is there because a job is divided; its detail says what for."""


def part_of(scenario: Scenario, rank: int = 0) -> Part:
    """One rank's part of a scenario's job.

    One's own loop cuts the loss along the vocabulary, as torchtitan's does; transformers' classes gather the logits
    (`colwise_gather_output` in their plan). Gradients are reduced in fp32 where shards are fp32 and the loop is
    one's own, as torchtitan does; the Trainer reduces them as they come (accelerate's `set_mixed_precision`).

    Args:
        scenario: The scenario with every default of its runtime filled in.
        rank: Which rank.

    Raises:
        ValueError: The job has no such rank.
    """
    parallel, data = scenario.parallel, data_degree(scenario)
    shards = _shards(scenario) if parallel.sharding == "fsdp" else 1
    last = data * parallel.tensor - 1
    if not 0 <= rank <= last:
        raise ValueError(f"--rank: {rank} given; 0 to {last}")
    given: dict[str, Any] = {
        "rank": rank,
        "copies": max(1, data // shards),
        "shards": shards,
        "tensor": parallel.tensor,
        "loss": parallel.tensor > 1 and scenario.runtime.name == "generic",
        "sequence": parallel.sequence and parallel.tensor > 1,
        "bucket_mb": parallel.bucket_mb,
        "finds_unused": shards == 1 < data and _finds_unused(scenario),
    }
    if parallel.reshard_after_forward is not None:
        given["reshard"] = parallel.reshard_after_forward
    if shards > 1 and scenario.training.precision.compute in FLOATS:
        wide = scenario.training.precision.parameters == "fp32" and scenario.runtime.name != "hf_trainer"
        given["compute"] = scenario.training.precision.compute
        given["reduce"] = "fp32" if wide else None
    return Part(**given)


def _finds_unused(scenario: Scenario) -> bool:
    """The Trainer looks for unused parameters unless layers are checkpointed."""
    return scenario.runtime.name == "hf_trainer" and scenario.training.checkpointing == "none"


def casts_by_unit(scenario: Scenario) -> bool:
    """Whether FSDP2 casts what it gathers, so that products need no autocast."""
    return scenario.parallel.sharding == "fsdp" and _shards(scenario) > 1


def _shards(scenario: Scenario) -> int:
    return scenario.parallel.sharding_degree or data_degree(scenario)


def _one_stage(parallel: Parallel) -> Iterator[Remark]:
    """Layers on several cards, experts and positions dealt out: what no single traced rank stands for."""
    for name in ("pipeline", "context", "expert"):
        degree = getattr(parallel, name)
        if degree > 1:
            yield _refuse("division_not_traced", f"parallel.{name}", degree, "1")
    stages = len(parallel.stages or ())
    if stages > 1:
        yield _refuse("division_not_traced", "parallel.stages", stages, "1")


def why_not_divided(scenario: Scenario) -> Iterator[Remark]:
    """One remark per field of a division that a trace cannot follow."""
    parallel = scenario.parallel
    yield from _one_stage(parallel)
    data = data_degree(scenario)
    if parallel.sharding in {"zero1", "zero2", "zero3"} and data > 1:
        yield _refuse("zero_not_traced", "parallel.sharding", parallel.sharding, "none, fsdp")
    if data > 1 and parallel.sharding == "none" and parallel.data_parallel not in {None, "ddp"}:
        yield _refuse("division_not_traced", "parallel.data_parallel", str(parallel.data_parallel), "ddp")
    if parallel.sharding == "fsdp" and data % _shards(scenario):
        yield _refuse(
            "shards_do_not_divide", "parallel.sharding_degree", _shards(scenario), f"parts of {data}"
        )
    if casts_by_unit(scenario) and _is_quantized(scenario):
        yield _refuse("packed_shards_not_traced", "parallel.sharding", "fsdp", "none")
    divided = parallel.tensor > 1 or casts_by_unit(scenario)
    if divided and scenario.training.optimizer.name == "adafactor":
        yield _refuse("optimizer_not_divided", "training.optimizer.name", "adafactor", "adamw, adam, sgd")
    if parallel.tensor > 1 and scenario.adapter is not None and scenario.task in {"lora", "qlora"}:
        yield _refuse("adapter_with_tensor_not_traced", "parallel.tensor", parallel.tensor, "1")
    if parallel.sequence and parallel.tensor > 1 and scenario.training.sequence_length % parallel.tensor:
        given = scenario.training.sequence_length
        yield _refuse(
            "sequence_does_not_divide", "training.sequence_length", given, f"parts of {parallel.tensor}"
        )


def _is_quantized(scenario: Scenario) -> bool:
    """Packed bytes are left whole by loaders unless stored as floats; which it is, a scenario does not say."""
    adapter = scenario.adapter
    return scenario.task == "qlora" or (adapter is not None and adapter.base in QUANTIZED)


def _refuse(code: str, field: str, given: Param, allowed: str) -> Remark:
    return Remark(code=code, field=field, params={"given": given, "allowed": allowed})
