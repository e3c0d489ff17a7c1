"""From one task to another: blocks that only one of them can use are put aside and come back with it."""

from copy import deepcopy
from typing import Any, Final

from planner.advise.training import FIRST_ADAPTER
from ui.document import Document, get, put

TASKS: Final = ("pretrain", "full", "lora", "qlora", "serve")
ADAPTER_TASKS: Final = ("lora", "qlora")
QUANTIZED_BASES: Final = ("nf4", "nf4_dq", "int8", "gptq4", "gptq8")
TRAINING_BLOCKS: Final = ("runtime", "training", "parallel", "adapter")
SERVING_BLOCKS: Final = ("runtime", "serving", "parallel", "workload")
FIRST_SERVING: Final[Document] = {
    "runtime": {"name": "vllm"},
    "serving": {"max_model_len": 8192},
    "workload": {"concurrency": 8},
}


def with_task(document: Document, task: str, aside: dict[str, Any]) -> Document:
    """The document with another task.

    Args:
        document: The question.
        task: An id of `TASKS`; anything else changes nothing.
        aside: Where blocks are kept that the task has no use for, by name of their side; changed.
    """
    if task not in TASKS:
        return document
    before = str(get(document, "task", "full"))
    if (before == "serve") != (task == "serve"):
        document = _other_side(document, aside, serving=task == "serve")
    return put(_with_adapter(document, task, aside), "task", task)


def _other_side(document: Document, aside: dict[str, Any], *, serving: bool) -> Document:
    leaving, entering = (TRAINING_BLOCKS, SERVING_BLOCKS) if serving else (SERVING_BLOCKS, TRAINING_BLOCKS)
    side, other = ("training", "serving") if serving else ("serving", "training")
    aside[side] = {name: deepcopy(document[name]) for name in leaving if name in document}
    kept = {name: value for name, value in document.items() if name not in leaving}
    found = aside.get(other, _first_serving(document) if serving else {})
    return kept | {name: deepcopy(found[name]) for name in entering if name in found}


def _first_serving(document: Document) -> Document:
    """A server of these cards; two, four or eight of one kind form a tensor-parallel group."""
    rows = get(document, "hardware.devices", [])
    count = rows[0].get("count", 1) if isinstance(rows, list) and len(rows) == 1 else 1
    if isinstance(count, int) and 1 < count <= 8 and count & (count - 1) == 0:
        return FIRST_SERVING | {"parallel": {"tensor": count}}
    return FIRST_SERVING


def _with_adapter(document: Document, task: str, aside: dict[str, Any]) -> Document:
    if task not in ADAPTER_TASKS:
        if "adapter" in document and task != "serve":
            aside["adapter"] = deepcopy(document["adapter"])
            document = put(document, "adapter", None)
        return document
    if not get(document, "adapter"):
        document = put(document, "adapter", deepcopy(aside.get("adapter", FIRST_ADAPTER)))
    quantized = get(document, "adapter.base") in QUANTIZED_BASES
    if task == "qlora" and not quantized:
        return put(document, "adapter.base", "nf4_dq")
    if task == "lora" and quantized:
        return put(document, "adapter.base", None)
    return document
