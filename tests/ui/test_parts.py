"""Pieces of a page."""

import pytest

from ui import parts
from ui.words import Safe


@pytest.mark.parametrize(
    ("sentence", "kept"),
    [
        ("GPU 5 is 2.6 GiB over", ["2.6 GiB"]),
        ("$118 on 2 × H100, in 16 hours", ["2 × H100,"]),
        ("within 1.6 % of 1,286 runs", ["1.6 %"]),
        ("\u8d85\u51fa 2.6 GiB\uff0c\u4f46", ["2.6 GiB"]),
        ("It&#x27;s 4 GPUs", []),
    ],
)
def test_a_headline_keeps_a_number_with_what_it_counts(sentence: str, kept: list[str]) -> None:
    shown = parts.headline(Safe(sentence))
    assert [piece.partition("</span>")[0] for piece in shown.split('<span class="nb">')[1:]] == kept
    assert shown.startswith('<h1 class="v">')


def test_a_headline_that_was_not_built_here_is_escaped() -> None:
    assert parts.headline("<b>9 GB</b>") == (
        '<h1 class="v">&lt;b&gt;<span class="nb">9 GB</span>&lt;/b&gt;</h1>'
    )


def test_the_cells_of_a_stacked_row_carry_their_heads() -> None:
    row = parts.table(["Part", 'A "x"', "Why"], [["Weights", "1", "<"]], name="n", wide=(2,), stacked=True)
    assert '<table class="t stack">' in row
    assert '<td>Weights</td><td data-head="A &quot;x&quot;">1</td>' in row
    assert '<td class="wrap" data-head="Why">&lt;</td>' in row
    assert "data-head" not in parts.table(["Part"], [["Weights"]], name="n")
