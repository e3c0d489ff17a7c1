"""A card that the user describes: its name and size in the open, its rates folded away."""

from typing import Any, Final

import streamlit as st

from ui.catalog import gpu, gpu_labels
from ui.document import Document, put, put_all
from ui.inputs.desk import Desk
from ui.state import Writer, bind

OWN: Final = "own"
FIRST_SIZE_GIB: Final = 288.0
"""The largest card of the table's newest kind; where another card was chosen before, that card's size."""
RATES: Final = (
    "bandwidth_gb_per_s",
    "bf16_tflops",
    "fp8_tflops",
    "fp4_tflops",
    "link_gb_per_s",
    "pcie_gb_per_s",
    "power_w",
)
NOBODY: Final = ""
RATES_WIDTH_PX: Final = 320


def begun(document: Document, path: str, before: str, name: str) -> Document:
    """The row at a path as a described card, like the card that stood there before.

    Args:
        document: The question.
        path: Of the row.
        before: Id of the card that the row named.
        name: What the new card is called to begin with.
    """
    known = gpu(before)
    size = known.memory_nominal_gb if known is not None else None
    card: dict[str, Any] = {"memory_gib": size or FIRST_SIZE_GIB}
    if known is not None:
        card["like"] = before
    changes = {"gpu": name, "card": card, "memory_bytes": None, "free_bytes": None}
    return put_all(document, {f"{path}.{field}": value for field, value in changes.items()})


def draw_own_card(desk: Desk, path: str, place: str) -> None:
    """The widgets of one described card.

    Args:
        desk: The form.
        path: Of the row in the document.
        place: The row in words.
    """
    words = desk.words
    with st.container(key=f"owncard_{path}", gap="xsmall"):
        left, right = st.columns([1.4, 1], gap="xsmall", wrap=False)
        left.text_input(
            words("hardware.own.name"),
            max_chars=80,
            key=bind(f"{path}.name", str(desk.get(f"{path}.gpu")), _name(path)),
        )
        with right:
            _number(desk, f"{path}.card.memory_gib", words("field.device.card.memory_gib"))
        with (
            st.popover(
                words("hardware.own.rates"),
                type="tertiary",
                key=f"ownrates_{path}",
                help=words("hardware.own.rates_of", row=place),
            ),
            st.container(width=RATES_WIDTH_PX, gap="xsmall"),
        ):
            _like(desk, path)
            with st.grid(2, min_column_width=140, gap="xsmall"):
                for name in RATES:
                    _number(desk, f"{path}.card.{name}", words(f"field.device.card.{name}"))
            st.caption(words("hardware.own.note"))


def _like(desk: Desk, path: str) -> None:
    """The card whose figures hold where none is typed."""
    labels = gpu_labels()
    current = desk.get(f"{path}.card.like")
    shown = current if isinstance(current, str) else NOBODY
    options = [NOBODY, *labels] if shown in (NOBODY, *labels) else [NOBODY, *labels, shown]

    def write(document: Document, value: Any) -> Document:
        return put(document, f"{path}.card.like", value or None)

    st.selectbox(
        desk.words("field.device.card.like"),
        options,
        format_func=lambda gpu_id: labels.get(gpu_id, gpu_id) or desk.words("hardware.own.like_none"),
        key=bind(f"{path}.card.like", shown, write, options),
    )


def _number(desk: Desk, path: str, label: str) -> None:
    given = desk.get(path)
    number = isinstance(given, int | float) and not isinstance(given, bool)
    st.number_input(
        label,
        value=None,
        step=1.0,
        format="%g",
        placeholder=_placeholder(desk, path),
        key=bind(path, float(given) if number else None, _keep(path)),
    )


def _placeholder(desk: Desk, path: str) -> str:
    like = desk.get(f"{path.rpartition('.')[0]}.like")
    known = gpu(like) if isinstance(like, str) else None
    return desk.words("hardware.not_known" if known is None else "hardware.own.as_like")


def _keep(path: str) -> Writer:
    """Writes a number; the size is never taken out, since a card without one is no card."""

    def write(document: Document, value: Any) -> Document:
        return document if value is None and path.endswith("memory_gib") else put(document, path, value)

    return write


def _name(path: str) -> Writer:
    def write(document: Document, value: Any) -> Document:
        return (
            put(document, f"{path}.gpu", value.strip())
            if isinstance(value, str) and value.strip()
            else document
        )

    return write
