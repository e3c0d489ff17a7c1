"""The cards: one row a kind, in job order; several rows are a mix."""

from copy import deepcopy
from typing import Any, Final

import streamlit as st

from planner.units import gib, gib_bytes
from ui.catalog import gpu, gpu_labels
from ui.document import Document, get, put
from ui.inputs.desk import Desk
from ui.inputs.own_card import OWN, begun, draw_own_card
from ui.measure.use_machine import draw_use_machine, draw_why_not
from ui.numbers import gib_as_typed
from ui.state import bind, edit
from ui.whole import FORMAT, shown, typed

GENERIC: Final = "generic"
UNKNOWN: Final = "unknown"
FIRST_SIZE_GIB: Final = 24
ROWS: Final = "hardware.devices"
USE_MACHINE: Final = "quiet_use_machine"


def draw(desk: Desk) -> None:
    """A row of widgets for every row of the document, and a button for one more."""
    words = desk.words
    rows = desk.get(ROWS)
    count = len(rows) if isinstance(rows, list) else 0
    with st.container(key="gpus", gap="xsmall"):
        for index in range(count):
            _row(desk, index, last=count == 1)
        desk.messages("hardware")
        with st.container(key="quiet_add", horizontal=True, gap="small"):
            st.button(words("hardware.add"), type="tertiary", key="add_row", on_click=lambda: edit(_add_row))
            draw_use_machine(words, USE_MACHINE)
        draw_why_not(words, USE_MACHINE)


def _row(desk: Desk, index: int, *, last: bool) -> None:
    words = desk.words
    path = f"{ROWS}.{index}"
    visible: Any = "visible" if index == 0 else "collapsed"
    gpu_id = desk.get(f"{path}.gpu")
    kind = OWN if desk.get(f"{path}.card") is not None else _kind(gpu_id)
    labels = gpu_labels()
    options = [*labels, GENERIC, OWN, UNKNOWN]
    if kind not in options:
        options.insert(0, kind)
    place = words("hardware.row", n=index + 1)
    count = shown(desk.get(f"{path}.count", 1))
    with st.container(
        key=f"gpurow_{index}", horizontal=True, wrap=False, vertical_alignment="bottom", gap="xsmall"
    ):
        st.selectbox(
            words("field.device.gpu") if index == 0 else words("hardware.gpu_of", row=place),
            options,
            format_func=lambda option: (
                words(f"hardware.kind.{option}")
                if option in (GENERIC, OWN, UNKNOWN)
                else labels.get(option, option)
            ),
            label_visibility=visible,
            key=bind(f"{path}.gpu", kind, _gpu_writer(index, words("hardware.own.first")), options),
        )
        st.number_input(
            words("field.device.count") if index == 0 else words("hardware.count_of", row=place),
            step=1.0,
            format=FORMAT,
            label_visibility=visible,
            width=64,
            key=bind(f"{path}.count", 1.0 if count is None else count, _count_writer(index)),
        )
        with st.popover(
            words("hardware.more_of", row=place),
            type="tertiary",
            key=f"gpumore_{index}",
            help=words("hardware.more_of", row=place),
        ):
            _more(desk, index, last=last)
    if kind == GENERIC:
        st.number_input(
            words("hardware.size"),
            value=None,
            step=1.0,
            format="%.2f",
            key=bind(f"{path}.size", _size_gib(desk, index), _size_writer(index)),
        )
    if kind == OWN:
        draw_own_card(desk, path, place)
    desk.messages(path)


def _more(desk: Desk, index: int, *, last: bool) -> None:
    """What is seldom needed: a memory reading of one's own, what others use, and taking the row away."""
    words = desk.words
    path = f"{ROWS}.{index}"
    card = gpu(str(desk.get(f"{path}.gpu")))
    usable = (
        gib_as_typed(card.usable_bytes)
        if card is not None and card.usable_bytes
        else words("hardware.not_known")
    )
    for name, placeholder in (
        ("memory_bytes", words("hardware.of_table", gib=usable)),
        ("free_bytes", words("hardware.all_free")),
    ):
        given = desk.get(f"{path}.{name}")
        size = gib(given) if isinstance(given, int) and not isinstance(given, bool) else None
        st.number_input(
            words(f"field.device.{name}"),
            value=None,
            step=1.0,
            format="%.2f",
            placeholder=placeholder,
            help=words(f"hardware.{name}_help"),
            key=bind(f"{path}.{name}", size, _bytes_writer(index, name)),
        )
    if not last:
        st.button(
            words("hardware.remove", row=words("hardware.row", n=index + 1)),
            key=f"remove_{index}",
            on_click=lambda: edit(lambda document: _without_row(document, index)),
        )


def _kind(gpu_id: object) -> str:
    text = str(gpu_id)
    return GENERIC if text.startswith(f"{GENERIC}-") else text


def _size_gib(desk: Desk, index: int) -> float | None:
    given = desk.get(f"{ROWS}.{index}.memory_bytes")
    if isinstance(given, int) and not isinstance(given, bool):
        return gib(given)
    digits = str(desk.get(f"{ROWS}.{index}.gpu")).removeprefix(f"{GENERIC}-").removesuffix("gb")
    return float(digits) if digits.isdecimal() else None


def _gpu_writer(index: int, own_name: str) -> Any:
    def write(document: Document, kind: Any) -> Document:
        path = f"{ROWS}.{index}"
        if kind == OWN:
            return begun(document, path, str(get(document, f"{path}.gpu")), own_name)
        gpu_id = f"{GENERIC}-{FIRST_SIZE_GIB}gb" if kind == GENERIC else kind
        return _in_row(document, index, gpu=gpu_id, card=None, memory_bytes=None, free_bytes=None)

    return write


def _count_writer(index: int) -> Any:
    def write(document: Document, value: Any) -> Document:
        return document if value is None else _in_row(document, index, count=typed(value))

    return write


def _size_writer(index: int) -> Any:
    def write(document: Document, value: Any) -> Document:
        if value is None or not 1 <= value < 10_000:
            return _in_row(document, index, memory_bytes=_as_bytes(value)) if value is not None else document
        whole = round(value)
        exact = None if value == whole else gib_bytes(value)
        return _in_row(document, index, gpu=f"{GENERIC}-{max(1, whole)}gb", memory_bytes=exact)

    return write


def _bytes_writer(index: int, name: str) -> Any:
    def write(document: Document, value: Any) -> Document:
        return _in_row(document, index, **{name: None if value is None else _as_bytes(value)})

    return write


def _as_bytes(size_gib: float) -> int:
    """Bytes of a size that may be absurd; the planner says so."""
    return gib_bytes(min(max(size_gib, -1e12), 1e12))


def _in_row(document: Document, index: int, **changes: Any) -> Document:
    rows = get(document, ROWS)
    if not isinstance(rows, list) or index >= len(rows):
        return document
    for name, value in changes.items():
        document = put(document, f"{ROWS}.{index}.{name}", value)
    return document


def _add_row(document: Document) -> Document:
    rows = deepcopy(get(document, ROWS, []))
    rows.append({"gpu": rows[-1]["gpu"] if rows else f"{GENERIC}-{FIRST_SIZE_GIB}gb", "count": 1})
    return put(document, ROWS, rows)


def _without_row(document: Document, index: int) -> Document:
    rows = deepcopy(get(document, ROWS, []))
    if len(rows) > 1 and index < len(rows):
        del rows[index]
    return put(document, ROWS, rows)
