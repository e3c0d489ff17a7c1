"""The builds and terms of a session, kept while other pages are open."""

from dataclasses import replace
from typing import Any, Final

import streamlit as st

from ui.buy.builds import MOST_BUILDS, Build, first_builds
from ui.buy.money import AMOUNTS, Terms

_BUILDS: Final = "buy_builds"
_NEXT: Final = "buy_next"
_TERMS: Final = "buy_terms"


def builds() -> dict[int, Build]:
    """What was typed, by line; a line keeps its number when others go."""
    if _BUILDS not in st.session_state:
        st.session_state[_BUILDS] = dict(enumerate(first_builds()))
        st.session_state[_NEXT] = len(st.session_state[_BUILDS])
    found: dict[int, Build] = st.session_state[_BUILDS]
    return found


def add_build(gpu_id: str) -> None:
    """One more line, where there is room."""
    if len(builds()) < MOST_BUILDS:
        line = st.session_state[_NEXT]
        st.session_state[_NEXT] = line + 1
        builds()[line] = Build(gpu_id=gpu_id, count=1)


def remove_build(line: int) -> None:
    """One line less."""
    builds().pop(line, None)


def change_build(line: int, field: str, value: Any) -> None:
    """A field of a line; another card takes what was typed of the old one with it."""
    found = builds()
    if line not in found:
        return
    if field == "gpu_id":
        found[line] = Build(gpu_id=value, count=found[line].count)
    else:
        found[line] = replace(found[line], **{field: value})


def terms() -> Terms:
    """What owning is worked out with."""
    found: Terms = st.session_state.setdefault(_TERMS, Terms())
    return found


def change_terms(field: str, value: Any) -> None:
    """One of them; an amount that is emptied is the default again."""
    st.session_state[_TERMS] = with_term(terms(), field, value)


def with_term(given: Terms, field: str, value: Any) -> Terms:
    """The terms with one changed."""
    if field not in AMOUNTS:
        return replace(given, **{field: value})
    if value is None:
        return replace(given, **{field: getattr(Terms(), field)}, typed=given.typed - {field})
    return replace(given, **{field: value}, typed=given.typed | {field})
