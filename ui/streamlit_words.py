"""Words that Streamlit writes in English and no argument changes, replaced by the style sheet."""

from typing import Final

from ui.words import FALLBACK, Words

PLACES: Final[dict[str, str]] = {
    "upload": '[data-testid="stFileUploaderDropzone"] button p',
    "upload_limit": '[data-testid="stFileUploaderDropzoneInstructions"]',
    "enter": '[data-testid="stTextInput"] [data-testid="InputInstructions"]',
    "enter_area": '[data-testid="stTextArea"] [data-testid="InputInstructions"]',
    "enter_number": '[data-testid="stNumberInput"] [data-testid="InputInstructions"]',
    "stop": '[data-testid="stStatusWidget"] button',
    "skip": '[data-testid="stSkipToContent"]',
}

UNNAMED: Final[dict[str, str]] = {"expand": '[data-testid="stExpandSidebarButton"]'}
"""Bare icons, which get a word beside them in every language where nothing else stands there: on a phone."""


def worded_rules(words: Words) -> str:
    """Rules of style that show `streamlit.<place>` in each place; an empty text hides it.

    What Streamlit writes itself is left alone in English.
    """
    named = (_named(selector, words(f"streamlit.{name}")) for name, selector in UNNAMED.items())
    if words.language == FALLBACK:
        return "".join(named)
    worded = (_worded(selector, words(f"streamlit.{name}")) for name, selector in PLACES.items())
    return "".join((*named, *worded))


def _named(selector: str, text: str) -> str:
    look = "position:absolute;left:100%;white-space:nowrap;font-size:13px;color:var(--muted)"
    return (
        f"@media(max-width:640px){{{selector}{{position:relative}}"
        f'{selector}::after{{content:"{_quoted(text)}";{look}}}}}'
    )


def _worded(selector: str, text: str) -> str:
    if not text:
        return f"{selector}{{display:none!important}}"
    shown = f'{selector}::after{{content:"{_quoted(text)}";font-size:14px}}'
    return f"{selector}{{font-size:0!important}}{selector}>*{{display:none}}{shown}"


def _quoted(text: str) -> str:
    """Text inside a string of CSS, inside a style element."""
    return "".join(char if char.isalnum() or char == " " else f"\\{ord(char):x} " for char in text)
