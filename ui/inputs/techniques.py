"""Techniques as pills: each says in one line what it does, and sets the fields that mean it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import streamlit as st

from ui.document import Document, get, put, put_all
from ui.inputs.desk import Desk
from ui.pictures import latents_of
from ui.state import bind

FUSED_ATTENTION: Final = ("sdpa", "flash", "flex")


@dataclass(frozen=True, slots=True)
class Technique:
    """One pill.

    Attributes:
        name: Words are `technique.<name>`.
        fields: Paths it sets; their issues are shown below the pills.
        is_on: Whether it is in force, defaults of the runtime included.
        turn_on: The document with it.
        turn_off: The document without it, also where the runtime would use it by itself.
    """

    name: str
    fields: tuple[str, ...]
    is_on: Callable[[Desk], bool]
    turn_on: Callable[[Document], Document]
    turn_off: Callable[[Document], Document]


def _sets(path: str, on: Any, off: Any) -> dict[str, Any]:
    return {"turn_on": partial(put, path=path, value=on), "turn_off": partial(put, path=path, value=off)}


def _offload_on(document: Document) -> Document:
    """Offloading belongs to ZeRO and FSDP; with neither, ZeRO-2 comes along."""
    if get(document, "parallel.sharding", "none") == "none":
        document = put(document, "parallel.sharding", "zero2")
    return put(document, "parallel.offload.optimizer", "cpu")


def _sharding_off(document: Document) -> Document:
    gone = ("parallel.sharding", "parallel.sharding_degree", "parallel.offload")
    return put_all(document, dict.fromkeys(gone))


TRAINING: Final = (
    Technique(
        name="checkpointing",
        fields=("training.checkpointing",),
        is_on=lambda desk: desk.effective("training.checkpointing", "none") != "none",
        **_sets("training.checkpointing", "full", "none"),
    ),
    Technique(
        name="flash_attention",
        fields=("training.attention",),
        is_on=lambda desk: desk.effective("training.attention", "eager") in FUSED_ATTENTION,
        **_sets("training.attention", "flash", "eager"),
    ),
    Technique(
        name="zero",
        fields=("parallel.sharding", "parallel.sharding_degree"),
        is_on=lambda desk: desk.get("parallel.sharding", "none") != "none",
        turn_on=partial(put, path="parallel.sharding", value="zero3"),
        turn_off=_sharding_off,
    ),
    Technique(
        name="offload",
        fields=("parallel.offload",),
        is_on=lambda desk: desk.get("parallel.offload.optimizer", "none") != "none",
        turn_on=_offload_on,
        turn_off=partial(put, path="parallel.offload", value=None),
    ),
    Technique(
        name="adam_8bit",
        fields=("training.optimizer",),
        is_on=lambda desk: desk.get("training.optimizer.name", "adamw") == "adamw_8bit",
        **_sets("training.optimizer.name", "adamw_8bit", "adamw"),
    ),
    Technique(
        name="fused_loss",
        fields=("training.loss",),
        is_on=lambda desk: desk.effective("training.loss", "standard") == "fused_linear",
        **_sets("training.loss", "fused_linear", "standard"),
    ),
)
SERVING: Final = (
    Technique(
        name="cuda_graphs",
        fields=("serving.cuda_graphs",),
        is_on=lambda desk: bool(desk.effective("serving.cuda_graphs", False)),
        **_sets("serving.cuda_graphs", True, False),
    ),
    Technique(
        name="prefix_caching",
        fields=("serving.prefix_caching",),
        is_on=lambda desk: bool(desk.effective("serving.prefix_caching", False)),
        **_sets("serving.prefix_caching", True, False),
    ),
)


PICTURES: Final = (
    Technique(
        name="component_offload",
        fields=("parallel.offload",),
        is_on=lambda desk: desk.get("parallel.offload.parameters", "none") != "none",
        **_sets("parallel.offload.parameters", "cpu", None),
    ),
)
OF_TEXT: Final = frozenset({"fused_loss"})
"""Those that act on the vocabulary, which a denoiser has not."""


def _of(desk: Desk) -> tuple[Technique, ...]:
    """What the task and the model can be given."""
    pictures = latents_of(desk.document) is not None
    if not desk.is_training:
        return PICTURES if pictures else SERVING
    return tuple(one for one in TRAINING if not (pictures and one.name in OF_TEXT))


def draw(desk: Desk) -> None:
    """The pills of the task."""
    words = desk.words
    techniques = _of(desk)
    on = [technique.name for technique in techniques if technique.is_on(desk)]
    effects = "\n".join(
        words(
            "technique.line",
            name=words(f"technique.{t.name}.name"),
            effect=words(f"technique.{t.name}.effect"),
        )
        for t in techniques
    )
    st.pills(
        words("technique.label"),
        [technique.name for technique in techniques],
        selection_mode="multi",
        format_func=lambda name: words(f"technique.{name}.name"),
        help=effects,
        key=bind(
            "techniques_" + "_".join(technique.name for technique in techniques),
            on,
            partial(_write, techniques, tuple(on)),
        ),
    )
    desk.messages(*(path for technique in techniques for path in technique.fields))


def _write(
    techniques: tuple[Technique, ...],
    before: tuple[str, ...],
    document: Document,
    chosen: Any,
) -> Document:
    now = set(chosen or ())
    for technique in techniques:
        if technique.name in now and technique.name not in before:
            document = technique.turn_on(document)
        elif technique.name not in now and technique.name in before:
            document = technique.turn_off(document)
    return document
