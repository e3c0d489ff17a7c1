"""What a citation is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a formula, a rule or a default was read.

    Attributes:
        title: Title of the paper, page or source file.
        where: Section, equation, table, line or function.
        url: Link, pinned to a commit or version where that exists; empty for our own measurements.
        kind: `paper`, `source`, `docs`, `published_measurement` or `trace` (our own checked trace).
    """

    title: str
    where: str
    url: str
    kind: str
