"""A small copy of a question that this machine cannot take: the same kind of step, made to fit.

First what one device cannot run is set to what it can, then the model gets fewer layers, the sequences
shorter, and in the end the whole model narrower, until the plan of the copy fits.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from planner.plan_types import Plan
from planner.trial import with_layers
from planner.units import GIB
from profiler.documents import DeviceKind
from profiler.plan_request import predicted_bytes, prepare
from profiler.runnable import FLOATS, why_not_runnable
from ui.answers import answer
from ui.document import Document, get, put, put_all

MOST_ON_CPU_BYTES: Final = GIB
"""Tensors of a copy on a processor: more fits, but a look should take a minute, not an hour."""

SHARE_OF_FREE: Final = 0.8
LONGEST: Final[dict[DeviceKind, int]] = {"cpu": 512, "cuda": 4096}
SHORTEST: Final = 128
FEWEST_LAYERS: Final = 2
NARROWER: Final = (1, 2, 4, 8, 16)
MOST_REPAIRS: Final = 6

WIDTHS: Final = (
    *("hidden_size", "n_embd", "intermediate_size", "n_inner", "vocab_size"),
    *("num_attention_heads", "n_head", "num_key_value_heads", "moe_intermediate_size"),
)
NOT_NARROWED: Final = frozenset(
    {"kv_lora_rank", "q_lora_rank", "state_size", "mamba_d_state", "text_config", "vision_config", "conv_dim"}
)
"""Keys of models whose widths hang together in ways that a division would break."""

REPAIRS: Final[dict[str, Any]] = {
    "hardware.devices": None,
    "runtime.name": "hf_trainer",
    "runtime.compile": False,
    "training.attention": "sdpa",
    "training.packing": "none",
    "training.loss": "standard",
    "training.kernels": [],
    "training.checkpointing": "full",
    "training.activation_offload": False,
    "training.optimizer.name": "adamw",
    "training.optimizer.paged": False,
    "training.optimizer.in_backward": False,
    "training.optimizer.implementation": "foreach",
    "quantization_aware": None,
    "adapter.method": "lora",
    "adapter.dtype": "fp32",
    "adapter.base": "bf16",
    "task": "lora",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that the copy has otherwise.

    Attributes:
        field: Dotted path; keys of the model's config stand under `model.config`.
        asked: Value of the question, None where it has none.
        copy: Value of the copy, None where it has none.
    """

    field: str
    asked: Any
    copy: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallCopy:
    """The copy.

    Attributes:
        document: Its question.
        plan: Its answer.
        differences: What is otherwise, in the order of the schema.
    """

    document: Document
    plan: Plan
    differences: tuple[Difference, ...]


def small_copy(
    document: Document, plan: Plan, device: DeviceKind, free_bytes: int | None
) -> SmallCopy | None:
    """The copy that changes least, or None where there is none: serving, or a model that cannot be cut.

    Args:
        document: The question.
        plan: Its answer.
        device: Where the copy is to run.
        free_bytes: What is free there, None if not known.
    """
    if not plan.resolved.is_training:
        return None
    base = _runnable(document, plan, device)
    if base is None:
        return None
    config = {key: json.loads(text) for key, text in plan.model.config}
    for candidate in _candidates(base, plan, config, device):
        found = answer(candidate).plan
        if found is not None and _fits(found, device, free_bytes):
            if why_not_runnable(found.resolved, device):
                return None
            return SmallCopy(document=candidate, plan=found, differences=differences(plan, found))
    return None


def _runnable(document: Document, plan: Plan, device: DeviceKind) -> Document | None:
    """The question with every field set to what one device can run; None where that does not end."""
    first = plan.resolved.hardware.devices[0]
    row = {"gpu": first.gpu, "count": 1} | (
        {"memory_bytes": first.memory_bytes} if first.memory_bytes else {}
    )
    changed = put_all(document, {"hardware": {"devices": [row]}, "parallel": None, "name": None})
    changed = put_all(changed, {"training.micro_batch": 1, "training.gradient_accumulation": 1})
    for _ in range(MOST_REPAIRS):
        found = answer(changed).plan
        if found is None:
            return None
        refused = why_not_runnable(found.resolved, device)
        if not refused:
            return changed
        for remark in refused:
            changed = _repaired(changed, found, remark.field)
    return None


