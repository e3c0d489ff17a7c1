"""Dates of what was made here, in the form that prices have theirs in."""

from datetime import datetime

from ui.cost.money import day
from ui.words import Words


def day_of(moment: str, words: Words) -> str:
    """The day of an ISO 8601 time as people write it; the text itself where it is no time."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    return day(found.date().isoformat(), words)
