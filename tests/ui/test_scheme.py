"""What lies outside of Streamlit's root follows the theme, too: by the one script that any page runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ui.tokens import scheme_script, style_sheet

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.testing.v1 import AppTest


def test_one_script_of_our_own_runs_and_no_other(open_page: Callable[..., AppTest]) -> None:
    page = open_page()
    running = [part.proto.body for part in page.get("html") if part.proto.unsafe_allow_javascript]
    assert running == [scheme_script()]


def test_popovers_have_no_scheme_of_their_own() -> None:
    assert "color-scheme:light dark" not in style_sheet()
    assert "colorScheme" in scheme_script()
