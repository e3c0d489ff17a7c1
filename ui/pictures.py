"""Diffusion pipelines in the form: their labels, what choosing one changes, and pictures in place of sequences."""

from functools import cache
from math import isqrt
from typing import Any, Final

import streamlit as st

from planner.document import get, put
from planner.model import UnknownArchitecture, model_from_row
from planner.model.from_row import config_from_row
from planner.model.spec import Latents
from ui.answers import tables
from ui.counts import short_count
from ui.document import Document
from ui.inputs.desk import Desk
from ui.names import short_model_name
from ui.numbers import whole
from ui.state import bind
from ui.words import words_for

RUNTIMES: Final = ("generic", "transformers")
TARGETS: Final = ["to_q", "to_k", "to_v", "to_out.0"]
"""What diffusers' LoRA scripts adapt."""
FIRST_SIDE: Final = 64 * 16
"""Pixels; what most of these models were made for."""


@cache
def pipeline_labels(language: str) -> dict[str, str]:
    """`FLUX.1-dev, 16.87 B, diffusion` for every pipeline whose denoiser is described, by id."""
    words = words_for(language)
    found = {}
    for model_id in described():
        total = tables().pipelines[model_id]["params_total"]
        count = short_count(total, words) if isinstance(total, int) else ""
        found[model_id] = words(
            "model.label", name=short_model_name(model_id), count=count, kind=words("model.diffusion")
        )
    return found


@cache
def described() -> tuple[str, ...]:
    """Pipelines that can be planned."""
    return tuple(name for name in tables().pipelines if latents_of_id(name) is not None)


@cache
def latents_of_id(model_id: str) -> Latents | None:
    """What a pipeline's denoiser works on; None for other models and for those that are not described."""
    row = tables().pipelines.get(model_id)
    try:
        return None if row is None else model_from_row(row).latents
    except UnknownArchitecture:
        return None


def latents_of(document: Document) -> Latents | None:
    """Of the pipeline that a question names."""
    model_id = get(document, "model.id")
    return latents_of_id(model_id) if isinstance(model_id, str) else None


def fitted(document: Document) -> Document:
    """The question as a pipeline can be asked: a runtime that runs it, no division, targets that it has."""
    latents = latents_of(document)
    if latents is None:
        return document
    serves = get(document, "task") == "serve"
    if get(document, "runtime.name", "generic") not in RUNTIMES:
        document = put(document, "runtime", {"name": "transformers" if serves else "generic"})
    for name in ("tensor", "pipeline", "context", "expert"):
        if get(document, f"parallel.{name}") is not None:
            document = put(document, f"parallel.{name}", None)
    for name in ("kernels", "packing"):
        document = put(document, f"training.{name}", None)
    if get(document, "adapter") and not _has_targets(document):
        document = put(document, "adapter.targets", TARGETS)
    return put(document, _path(document), tokens_of(latents, FIRST_SIDE))


def _has_targets(document: Document) -> bool:
    targets = get(document, "adapter.targets")
    return targets == "all_linear" or (isinstance(targets, list) and bool(set(targets) & set(TARGETS)))


def _path(document: Document) -> str:
    return "serving.max_model_len" if get(document, "task") == "serve" else "training.sequence_length"


def tokens_of(latents: Latents, side: int) -> int:
    """Tokens of a square picture, those of the text included where they are part of the sequence."""
    return max(1, side // latents.pixels_per_token) ** 2 + (latents.text_tokens if latents.joint else 0)


def side_of(latents: Latents, tokens: int) -> int:
    """Pixels along a side of the square picture that a sequence stands for."""
    return isqrt(max(1, tokens - latents.text_in_sequence(tokens))) * latents.pixels_per_token


def draw_size(desk: Desk, latents: Latents) -> None:
    """The side of a picture, which sets the sequence; for clips the sequence itself, in tokens."""
    path, words = _path(desk.document), desk.words
    current = desk.get(path)
    tokens = current if isinstance(current, int) else tokens_of(latents, FIRST_SIDE)

    def write(document: Document, side: Any) -> Document:
        return document if side is None else put(document, path, tokens_of(latents, int(side)))

    st.number_input(
        words("pictures.side"),
        step=latents.pixels_per_token,
        key=bind("picture_side", side_of(latents, tokens), write),
        help=words("pictures.side_help", pixels=latents.pixels_per_token),
    )


def draw_number(desk: Desk) -> None:
    """Pictures that are made at once."""
    path = "workload.concurrency"
    current = desk.get(path)

    def write(document: Document, value: Any) -> Document:
        return put(document, path, value)

    st.number_input(
        desk.words("pictures.at_once"),
        value=None,
        step=1,
        placeholder="1",
        key=bind("pictures_at_once", current if isinstance(current, int) else None, write),
    )


def draw_note(desk: Desk, latents: Latents) -> None:
    """How many tokens that is."""
    current = desk.get(_path(desk.document))
    if not isinstance(current, int):
        return
    text = latents.text_in_sequence(current)
    key = "pictures.tokens_with_text" if text else "pictures.tokens"
    st.html(f'<div class="p m">{desk.words.html(key, tokens=whole(current), text=whole(text))}</div>')


def draw_beforehand(desk: Desk) -> None:
    """Whether text encoders and VAE are left off the card: the denoiser's own config then is the model."""
    model_id = desk.get("model.id")
    row = tables().pipelines.get(model_id) if isinstance(model_id, str) else None
    if row is None or not desk.is_training:
        return

    def write(document: Document, chosen: Any) -> Document:
        alone: Document = {"id": model_id, "config": dict(config_from_row(row))}
        return put(document, "model", alone if chosen else {"id": model_id})

    st.checkbox(
        desk.words("pictures.beforehand"),
        key=bind("encoded_beforehand", desk.get("model.config") is not None, write),
        help=desk.words("pictures.beforehand_help"),
    )
