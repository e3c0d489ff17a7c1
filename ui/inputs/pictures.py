"""Widgets of diffusion pipelines: pictures in place of sequences, and what is encoded beforehand."""

from typing import Any

import streamlit as st

from planner.document import put
from planner.model.from_row import config_from_row
from planner.model.spec import Latents
from ui.answers import tables
from ui.document import Document
from ui.inputs.desk import Desk
from ui.numbers import whole
from ui.pictures import FIRST_SIDE, side_of, size_path, tokens_of
from ui.state import bind
from ui.whole import FORMAT, shown, typed


def draw_size(desk: Desk, latents: Latents) -> None:
    """The side of a picture, which sets the sequence; for clips the sequence itself, in tokens."""
    path, words = size_path(desk.document), desk.words
    current = desk.get(path)
    tokens = current if isinstance(current, int) else tokens_of(latents, FIRST_SIDE)

    def write(document: Document, side: Any) -> Document:
        return document if side is None else put(document, path, tokens_of(latents, round(side)))

    st.number_input(
        words("pictures.side"),
        step=float(latents.pixels_per_token),
        format=FORMAT,
        key=bind("picture_side", float(side_of(latents, tokens)), write),
        help=words("pictures.side_help", pixels=latents.pixels_per_token),
    )


def draw_number(desk: Desk) -> None:
    """Pictures that are made at once."""
    path = "workload.concurrency"

    def write(document: Document, value: Any) -> Document:
        return put(document, path, typed(value))

    st.number_input(
        desk.words("pictures.at_once"),
        value=None,
        step=1.0,
        format=FORMAT,
        placeholder="1",
        key=bind("pictures_at_once", shown(desk.get(path)), write),
    )


def draw_note(desk: Desk, latents: Latents) -> None:
    """How many tokens that is."""
    current = desk.get(size_path(desk.document))
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
