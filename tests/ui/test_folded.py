"""Sections that are worked out once they are opened."""

from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st  # noqa: PLC0415

    from ui.folded import folded  # noqa: PLC0415
    from ui.words import words_for  # noqa: PLC0415

    box = folded("moves", words_for("en"))
    if box is not None:
        box.html("worked out")
    st.html("below")


def test_a_section_is_worked_out_only_while_it_is_open() -> None:
    page = AppTest.from_function(_page).run()
    assert [box.label for box in page.expander] == ["Loading, saving and host memory"]
    assert [element.proto.body for element in page.get("html")] == ["below"]
    page.session_state["moves"] = True
    page.run()
    assert [element.proto.body for element in page.get("html")] == ["worked out", "below"]
