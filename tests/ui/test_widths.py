"""Columns are as wide as what stands in them."""

from __future__ import annotations

from hardware_db import load_tables
from ui.names import card_name
from ui.widths import LEAST_PX, MOST_PX, column_width

GLYPH_PX = 5.4
"""Mean width of a letter of these names at 12.25 px, measured in a browser."""


def test_the_longest_name_of_a_card_is_not_cut_off() -> None:
    names = [card_name(card.name) for card in load_tables().gpus.values()]
    longest = max(names, key=len)
    assert len(longest) * GLYPH_PX < column_width("GPU", names) <= MOST_PX


def test_short_cells_leave_room_for_the_head_and_long_ones_end() -> None:
    assert column_width("GPU", ["T4"]) == LEAST_PX
    assert column_width("Provider of the machine", ["A"]) > column_width("Provider", ["A"])
    assert column_width("Plan", ["x" * 500]) == MOST_PX


def test_chinese_takes_twice_the_room() -> None:
    assert column_width("卡", ["一" * 12]) > column_width("卡", ["a" * 12])
