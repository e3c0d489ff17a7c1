"""Addresses: which page they name."""

import pytest

from ui.addresses import names_page


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://localhost:8501/plan", True),
        ("http://localhost:8501/plan/", True),
        ("https://host/folder/plan?s=1.x&lang=zh#top", True),
        ("http://localhost:8501/", False),
        ("http://plan", False),
        ("http://localhost:8501/planning", False),
        ("http://localhost:8501/?next=/plan", False),
        ("", False),
        (None, False),
    ],
)
def test_the_last_part_of_the_path_names_the_page(url: str | None, named: bool) -> None:
    assert names_page(url, "plan") is named
