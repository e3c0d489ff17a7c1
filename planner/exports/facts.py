"""What several exports ask of a plan: names of types and optimizers, numbers of cards, the adapter's matrices."""

from typing import Any, Final

from planner.exports.serving_flags import PLACEHOLDER, PLAIN_NAME
from planner.exports.types import ExportRefusedError, Remark
from planner.plan_types import Plan
from planner.scenario import Adapter, Scenario

ADAPTER_TASKS: Final = frozenset({"lora", "qlora"})
TORCH_NAMES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
PEFT_METHODS: Final = ("lora", "dora", "rslora")
ATTENTION: Final = {"eager": "eager", "sdpa": "sdpa", "flash": "flash_attention_2", "flex": "flex_attention"}
HF_OPTIMIZERS: Final = {
    ("adamw", False): "adamw_torch",
    ("adamw", True): "paged_adamw_32bit",
    ("adamw_8bit", False): "adamw_bnb_8bit",
    ("adamw_8bit", True): "paged_adamw_8bit",
    ("adafactor", False): "adafactor",
    ("sgd", False): "sgd",
    ("lion", False): "lion_32bit",
    ("lion", True): "paged_lion_32bit",
    ("lion_8bit", False): "lion_8bit",
    ("lion_8bit", True): "paged_lion_8bit",
    ("galore", False): "galore_adamw",
}
"""(optimizer, paged) -> the trainer's name."""


def require_runtime(plan: Plan, *runtimes: str) -> None:
    """Refuse a plan of another framework: its figures would not be this file's.

    Raises:
        ExportRefusedError: The plan's runtime is none of these.
    """
    name = plan.resolved.runtime.name
    if name not in runtimes:
        raise ExportRefusedError("runtime", "runtime.name", name, ", ".join(runtimes))


def refuse(field: str, given: object, allowed: str) -> ExportRefusedError:
    """A field whose value the program cannot be told."""
    return ExportRefusedError("field", field, given, allowed)


def require(field: str, given: object, *allowed: object) -> None:
    """Refuse a value that the program has no word for.

    Raises:
        ExportRefusedError: It is none of the allowed ones.
    """
    if given not in allowed:
        raise refuse(field, given, ", ".join(str(value) for value in allowed if value is not None))


def model_name(scenario: Scenario) -> tuple[str, tuple[Remark, ...]]:
    """The model's name where it is a plain one, else a placeholder and a remark."""
    given = scenario.model.id or ""
    return (given, ()) if PLAIN_NAME.fullmatch(given) else (PLACEHOLDER, (("model_name", given),))


def cards(plan: Plan) -> int:
    """All cards of the job."""
    return plan.scenario.hardware.num_devices


def nodes(plan: Plan) -> tuple[int, int]:
    """Machines, and cards in each: all in one where the question does not say."""
    count = cards(plan)
    each = plan.scenario.hardware.devices_per_node or count
    return (count // each, each) if count % each == 0 else (1, count)


def data_ranks(plan: Plan) -> int:
    """Data-parallel ranks: cards over tensor, pipeline and context degrees."""
    held = plan.resolved.parallel
    return max(1, cards(plan) // (held.tensor * held.pipeline * held.context))


def hf_optimizer(scenario: Scenario) -> str:
    """The trainer's name of the optimizer.

    Raises:
        ExportRefusedError: It has none.
    """
    optimizer = scenario.training.optimizer
    name = HF_OPTIMIZERS.get((optimizer.name, optimizer.paged))
    if name is None or optimizer.in_backward:
        raise refuse(
            "training.optimizer.name", optimizer.name, ", ".join(sorted({n for n, _ in HF_OPTIMIZERS}))
        )
    fused = optimizer.name == "adamw" and not optimizer.paged and optimizer.implementation == "fused"
    return "adamw_torch_fused" if fused else name


def adapter_of(plan: Plan) -> Adapter | None:
    """The adapter as resolved, None for a job without one.

    Raises:
        ExportRefusedError: It is of another method than LoRA's.
    """
    if plan.resolved.task not in ADAPTER_TASKS:
        return None
    adapter = plan.resolved.adapter
    if adapter is None or adapter.method not in PEFT_METHODS:
        method = "" if adapter is None else adapter.method
        raise refuse("adapter.method", method, ", ".join(PEFT_METHODS))
    return adapter


def targets(adapter: Adapter) -> list[str] | str:
    """Targeted matrices in PEFT's spelling."""
    return "all-linear" if adapter.targets in {None, "all_linear"} else list(adapter.targets or ())


def whole(value: float | None) -> int | float | None:
    """A number without a needless fraction."""
    return int(value) if isinstance(value, float) and value == int(value) else value


def tidy(values: dict[str, Any]) -> dict[str, Any]:
    """A mapping without what is None."""
    return {name: value for name, value in values.items() if value is not None}


def offloaded(plan: Plan) -> bool:
    """Whether FSDP's one switch for offload is on.

    Raises:
        ExportRefusedError: Only a part is offloaded, or to disk.
    """
    offload = plan.resolved.parallel.offload
    where = {offload.parameters, offload.gradients, offload.optimizer}
    if where == {"none"}:
        return False
    if where != {"cpu"}:
        raise refuse("parallel.offload", ", ".join(sorted(where)), "all of none, all of cpu")
    return True
