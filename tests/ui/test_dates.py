"""Dates as people write them."""

import pytest

from ui.dates import day_of
from ui.words import words_for


@pytest.mark.parametrize(
    ("moment", "language", "shown"),
    [
        ("2026-11-03T04:05:06+00:00", "en", "3 Nov 2026"),
        ("2026-11-03", "zh", "2026 \u5e74 11 \u6708 3 \u65e5"),
        ("2026-99-03", "en", "2026-99-03"),
        ("some day", "en", "some day"),
        ("", "en", ""),
    ],
)
def test_a_time_is_shown_as_its_day(moment: str, language: str, shown: str) -> None:
    assert day_of(moment, words_for(language)) == shown
