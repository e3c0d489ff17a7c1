"""Every export by its id, which of them a plan can have, and whether a file reads back as the same plan."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from planner.estimate import plan as plan_scenario
from planner.exports.accelerate import accelerate
from planner.exports.axolotl import axolotl
from planner.exports.deepspeed import deepspeed
from planner.exports.hugging_face import training_arguments
from planner.exports.llama_factory import llama_factory
from planner.exports.megatron import megatron
from planner.exports.peft import peft
from planner.exports.pytorch import pytorch
from planner.exports.serving_files import kubernetes, serve, triton
from planner.exports.skypilot import cheapest, skypilot
from planner.exports.torchtune import torchtune
from planner.exports.types import Export, ExportRefusedError
from planner.hardware import Tables
from planner.imports import import_text
from planner.issues import ScenarioError
from planner.plan_types import Plan
from planner.scenario import Scenario, to_document
from planner.validation import parse_scenario

TRAINING: Final[dict[str, Callable[[Plan], Export]]] = {
    "pytorch": pytorch,
    "training_arguments": training_arguments,
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "peft": peft,
    "axolotl": axolotl,
    "llama_factory": llama_factory,
    "torchtune": torchtune,
    "megatron": megatron,
}

SERVING: Final[dict[str, Callable[[Plan], Export]]] = {
    "serve": serve,
    "triton": triton,
    "kubernetes": kubernetes,
}

NOT_AT_FAULT: Final = (
    "name",
    "model",
    "workload",
    "hardware.devices_per_node",
    "parallel.data",
    "parallel.bucket_mb",
    "parallel.reshard_after_forward",
    "training.checkpoint_reentrant",
)
"""Fields that may come back in another form without changing the plan."""
OFFER: Final = "skypilot"
REPORT: Final = "report"
"""Made by the caller, who has the words: `planner.exports.report`."""
TARGETS: Final = (*TRAINING, *SERVING, OFFER, REPORT)
READ_BY: Final = {
    "training_arguments": "training_arguments",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "peft": "peft",
    "axolotl": "axolotl",
    "llama_factory": "llama_factory",
    "torchtune": "torchtune",
    "megatron": "megatron",
    "serve": "vllm",
}
"""Export -> the importer of the same format. `serve` is read back for vLLM alone."""


def export(plan: Plan, target: str, tables: Tables) -> Export:
    """A file for a program; the report aside.

    Args:
        plan: The plan.
        target: One of `TARGETS`, not `report`.
        tables: Cards and prices: an hourly offer for `skypilot`, and to plan again what the file says.

    Raises:
        ExportRefusedError: The program cannot do what was planned, its file would say something else, or there is
            no such target.
    """
    if target == OFFER:
        return skypilot(plan, cheapest(plan, tables.offers))
    if target in TRAINING:
        if plan.serving is not None:
            raise ExportRefusedError(
                "for_training", "task", plan.resolved.task, "pretrain, full, lora, qlora"
            )
        return _checked(plan, TRAINING[target](plan), tables)
    if target in SERVING:
        if plan.serving is None:
            raise ExportRefusedError("for_serving", "task", plan.resolved.task, "serve")
        return _checked(plan, SERVING[target](plan), tables)
    raise ExportRefusedError("target_unknown", "", target, ", ".join(TARGETS))


def offered(
    plan: Plan, tables: Tables
) -> tuple[tuple[Export, ...], tuple[tuple[str, ExportRefusedError], ...]]:
    """Every file that a plan can have, and why it cannot have the others of its kind."""
    found: list[Export] = []
    refused: list[tuple[str, ExportRefusedError]] = []
    for target in (*(SERVING if plan.serving is not None else TRAINING), OFFER):
        try:
            found.append(export(plan, target, tables))
        except ExportRefusedError as problem:
            refused.append((target, problem))
    return tuple(found), tuple(refused)


def _checked(plan: Plan, file: Export, tables: Tables) -> Export:
    """The file, if what it says makes the same plan: a program may have no word for a field that was set.

    Raises:
        ExportRefusedError: It makes another one; names the first field that comes back different.
    """
    document = read_back(plan.scenario, file)
    if document is None:
        return file
    scenario, issues = parse_scenario(document)
    if scenario is None:
        raise ExportRefusedError("field", issues[0].field, "", "")
    try:
        again = plan_scenario(scenario, tables)
    except ScenarioError as refusal:
        raise ExportRefusedError("field", refusal.issues[0].field, "", "") from refusal
    if [device.ledger.entries for device in again.devices] == [d.ledger.entries for d in plan.devices]:
        return file
    found = sorted(_differences(plan.resolved, again.resolved), key=lambda one: one[0] == "task")
    path, asked, read = next(iter(found), ("model", "", ""))
    raise ExportRefusedError("field", path, asked, read)


def _differences(asked: Scenario, read: Scenario) -> Iterator[tuple[str, str, str]]:
    """Fields of the resolved questions that differ, those that only tell how the file was read left out."""

    def walk(one: Any, other: Any, path: str) -> Iterator[tuple[str, str, str]]:
        if isinstance(one, dict) and isinstance(other, dict):
            for name in one:
                yield from walk(one[name], other.get(name), f"{path}.{name}" if path else name)
        elif one != other and not path.startswith(NOT_AT_FAULT):
            yield path, str(one), str(other)

    yield from walk(asked.model_dump(mode="json"), read.model_dump(mode="json"), "")


def stripped(scenario: Scenario, paths: Sequence[str]) -> dict[str, Any]:
    """The scenario's document without the fields that a file says: what the file is read back onto."""
    document = to_document(scenario)
    for path in paths:
        node: Any = document
        *parents, leaf = path.split(".")
        for part in parents:
            node = (
                node[int(part)]
                if isinstance(node, list)
                else node.get(part)
                if isinstance(node, dict)
                else None
            )
        if isinstance(node, dict):
            node.pop(leaf, None)
    if "model" not in document:
        document["model"] = {}
    if "task" not in document:
        document["task"] = "serve" if scenario.task == "serve" else "full"
    return document


def read_back(scenario: Scenario, file: Export) -> dict[str, Any] | None:
    """The document that a file makes of the rest of the question; None where nothing reads its format.

    Args:
        scenario: The question as asked.
        file: An export of its plan.
    """
    source = READ_BY.get(file.target)
    if source is None or not file.carries:
        return None
    return import_text(file.text, stripped(scenario, file.carries), source).document
