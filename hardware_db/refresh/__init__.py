"""Prices of today, fetched when the user asks, from sources that need no key.

They stand beside the shipped table with date and source and never change it. What cannot be a price is kept out,
with a reason; a source that cannot be read says so and leaves the others alone.
"""

from hardware_db.refresh.fetch import FetchError, Getter, Web
from hardware_db.refresh.run import SOURCES, Source, merged, refresh
from hardware_db.refresh.store import FILE_NAME, StoreError, load, save
from hardware_db.refresh.types import KeptOut, Refresh, SourceReport, State

__all__ = [
    "FILE_NAME",
    "SOURCES",
    "FetchError",
    "Getter",
    "KeptOut",
    "Refresh",
    "Source",
    "SourceReport",
    "State",
    "StoreError",
    "Web",
    "load",
    "merged",
    "refresh",
    "save",
]