def _repaired(document: Document, plan: Plan, field: str) -> Document:
    if field.startswith("training.precision"):
        stored = plan.resolved.training.precision.parameters
        plain = stored if stored in FLOATS else "bf16"
        whole = {"parameters": plain, "compute": plain, "autocast": False}
        return put(document, "training.precision", whole)
    if field == "runtime.name":
        return put(document, "runtime", {"name": REPAIRS[field]})
    if field == "task":
        return put_all(document, {"task": "lora", "adapter.base": REPAIRS["adapter.base"]})
    return put(document, field, REPAIRS[field]) if field in REPAIRS else document


def _candidates(base: Document, plan: Plan, config: dict[str, Any], device: DeviceKind) -> Iterator[Document]:
    """Copies from the most alike to the smallest. Sequences are cut before layers are few."""
    asked = plan.resolved.training.sequence_length
    longest = min(asked, LONGEST[device])
    lengths = sorted({longest, *(n for n in (longest // 2, longest // 4) if n >= min(asked, SHORTEST))})
    for divisor in NARROWER:
        narrow = narrowed(config, divisor)
        if narrow is None:
            return
        for length in reversed(lengths):
            for layers in _fewer(plan.model.num_layers):
                cut = with_layers(narrow, layers)
                if cut is None:
                    return
                changed = put(base, "training.sequence_length", length)
                yield put(changed, "model", {"config": cut} if cut != config else get(base, "model"))


def _fewer(layers: int) -> list[int]:
    counts = [layers]
    while counts[-1] > FEWEST_LAYERS:
        counts.append(max(FEWEST_LAYERS, counts[-1] // 2))
    return counts


def narrowed(config: dict[str, Any], divisor: int) -> dict[str, Any] | None:
    """The config with every width divided; None where one cannot be divided or the model is not that simple."""
    if divisor == 1:
        return dict(config)
    if NOT_NARROWED & set(config):
        return None
    changed = dict(config)
    for name in WIDTHS:
        value = config.get(name)
        if value is None:
            continue
        if name == "num_key_value_heads" and isinstance(value, int) and value < divisor:
            changed[name] = 1
        elif not isinstance(value, int) or (name != "vocab_size" and value % divisor) or value < divisor:
            return None
        else:
            changed[name] = value // divisor
    tokens = changed.get("vocab_size")
    for name, value in config.items():
        if (
            name.endswith("_token_id")
            and isinstance(value, int)
            and isinstance(tokens, int)
            and value >= tokens
        ):
            changed[name] = 0
    return changed


def _fits(plan: Plan, device: DeviceKind, free_bytes: int | None) -> bool:
    limits = [MOST_ON_CPU_BYTES] if device == "cpu" else []
    if predicted_bytes(plan, device) > min(limits, default=1 << 62):
        return False
    if free_bytes is None:
        return True
    return prepare(plan, device, free_bytes).needed_bytes <= free_bytes * SHARE_OF_FREE


def differences(asked: Plan, copy: Plan) -> tuple[Difference, ...]:
    """Fields of two resolved questions that are not the same; cards as their number."""
    before, after = _flat(asked), _flat(copy)
    names = dict.fromkeys([*before, *after])
    return tuple(
        Difference(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    )


def _flat(plan: Plan) -> dict[str, Any]:
    flat: dict[str, Any] = {f"model.config.{key}": json.loads(text) for key, text in plan.model.config}
    document = plan.resolved.model_dump(mode="json", exclude_none=True)
    flat["hardware.devices"] = plan.resolved.hardware.num_devices
    for block in ("task", "runtime", "training", "adapter", "parallel", "quantization_aware"):
        if block in document:
            _leaves(block, document[block], flat)
    return {name: value for name, value in flat.items() if not isinstance(value, list | dict)}


def _leaves(path: str, value: Any, flat: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for name, child in value.items():
            _leaves(f"{path}.{name}", child, flat)
    else:
        flat[path] = value
