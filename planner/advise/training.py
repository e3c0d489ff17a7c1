"""Changes of a job that trains: what saves memory, and what could use memory that is left."""

from collections.abc import Iterator
from typing import Any, Final

from planner.advise.change import Change, change
from planner.advise.division import other_divisions
from planner.document import Document
from planner.model.own_tokens import own_tokens
from planner.placement import data_degree, stage_layers
from planner.plan_types import Plan
from planner.scenario import Scenario

SHORTEST_SEQUENCE: Final = 512
NEXT_SHARDING: Final = {"none": "zero1", "zero1": "zero2", "zero2": "zero3"}
LESS_SHARDING: Final = {"zero3": "zero2", "zero2": "zero1", "zero1": "none"}
FULL_WEIGHTS: Final = frozenset({"pretrain", "full"})
FIRST_ADAPTER: Final[dict[str, Any]] = {"method": "lora", "rank": 16, "alpha": 32, "targets": "all_linear"}


def training_changes(document: Document, plan: Plan) -> Iterator[Change]:
    """Every change of the list that applies, growth first.

    Args:
        document: The question.
        plan: Its answer.
    """
    asked = plan.resolved
    own = own_tokens(plan.model)
    longest = plan.model.max_position_embeddings if own is None else own.sequence
    yield from _longer_or_larger(document, asked, longest)
    yield from _less_work(document, asked)
    yield from _moved_layer(document, plan)
    yield from _same_step(document, asked)
    yield from _smaller_step(document, asked, fixed=own is not None)
    yield from other_divisions(document, plan)
    yield from _off_the_card(document, asked)
    yield from _adapters(document, asked)


def _moved_layer(document: Document, plan: Plan) -> Iterator[Change]:
    """One layer from the fullest stage to the one with the most room."""
    parallel = plan.resolved.parallel
    stages = parallel.pipeline
    if stages == 1 or parallel.stages or (parallel.virtual_stages or 1) > 1:
        return
    counts = list(stage_layers(plan.model.num_layers, parallel))
    target = max(plan.devices, key=lambda device: device.headroom_bytes or 0)
    source = plan.worst
    if source.stage == target.stage or counts[source.stage] < 2:
        return
    counts[source.stage] -= 1
    counts[target.stage] += 1
    values = {"parallel.pipeline_layers": counts}
    yield change(document, "move_layer", values, gpu=target.indices, layers=tuple(counts))


def _same_step(document: Document, asked: Scenario) -> Iterator[Change]:
    """What saves memory and leaves the mathematics of the step as it is, or nearly."""
    training, parallel = asked.training, asked.parallel
    if training.loss != "fused_linear":
        yield change(document, "fused_loss", {"training.loss": "fused_linear"})
    if training.attention == "eager":
        yield change(document, "flash_attention", {"training.attention": "flash"})
    if training.optimizer.implementation == "foreach":
        yield change(document, "fused_step", {"training.optimizer.implementation": "fused"})
    if training.optimizer.name == "adamw":
        yield change(document, "adam_8bit", {"training.optimizer.name": "adamw_8bit"})
    if parallel.sharding in NEXT_SHARDING and _copies(asked) > 1:
        level = NEXT_SHARDING[parallel.sharding]
        yield change(document, level, {"parallel.sharding": level}, cards=_copies(asked))
    if parallel.tensor > 1 and not parallel.sequence and not parallel.stages:
        yield change(document, "sequence_parallel", {"parallel.sequence": True}, cards=parallel.tensor)
    if training.checkpointing != "full":
        yield change(document, "checkpointing", {"training.checkpointing": "full"})


def _smaller_step(document: Document, asked: Scenario, *, fixed: bool) -> Iterator[Change]:
    training = asked.training
    if training.micro_batch > 1:
        half = training.micro_batch // 2
        steps = -(-training.micro_batch * training.gradient_accumulation // half)
        halved = {"training.micro_batch": half, "training.gradient_accumulation": steps}
        yield change(document, "half_micro_batch", halved, size=half, steps=steps)
    if training.sequence_length >= 2 * SHORTEST_SEQUENCE and not fixed:
        half = training.sequence_length // 2
        yield change(document, "half_sequence", {"training.sequence_length": half}, size=half)


def _off_the_card(document: Document, asked: Scenario) -> Iterator[Change]:
    """What moves to host memory, at the speed of its link."""
    training, parallel = asked.training, asked.parallel
    if parallel.offload.optimizer == "none" and asked.task in FULL_WEIGHTS:
        sharding = parallel.sharding if parallel.sharding != "none" else "zero2"
        moved = {"parallel.offload.optimizer": "cpu", "parallel.sharding": sharding}
        yield change(document, "offload", moved)
    if training.checkpointing == "full" and not training.activation_offload:
        yield change(document, "offload_activations", {"training.activation_offload": True})


def _adapters(document: Document, asked: Scenario) -> Iterator[Change]:
    if asked.task == "full":
        adapter = {} if document.get("adapter") else {"adapter": dict(FIRST_ADAPTER)}
        yield change(document, "lora", {"task": "lora", **adapter})
    if asked.task == "lora":
        yield change(document, "qlora", {"task": "qlora", "adapter.base": "nf4_dq"})


def _longer_or_larger(document: Document, asked: Scenario, longest: int | None) -> Iterator[Change]:
    training = asked.training
    double = training.micro_batch * 2
    yield change(document, "double_micro_batch", {"training.micro_batch": double}, grows=True, size=double)
    longer = training.sequence_length * 2
    if longest is None or longer <= longest:
        doubled = {"training.sequence_length": longer}
        yield change(document, "double_sequence", doubled, grows=True, size=longer)


def _less_work(document: Document, asked: Scenario) -> Iterator[Change]:
    """Techniques that a plan with room to spare pays for without need, and cards that it could do without."""
    training, parallel = asked.training, asked.parallel
    if training.checkpointing not in {None, "none"}:
        yield change(document, "no_checkpointing", {"training.checkpointing": "none"}, grows=True)
    if parallel.offload.optimizer != "none":
        values: dict[str, Any] = {"parallel.offload.optimizer": None, "parallel.offload.parameters": None}
        yield change(document, "no_offload", values, grows=True)
    if parallel.sharding in LESS_SHARDING and parallel.offload.optimizer == "none":
        level = LESS_SHARDING[parallel.sharding]
        yield change(document, f"back_to_{level}", {"parallel.sharding": level}, grows=True)
    rows = asked.hardware.devices
    if len(rows) == 1 and data_degree(asked) % 2 == 0 and not parallel.stages:
        half = rows[0].count // 2
        values = {"hardware.devices.0.count": half, "parallel.data": None, "parallel.sharding_degree": None}
        yield change(document, "half_cards", values, grows=True, cards=half)


def _copies(asked: Scenario) -> int:
    parallel = asked.parallel
    return asked.hardware.num_devices // max(1, parallel.tensor * parallel.pipeline)
