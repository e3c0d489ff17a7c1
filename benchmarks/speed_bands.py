"""How far the time of a run of a source not yet seen may lie from its prediction, nine times of ten.

What a source does alike in all its runs says little about the next one, so sources are the unit, as in the bands of
memory (`benchmarks.bands_rows`): the logarithms of observed over predicted are taken as normal around 0 with the
spread of the kind's sources, every source weighing alike, and as many degrees of freedom as there are sources. Few
sources, wide band. Where a kind has one source, half of the band is its own runs and half what all others of the
task do.

Every ratio is of a run whose source was left out of the fit. Coverage leaves the source out of the band as well.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.bands_rows import Votes, interval

Vector = NDArray[np.float64]
Names = NDArray[np.str_]
Mask = NDArray[np.bool_]
FEWEST_SOURCES = 2
"""Sources of a kind that can speak for one not seen."""


def votes(error: Vector, families: Names, mask: Mask) -> Votes:
    """Logarithms of observed over predicted time by source.

    Args:
        error: Logarithms of predicted over observed time, (N,).
        families: Source of each run, (N,).
        mask: Runs that count, (N,).
    """
    return {
        str(family): [-float(value) for value in error[mask & (families == family)]]
        for family in np.unique(families[mask])
    }


def band(error: Vector, families: Names, kinds: Names, kind: str) -> tuple[float, float]:
    """Ends of the band of a kind, of the predicted time.

    Args:
        error: Logarithms of predicted over observed time, every run predicted without its source, (N,).
        families: Source of each run, (N,).
        kinds: Kind of each run, (N,); all of training or all of serving.
        kind: The one in question; it may have no runs.
    """
    own = votes(error, families, kinds == kind)
    if len(own) >= FEWEST_SOURCES:
        return interval({}, own)
    return interval(own, votes(error, families, np.ones(len(error), bool)))


def held_out(error: Vector, families: Names, kinds: Names, mask: Mask) -> Iterator[tuple[str, Mask]]:
    """Which runs of each source lie in a band made without that source.

    Args:
        error: As in `band`, (N,).
        families: Source of each run, (N,).
        kinds: Kind of each run, (N,).
        mask: Runs asked for, (N,).

    Yields:
        The source, and for each of its runs whether the band holds it.
    """
    for family in np.unique(families[mask]):
        others = families != family
        own = mask & ~others
        inside = np.zeros(len(error), bool)
        for kind in np.unique(kinds[own]):
            low, high = band(error[others], families[others], kinds[others], str(kind))
            ratio = np.exp(-error)
            inside |= (kinds == kind) & (ratio >= low) & (ratio <= high)
        yield str(family), inside[own]
