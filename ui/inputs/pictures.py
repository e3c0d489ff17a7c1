"""Widgets of diffusion pipelines: pictures in place of sequences, and what is encoded beforehand."""

from typing import Any, Final

import streamlit as st

from planner.document import put
from planner.model.from_row import config_from_row
from planner.model.native_size import native_tokens, side_of, tokens_of
from planner.model.spec import Latents
from ui.answers import tables
from ui.clips import sort_of
from ui.document import Document
from ui.inputs.desk import Desk
from ui.numbers import whole
from ui.pictures import latents_of, size_path
from ui.state import bind
from ui.whole import FORMAT, shown, typed

CLIP_STEP: Final = 256
"""Tokens."""


def draw_size(desk: Desk, latents: Latents) -> None:
    """The side of a picture, which sets the sequence; for clips the sequence itself, in tokens."""
    path, words, tokens = size_path(desk.document), desk.words, _tokens(desk, latents)
    if latents.frames_per_token > 1:
        _draw_tokens(desk, path, tokens)
        return

    def write(document: Document, side: Any) -> Document:
        return document if side is None else put(document, path, tokens_of(latents, round(side)))

    st.number_input(
        words("pictures.side"),
        step=float(latents.pixels_per_token),
        format=FORMAT,
        key=bind("picture_side", float(side_of(latents, tokens)), write),
        help=words("pictures.side_help", pixels=latents.pixels_per_token),
    )


def _tokens(desk: Desk, latents: Latents) -> int:
    """Tokens in force: those given, else what the planner takes."""
    current = desk.get(size_path(desk.document))
    return current if isinstance(current, int) else native_tokens(latents)


def _draw_tokens(desk: Desk, path: str, tokens: int) -> None:
    def write(document: Document, value: Any) -> Document:
        return document if value is None else put(document, path, typed(value))

    st.number_input(
        desk.words("clips.size"),
        step=float(CLIP_STEP),
        format=FORMAT,
        key=bind("clip_tokens", float(tokens), write),
        help=desk.words("clips.size_help"),
    )


def draw_number(desk: Desk, latents: Latents) -> None:
    """Pictures or clips that are made at once."""
    path = "workload.concurrency"

    def write(document: Document, value: Any) -> Document:
        return put(document, path, typed(value))

    st.number_input(
        desk.words(f"{sort_of(latents)}.at_once"),
        value=None,
        step=1.0,
        format=FORMAT,
        placeholder="1",
        key=bind("pictures_at_once", shown(desk.get(path)), write),
    )


def draw_note(desk: Desk, latents: Latents) -> None:
    """How many tokens that is."""
    current = _tokens(desk, latents)
    text = latents.text_in_sequence(current)
    key = "pictures.tokens_with_text" if text else f"{sort_of(latents)}.tokens"
    st.html(f'<div class="p m">{desk.words.html(key, tokens=whole(current), text=whole(text))}</div>')


def draw_beforehand(desk: Desk) -> None:
    """Whether text encoders and VAE are left off the card: the denoiser's own config then is the model."""
    model_id = desk.get("model.id")
    row = tables().pipelines.get(model_id) if isinstance(model_id, str) else None
    if row is None or not desk.is_training:
        return

    sort = sort_of(latents_of(desk.document))

    def write(document: Document, chosen: Any) -> Document:
        alone: Document = {"id": model_id, "config": dict(config_from_row(row))}
        return put(document, "model", alone if chosen else {"id": model_id})

    st.checkbox(
        desk.words(f"{sort}.beforehand"),
        key=bind("encoded_beforehand", desk.get("model.config") is not None, write),
        help=desk.words("pictures.beforehand_help"),
    )
