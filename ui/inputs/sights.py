"""Widgets of a language model that sees pictures: how many in a sequence, their size, whether the tower learns."""

import json
from functools import lru_cache
from typing import Any, Final

import streamlit as st

from planner.document import put
from planner.model import UnknownArchitecture, model_from_config, model_from_row
from planner.model.tower import Tower
from ui.answers import tables
from ui.document import Document
from ui.inputs.desk import Desk
from ui.inputs.widgets import choice, optional_number
from ui.numbers import whole
from ui.state import bind
from ui.whole import FORMAT, shown, typed

IMAGES: Final = "training.images"
PIXELS: Final = "training.image_pixels"
TOWER: Final = "training.tower"
FIELDS: Final = (IMAGES, PIXELS, TOWER)
LEARNS: Final = ("trained", "frozen")
FIRST_PIXELS: Final = 768 * 768
"""What LLaMA-Factory makes pictures no larger than (`image_max_pixels`)."""


def draw(desk: Desk) -> None:
    """Nothing for models without a described tower, unless the question has pictures."""
    tower = tower_of(desk)
    if tower is None and not any(desk.get(path) for path in FIELDS):
        return
    left, right = st.columns(2, gap="small", wrap=False)
    with left:
        _images(desk, tower)
    with right:
        if tower is None or not tower.fixed or desk.get(PIXELS):
            optional_number(desk, PIXELS, placeholder=desk.words("field.no_default"), step=28 * 28)
        else:
            st.html("")
    desk.messages(IMAGES, PIXELS)
    if desk.get(IMAGES) or desk.get(TOWER):
        _note(desk, tower)
        choice(desk, TOWER, LEARNS, group="tower")
        desk.messages(TOWER)


def tower_of(desk: Desk) -> Tower | None:
    """The tower of the model in question, whether or not the question can be answered."""
    model_id, config = desk.get("model.id"), desk.get("model.config")
    if isinstance(config, dict):
        return _of_config(json.dumps(config, sort_keys=True, default=str))
    return _of_id(model_id) if isinstance(model_id, str) else None


@lru_cache(maxsize=64)
def _of_id(model_id: str) -> Tower | None:
    row = tables().models.get(model_id)
    try:
        return None if row is None else model_from_row(row).tower
    except UnknownArchitecture:
        return None


@lru_cache(maxsize=32)
def _of_config(text: str) -> Tower | None:
    try:
        return model_from_config(json.loads(text)).tower
    except UnknownArchitecture:
        return None


def _images(desk: Desk, tower: Tower | None) -> None:
    """A tower that takes any size gets a usual one with the first picture."""

    def write(document: Document, value: Any) -> Document:
        number = typed(value)
        document = put(document, IMAGES, number)
        if not number:
            return put(put(document, PIXELS, None), TOWER, None)
        sized = tower is None or tower.fixed or desk.get(PIXELS)
        return document if sized else put(document, PIXELS, FIRST_PIXELS)

    st.number_input(
        desk.words(f"field.{IMAGES}.label"),
        value=None,
        step=1.0,
        format=FORMAT,
        placeholder=desk.words("sights.none"),
        key=bind(IMAGES, shown(desk.get(IMAGES)), write),
        help=desk.words(f"field.{IMAGES}.help"),
    )


def _note(desk: Desk, tower: Tower | None) -> None:
    """How many tokens of the sequence they are."""
    images, pixels = desk.get(IMAGES), desk.get(PIXELS)
    if tower is None or not isinstance(images, int) or not (tower.fixed or isinstance(pixels, int)):
        return
    each = tower.tokens(pixels)
    text = desk.words.html("sights.tokens", each=whole(each), all=whole(images * each))
    st.html(f'<div class="p m">{text}</div>')
