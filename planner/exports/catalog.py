"""Every export by its id, which of them a plan can have, and whether a file reads back as the same plan."""

from collections.abc import Callable, Sequence
from typing import Any, Final

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
from planner.hardware import Offer
from planner.imports import import_text
from planner.plan_types import Plan
from planner.scenario import Scenario, to_document

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


def export(plan: Plan, target: str, offers: Sequence[Offer] = ()) -> Export:
    """A file for a program; the report aside.

    Args:
        plan: The plan.
        target: One of `TARGETS`, not `report`.
        offers: Price table, for `skypilot`.

    Raises:
        ExportRefusedError: The program cannot do what was planned, or there is no such target.
    """
    if target == OFFER:
        return skypilot(plan, cheapest(plan, offers))
    if target in TRAINING:
        if plan.serving is not None:
            raise ExportRefusedError(
                "for_training", "task", plan.resolved.task, "pretrain, full, lora, qlora"
            )
        return TRAINING[target](plan)
    if target in SERVING:
        if plan.serving is None:
            raise ExportRefusedError("for_serving", "task", plan.resolved.task, "serve")
        return SERVING[target](plan)
    raise ExportRefusedError("target_unknown", "", target, ", ".join(TARGETS))


def offered(
    plan: Plan, offers: Sequence[Offer] = ()
) -> tuple[tuple[Export, ...], tuple[tuple[str, ExportRefusedError], ...]]:
    """Every file that a plan can have, and why it cannot have the others of its kind."""
    found: list[Export] = []
    refused: list[tuple[str, ExportRefusedError]] = []
    for target in (*(SERVING if plan.serving is not None else TRAINING), OFFER):
        try:
            found.append(export(plan, target, offers))
        except ExportRefusedError as problem:
            refused.append((target, problem))
    return tuple(found), tuple(refused)


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
