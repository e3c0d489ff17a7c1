"""Nelder-Mead: the minimum of a function of a few numbers, without derivatives (The Computer Journal 7, 1965)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
TOLERANCE = 1e-6


def minimise(function: Callable[[Vector], float], start: Vector, step: float, rounds: int) -> Vector:
    """The best point found.

    Args:
        function: To be made small.
        start: First corner; the others lie `step` along each axis.
        step: Size of the first simplex.
        rounds: Most moves.
    """
    corners = [start] + [start + step * axis for axis in np.eye(len(start))]
    values = [function(corner) for corner in corners]
    for _ in range(rounds):
        order = np.argsort(values)
        corners, values = [corners[i] for i in order], [values[i] for i in order]
        if values[-1] - values[0] < TOLERANCE:
            break
        _move(function, corners, values)
    return corners[int(np.argmin(values))]


def _move(function: Callable[[Vector], float], corners: list[Vector], values: list[float]) -> None:
    """Reflects the worst corner, goes further where that is best, draws in where it is bad; all in place."""
    centre = np.mean(corners[:-1], axis=0)
    reflected = 2 * centre - corners[-1]
    at = function(reflected)
    if at < values[0]:
        further = 3 * centre - 2 * corners[-1]
        beyond = function(further)
        corners[-1], values[-1] = (further, beyond) if beyond < at else (reflected, at)
    elif at < values[-2]:
        corners[-1], values[-1] = reflected, at
    else:
        inside = (centre + corners[-1]) / 2
        within = function(inside)
        if within < values[-1]:
            corners[-1], values[-1] = inside, within
            return
        for i in range(1, len(corners)):
            corners[i] = (corners[0] + corners[i]) / 2
            values[i] = function(corners[i])
