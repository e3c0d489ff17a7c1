"""The plan space: every way to divide and lighten a job that its framework offers, as changes of the question.

Limits, stated wherever a result is shown: degrees and micro-batches are powers of two (and what the question itself
has); tensor parallelism stays inside a machine; pipelines run 1F1B with equal stages; of offload only the optimizer's
states go to the host, as nothing here models what a card keeps while its parameters are away; experts are divided as
the question says; formats that change no byte of the plan are not tried apart.

Checkpointing, sharding and the optimizer's place stay as the question has them where they may not be changed. Degrees
belong to a number of cards, which the question does not give here: those that may not be changed are one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from planner.model.spec import ModelSpec
from planner.resolve import apply, resolve
from planner.runtimes.abilities import ABILITIES, Ability
from planner.runtimes.profile import Value
from planner.scenario import Adapter, Hardware, Parallel, Runtime, Scenario
from planner.search.types import Limits, Technique

DEGREES: Final = (1, 2, 4, 8, 16)
MICRO_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64)
CONTEXTS: Final = (1, 2, 4, 8)
LONG_SEQUENCE: Final = 16_384
"""Context parallelism is tried from here on: shorter sequences are cheaper to divide by sequence number."""
RANK: Final = 16
Changes = dict[str, Value]


TRIED: Final[Mapping[bool, tuple[str, ...]]] = {
    False: ("deepspeed", "torchtitan", "megatron_lm", "hf_trainer"),
    True: ("hf_trainer", "unsloth", "torchtune", "deepspeed"),
}
"""Frameworks that are tried beside the question's own where that is allowed, by whether an adapter is trained."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the job, but for the number of cards and the micro-batch.

    Attributes:
        settings: What is set, by dimension.
        asked: The question with it, on whatever cards.
        resolved: With the runtime's defaults.
        tensor: Degree.
        pipeline: Degree.
        context: Degree.
    """

    settings: Mapping[str, str | int]
    asked: Scenario
    resolved: Scenario
    tensor: int
    pipeline: int
    context: int

    @property
    def copy(self) -> int:
        """Cards of one copy of the model."""
        return self.tensor * self.pipeline * self.context


def variants(
    question: Scenario, model: ModelSpec, limits: Limits, most_tensor: int = DEGREES[-1]
) -> tuple[Variant, ...]:
    """Every way that the limits allow.

    Args:
        question: A job that trains; its cards don't matter.
        model: Its model.
        limits: What may be changed.
        most_tensor: Cards of the largest machine.
    """
    base = without_cards(question)
    return tuple(
        variant(asked, model, settings, changes)
        for asked, method, ability in _jobs(base, limits)
        for settings, changes in _techniques(asked, method, model, ability, limits, question.parallel)
        if int(settings["tensor"]) <= most_tensor
    )


def variant(
    asked: Scenario, model: ModelSpec, settings: Mapping[str, str | int], changes: Changes
) -> Variant:
    """A question with changes, and with the runtime's defaults beside it."""
    changed = apply(asked, changes)
    degrees = [int(settings[name]) for name in ("tensor", "pipeline", "context")]
    return Variant(settings, changed, resolve(changed, model)[0], *degrees)


def without_cards(question: Scenario) -> Scenario:
    """The question without what belongs to its own cards and their number."""
    hardware = question.hardware
    kept = Hardware(devices=hardware.devices[:1], margin_frac=hardware.margin_frac, links=hardware.links)
    own = question.parallel
    parallel = Parallel(
        expert=own.expert, expert_tensor=own.expert_tensor, data_parallel=own.data_parallel,
        bucket_mb=own.bucket_mb, reshard_after_forward=own.reshard_after_forward,
    )  # fmt: skip
    return question.model_copy(update={"hardware": kept, "parallel": parallel})


def own_settings(question: Scenario) -> dict[str, str]:
    """How the question itself sets what a search may change, its division and checkpointing apart."""
    packed = question.adapter.base if question.task == "qlora" and question.adapter is not None else None
    return {
        "framework": question.runtime.name,
        "method": f"{question.task} {packed}" if packed else question.task,
        "states": "own",
        "compute": "own",
        "optimizer": question.training.optimizer.name,
    }


def _jobs(base: Scenario, limits: Limits) -> Iterator[tuple[Scenario, str, Ability]]:
    """The question by method and framework, named by its method, with what the framework can do."""
    for job in _methods(base, limits):
        adapter = job.task in ("lora", "qlora")
        for name in _frameworks(base, limits, adapter=adapter):
            ability = ABILITIES.get(name, ABILITIES["generic"])
            if not (ability.adapters if adapter else ability.full):
                continue
            runtime = job.runtime if name == job.runtime.name else Runtime.model_validate({"name": name})
            on = job.model_copy(update={"runtime": runtime})
            for packed in _bases(job, ability, limits, own=job.task == base.task):
                if packed is None or on.adapter is None:
                    yield on, job.task, ability
                else:
                    adapted = on.adapter.model_copy(update={"base": packed})
                    yield on.model_copy(update={"adapter": adapted}), f"{job.task} {packed}", ability


def _methods(base: Scenario, limits: Limits) -> Iterator[Scenario]:
    yield base
    for technique, task in ((Technique.LORA, "lora"), (Technique.QLORA, "qlora")):
        if technique in limits.techniques and base.task != task:
            adapter = base.adapter or Adapter(method="lora", rank=RANK, targets="all_linear")
            adapter = adapter.model_copy(update={"base": None})
            yield base.model_copy(update={"task": task, "adapter": adapter})


