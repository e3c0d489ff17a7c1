"""Sorts what was alive at a moment into the planner's categories, from plain records, without PyTorch."""

from dataclasses import dataclass
from typing import Final

from profiler.report import MAX_LARGEST, CategoryName, Group, StorageNote
from profiler.worker.storages import (
    BUFFER,
    CAST,
    COMMUNICATION,
    GRADIENT,
    INPUT,
    OPTIMIZER_STATE,
    PARAMETER,
    RECOMPUTED,
    Moment,
    Storage,
)

Place = tuple[CategoryName, str]

_BY_KIND: Final[dict[str, Place]] = {
    PARAMETER: ("weights", "parameters"),
    BUFFER: ("weights", "buffers"),
    GRADIENT: ("gradients", "gradients"),
    INPUT: ("activations", "inputs"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShapes:
    """What tells a logit from an activation.

    Attributes:
        vocab_size: Width of the logits, 0 where there are none.
        parameters: Shapes of all matrices that get gradients, and of these turned over.
    """

    vocab_size: int
    parameters: frozenset[tuple[int, ...]]


def place(storage: Storage, shapes: ModelShapes, phase: str = "", step: int = 0) -> Place:
    """Category and name of a storage at a moment of a phase of a step.

    Args:
        storage: What is placed.
        shapes: What tells tensors of the model apart.
        phase: The moment's.
        step: The moment's.
    """
    if storage.kind == OPTIMIZER_STATE:
        return "optimizer_states", storage.detail
    if storage.kind == COMMUNICATION:
        return "communication", storage.detail
    if storage.kind in _BY_KIND:
        return _BY_KIND[storage.kind]
    if storage.phase == "optimizer_step":
        return "optimizer_states", "optimizer_temporaries"
    if storage.detail == CAST:
        return "weights", "cast_weights"
    makes_gradients = storage.phase == "backward" and storage.detail != RECOMPUTED
    if makes_gradients and storage.shape in shapes.parameters:
        return "gradients", "gradient_temporaries"
    if storage.phase == "loss" or (shapes.vocab_size and storage.shape[-1:] == (shapes.vocab_size,)):
        return "logits_and_loss", _LOGIT_NAMES.get(storage.phase, "logits")
    kept = phase in _AFTER_THE_BACKWARD or storage.born_in_step < step
    return "activations", "kept_outputs" if kept else _activation_name(storage)


_AFTER_THE_BACKWARD: Final = frozenset({"optimizer_step", "rest"})
_LOGIT_NAMES: Final = {"forward": "logits", "loss": "loss", "backward": "logit_gradients"}


def _activation_name(storage: Storage) -> str:
    if storage.phase == "forward":
        return "forward_temporaries" if storage.died_in == "forward" else "saved_activations"
    if storage.phase == "backward":
        return "recomputed_activations" if storage.detail == RECOMPUTED else "activation_gradients"
    return "other"


def group(moment: Moment, shapes: ModelShapes) -> tuple[Group, ...]:
    """Bytes and number of storages by kind, in order of category and size."""
    totals: dict[Place, list[int]] = {}
    for storage, size in moment.alive:
        total = totals.setdefault(place(storage, shapes, moment.phase, moment.step), [0, 0])
        total[0] += size
        total[1] += 1
    made = [
        Group(category=where[0], name=where[1], bytes=size, num_storages=number)
        for where, (size, number) in totals.items()
    ]
    return tuple(sorted(made, key=lambda g: (g.category, -g.bytes)))


def largest(moment: Moment, shapes: ModelShapes) -> tuple[StorageNote, ...]:
    """The largest storages of a moment, largest first."""
    ordered = sorted(moment.alive, key=lambda pair: -pair[1])[:MAX_LARGEST]
    return tuple(_note(storage, size, moment, shapes) for storage, size in ordered)


def _note(storage: Storage, size: int, moment: Moment, shapes: ModelShapes) -> StorageNote:
    category, name = place(storage, shapes, moment.phase, moment.step)
    return StorageNote(
        bytes=size,
        category=category,
        name=name,
        module=storage.module[-300:],
        op=storage.op,
        shape=storage.shape,
        dtype=storage.dtype,
        made_in=storage.phase,
    )
