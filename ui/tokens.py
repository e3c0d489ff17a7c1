"""Colours of the interface, light and dark, and the style rules generated from them.

Figures always carry the light value. The generated rules swap it by `light-dark()`, which follows the colour
scheme that Streamlit sets on its root, because the page is not run again when the theme changes.
"""

from functools import cache
from pathlib import Path
from string import Template
from typing import Final

from planner.ledger import Category

FONT: Final = '"Source Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif'
CLEAR: Final = "rgba(0,0,0,0)"

SURFACE: Final[dict[str, tuple[str, str]]] = {
    "background": ("#ffffff", "#111316"),
    "panel": ("#f5f6f8", "#1a1d22"),
    "text": ("#1a1e24", "#e4e7eb"),
    "muted": ("#59626e", "#9ba4af"),
    "hairline": ("#e3e6ea", "#2b3037"),
    "track": ("#eceef2", "#23272d"),
    "accent": ("#4450c4", "#8d97f7"),
    "bad": ("#c2362d", "#ff7a70"),
    "ok": ("#1a7a48", "#55c48c"),
    "tight": ("#8a5200", "#e5ae4a"),
    "bad-tint": ("#fcebe9", "#3a1d1c"),
    "ok-tint": ("#e4f4ea", "#14301f"),
    "tight-tint": ("#fbf0dc", "#352913"),
    "accent-tint": ("#eceefb", "#23263f"),
}

PARTS: Final[dict[Category, tuple[str, str]]] = {
    Category.WEIGHTS: ("#1f6fae", "#3d8fd1"),
    Category.GRADIENTS: ("#63b3e4", "#86c6ee"),
    Category.OPTIMIZER: ("#2b9278", "#3aa88b"),
    Category.ACTIVATIONS: ("#e3a52c", "#e0a63a"),
    Category.LOGITS: ("#cf5f22", "#d9703a"),
    Category.KV_CACHE: ("#a84b86", "#c873ab"),
    Category.COMMUNICATION: ("#d8cd3f", "#ddd35a"),
    Category.CONTEXT: ("#868e99", "#8b939e"),
    Category.ALLOCATOR: ("#868e99", "#8b939e"),
}
"""One colour a category, in stacking order: neighbours stay apart under simulated colour blindness."""

LIGHT: Final[dict[str, str]] = {name: pair[0] for name, pair in SURFACE.items()}
PART_LIGHT: Final[dict[Category, str]] = {part: pair[0] for part, pair in PARTS.items()}

_STYLES = Path(__file__).with_name("styles.css")
_SCHEME = Path(__file__).with_name("scheme.js")


def channels(color: str) -> str:
    """`#1f6fae` as `31, 111, 174`, the way a browser writes it in a style attribute."""
    return ", ".join(str(int(color[i : i + 2], 16)) for i in (1, 3, 5))


def faded(color: str, opacity: float = 0.5) -> str:
    """The colour at an opacity, for parts that rest."""
    return f"rgba({channels(color)}, {opacity:g})"


def variable(part: Category) -> str:
    """Name of a category's CSS variable."""
    return "--" + part.value.replace("_", "-")


def root_rule() -> str:
    """`:root` with one variable a token; each follows the colour scheme."""
    named = {f"--{name}": pair for name, pair in SURFACE.items()}
    named |= {variable(part): pair for part, pair in PARTS.items()}
    body = ";".join(f"{name}:light-dark({light},{dark})" for name, (light, dark) in named.items())
    return f":root{{{body}}}"


def swap_rules() -> str:
    """Rules that give every light value inside a figure its dark twin."""
    pairs = dict.fromkeys([*SURFACE.values(), *PARTS.values()])
    return "".join(_swap(prop, light, dark) for light, dark in pairs for prop in ("fill", "stroke"))


def _swap(prop: str, light: str, dark: str) -> str:
    written = (f"{prop}: rgb({channels(light)})", f"{prop}:{light}", f"{prop}: {light}")
    selectors = ",".join(f'.js-plotly-plot [style*="{value}"]' for value in written)
    return f"{selectors}{{{prop}:light-dark({light},{dark})!important}}"


@cache
def scheme_script() -> str:
    """HTML that hands the colour scheme on to what lies outside of Streamlit's root."""
    return f'<script id="scheme">{_SCHEME.read_text(encoding="utf-8")}</script>'


@cache
def style_sheet() -> str:
    """The whole style sheet: `styles.css` with its tokens put in."""
    template = Template(_STYLES.read_text(encoding="utf-8"))
    return template.substitute(root=root_rule(), swap=swap_rules())
