"""Pieces of a page as HTML. Every text that comes in is escaped, unless it was built as `Safe`."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from planner.ledger import Category
from ui.tokens import variable
from ui.words import Safe, Words, escaped

_TOGETHER: Final = re.compile(r"(?<![\w#])\d[\d.,]*(?: × [^\s<&]+| (?:[KMGT]i?B|%)(?!\w))")
"""A quantity with its unit, a number of cards with the first word of their name."""


def headline(sentence: str) -> Safe:
    """The page's first heading; a number stays on the line of what it counts."""
    kept = _TOGETHER.sub(r'<span class="nb">\g<0></span>', escaped(sentence))
    return Safe(f'<h1 class="v">{kept}</h1>')


def section(title: str, note: str = "") -> Safe:
    """A heading with a muted note beside it."""
    return Safe(f'<div class="sec"><h2>{escaped(title)}</h2><span>{escaped(note)}</span></div>')


def strip(cells: Iterable[tuple[str, str, str]]) -> Safe:
    """Figures between two hairlines: label, value, what stands below."""
    inner = "".join(
        f'<div><div class="l">{escaped(a)}</div><div class="v">{escaped(b)}</div>'
        f'<div class="d">{escaped(c)}</div></div>'
        for a, b, c in cells
    )
    return Safe(f'<div class="strip">{inner}</div>')


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    name: str,
    left: Sequence[int] = (),
    wide: Sequence[int] = (),
    stacked: bool = False,
) -> Safe:
    """A table in a box of its own that scrolls sideways and takes the keyboard.

    Args:
        head: Column heads.
        rows: Cells.
        name: What a screen reader calls it.
        left: Columns that are text.
        wide: Columns of text that wraps.
        stacked: Whether a phone has the cells of a row below one another, each number with its head.
    """

    def cells(kind: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{kind}{_class(i, left, wide)}{_head(i, head) if stacked and kind == 'td' else ''}>"
            f"{escaped(cell)}</{kind}>"
            for i, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    kind = "t stack" if stacked else "t"
    return Safe(
        f'<div class="tw" tabindex="0" role="region" aria-label="{escaped(name)}"><table class="{kind}">'
        f"<thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def swatch(category: Category) -> Safe:
    """A category's colour; the allocator's cache is hatched, as in the figures."""
    hatched = " hatched" if category is Category.ALLOCATOR else ""
    return Safe(f'<i class="sw{hatched}" style="--part:var({variable(category)})"></i>')


def legend(categories: Iterable[Category], words: Words, *, capacity: bool, band: bool) -> Safe:
    """The categories of the figures, then their two marks."""
    items = [f"<span>{swatch(c)}{words.html(f'category.{c.value}')}</span>" for c in categories]
    if capacity:
        items.append(f'<span><i class="cap"></i>{words.html("chart.usable")}</span>')
    if band:
        items.append(f'<span><i class="band"></i>{words.html("chart.band")}</span>')
    return Safe(f'<div class="leg">{"".join(items)}</div>')


def note(tone: str, body: str) -> Safe:
    """A remark with a rule at its left; `bad`, `tight` or none."""
    return Safe(f'<div class="note {tone}">{escaped(body)}</div>')


def bullets(items: Iterable[str]) -> Safe:
    """A short list."""
    return Safe("<ul>" + "".join(f"<li>{escaped(item)}</li>" for item in items) + "</ul>")


def _head(column: int, head: Sequence[str]) -> str:
    return f' data-head="{escaped(head[column])}"' if column else ""


def _class(column: int, left: Sequence[int], wide: Sequence[int]) -> str:
    if column in wide:
        return ' class="wrap"'
    return ' class="tl"' if column in left else ""
