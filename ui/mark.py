"""The mark and the word of the project as SVG text: three bars under a capacity line. Nothing is fetched."""

from typing import Final

_BARS: Final = (
    '<rect x="1" y="7" width="5" height="16" rx="1" fill="#3d7fd0"/>'
    '<rect x="8" y="11" width="5" height="12" rx="1" fill="#2f9a80"/>'
    '<rect x="15" y="15" width="5" height="8" rx="1" fill="#e3a52c"/>'
)
_GREY: Final = "#7a828e"
"""An image can't follow the theme, so one grey serves both."""

_O: Final = "M3.3 3.9C1.2 3.9 0 5.5 0 8C0 10.5 1.2 12 3.3 12C5.4 12 6.6 10.5 6.6 8C6.6 5.5 5.4 3.9 3.3 3.9Z"

# Letters drawn as strokes on a grid: an SVG image can't use the font of the page.
_LETTERS: Final = (
    ("M0 0V12M7 0V12M0 6H7", 11),
    ("M0 7.6H6.2C6.2 5.2 5 3.9 3.2 3.9C1.2 3.9 0 5.5 0 8C0 10.5 1.3 12 3.4 12C4.5 12 5.4 11.7 6 11.1", 9.4),
    (
        (
            "M.4 4.9C1 4.2 2 3.9 2.9 3.9C4.7 3.9 5.6 4.8 5.6 6.6V12M5.6 7.4H3C1.1 7.4 0 8.2 0 9.7"
            "C0 11.1 1 12 2.5 12C4.2 12 5.6 10.9 5.6 9"
        ),
        9.2,
    ),
    (
        (
            "M6 -.8V12M6 6.4C5.6 4.8 4.6 3.9 3.2 3.9C1.2 3.9 0 5.5 0 8C0 10.5 1.2 12 3.2 12"
            "C4.6 12 5.6 11.1 6 9.6"
        ),
        9.6,
    ),
    ("M0 12V4.1M0 7.4C.3 5.2 1.6 3.9 4 4.1", 6.4),
    (_O, 9.8),
    (_O, 9.8),
    (
        (
            "M0 12V4.1M0 7C.2 5.1 1.2 3.9 2.8 3.9C4.4 3.9 5.1 4.9 5.1 6.6V12M5.1 7C5.3 5.1 6.3 3.9 7.9 3.9"
            "C9.5 3.9 10.2 4.9 10.2 6.6V12"
        ),
        12,
    ),
)


def _svg(width: int, rule: str, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 28" width="{width}" height="28">'
        f'{_BARS}<rect x="0" y="3" width="21" height="1.8" fill="{rule}"/>{content}</svg>'
    )


def icon() -> str:
    """The mark alone, for the tab."""
    return _svg(22, "#888888", "")


def logo() -> str:
    """The mark with the name beside it."""
    strokes, x = [], 31.0
    for path, advance in _LETTERS:
        strokes.append(f'<path transform="translate({x:g} 9)" d="{path}"/>')
        x += advance
    letters = (
        f'<g fill="none" stroke="{_GREY}" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round">'
        f"{''.join(strokes)}</g>"
    )
    return _svg(round(x), "#868e99", letters)