def _bases(job: Scenario, ability: Ability, limits: Limits, *, own: bool) -> tuple[str | None, ...]:
    """Formats of a packed base: the question's own, and those of the framework; None where nothing is packed."""
    if job.task != "qlora":
        return (None,)
    told = job.adapter.base if job.adapter is not None and own else None
    if told is not None and Technique.QLORA not in limits.techniques:
        return (told,)
    if own and told is None and Technique.QLORA not in limits.techniques:
        return (None,)
    return tuple(dict.fromkeys((told, *ability.packed) if told else ability.packed))


def _techniques(
    base: Scenario, method: str, model: ModelSpec, ability: Ability, limits: Limits, own: Parallel
) -> Iterator[tuple[dict[str, str | int], Changes]]:
    parts = (
        _precisions(limits),
        _computes(base, model, limits),
        _optimizers(base, limits),
        _checkpointing(base, model, ability, limits),
        _divisions(base, model, ability, limits),
        _shardings(own, ability, limits),
        _offloads(own, ability, limits),
    )
    kept = not limits.techniques & {Technique.SHARDING, Technique.OFFLOAD}
    for choice in product(*parts):
        settings: dict[str, str | int] = {"framework": base.runtime.name, "method": method}
        changes: Changes = {}
        for dimension, part in choice:
            settings |= dimension
            changes |= part
        if _is_sound(settings, kept=kept):
            yield settings, changes


Part = tuple[dict[str, str | int], Changes]


def _is_sound(settings: Mapping[str, str | int], *, kept: bool) -> bool:
    """Offload needs sharded states, unless both are `kept` from the question; no fp16 without an fp32 copy."""
    sharded = kept or settings["offload"] == "none" or settings["sharding"] != "none"
    return sharded and (settings["compute"] == "own" or settings["states"] == "own")


def _frameworks(base: Scenario, limits: Limits, *, adapter: bool) -> tuple[str, ...]:
    own = base.runtime.name
    if Technique.FRAMEWORKS not in limits.techniques:
        return (own,)
    return tuple(dict.fromkeys((own, *TRIED[adapter])))


def _precisions(limits: Limits) -> Iterator[Part]:
    yield {"states": "own"}, {}
    if Technique.STATES_16BIT in limits.techniques:
        yield (
            {"states": "bf16"},
            {
                "training.precision.parameters": "bf16",
                "training.precision.compute": "bf16",
                "training.precision.autocast": False,
                "training.precision.gradients": "bf16",
                "training.precision.master": "none",
                "training.precision.optimizer": "bf16",
            },
        )


def _computes(base: Scenario, model: ModelSpec, limits: Limits) -> Iterator[Part]:
    """Products in fp16 instead of bf16, for cards that have no bf16; fp16 needs its loss scaled."""
    yield {"compute": "own"}, {}
    precision = resolve(base, model)[0].training.precision
    low = precision.fp8 is not None or precision.fp4 is not None
    if Technique.FP16 not in limits.techniques or precision.compute != "bf16" or low:
        return
    changes: Changes = {"training.precision.compute": "fp16"}
    if precision.parameters == "bf16":
        changes["training.precision.parameters"] = "fp16"
    yield {"compute": "fp16"}, changes


def _optimizers(base: Scenario, limits: Limits) -> Iterator[Part]:
    own = base.training.optimizer.name
    yield {"optimizer": own}, {}
    if Technique.OPTIMIZER_8BIT in limits.techniques and own == "adamw":
        yield {"optimizer": "adamw_8bit"}, {"training.optimizer.name": "adamw_8bit"}


def _checkpointing(base: Scenario, model: ModelSpec, ability: Ability, limits: Limits) -> Iterator[Part]:
    if Technique.CHECKPOINTING not in limits.techniques:
        kept = base.training.checkpointing or resolve(base, model)[0].training.checkpointing or "none"
        yield {"checkpointing": kept}, {"training.checkpointing": kept}
        return
    for form in ability.checkpointing:
        yield {"checkpointing": form}, {"training.checkpointing": form}


def _shardings(own: Parallel, ability: Ability, limits: Limits) -> Iterator[Part]:
    free = Technique.SHARDING in limits.techniques
    for way in dict.fromkeys(("none", *ability.sharding) if free else (own.sharding,)):
        yield {"sharding": way}, {"parallel.sharding": way}


def _offloads(own: Parallel, ability: Ability, limits: Limits) -> Iterator[Part]:
    kept = own.offload.optimizer
    if Technique.OFFLOAD not in limits.techniques and kept != "none":
        yield {"offload": "optimizer"}, {"parallel.offload.optimizer": kept}
        return
    yield {"offload": "none"}, {}
    if ability.offload and Technique.OFFLOAD in limits.techniques:
        yield {"offload": "optimizer"}, {"parallel.offload.optimizer": "cpu"}


def _divisions(base: Scenario, model: ModelSpec, ability: Ability, limits: Limits) -> Iterator[Part]:
    allowed, most = limits.techniques, limits.most_cards
    long = base.training.sequence_length >= LONG_SEQUENCE
    tensor = DEGREES if ability.tensor and Technique.TENSOR in allowed else (1,)
    pipeline = DEGREES if ability.pipeline and Technique.PIPELINE in allowed else (1,)
    context = CONTEXTS if ability.context and Technique.CONTEXT in allowed and long else (1,)
    for t, p, c in product(tensor, pipeline, context):
        if t * p * c > most or p > model.num_layers:
            continue
        changes: Changes = {"parallel.tensor": t, "parallel.pipeline": p, "parallel.context": c}
        if ability.sequence and t > 1:
            changes["parallel.sequence"] = True
        yield {"tensor": t, "pipeline": p, "context": c}, changes
