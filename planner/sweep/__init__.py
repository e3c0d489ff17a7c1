"""Many plans at once: formulas read as programs and worked out over a grid of two sizes."""

from planner.sweep.grid import AXES, Sweep, sweep

__all__ = ["AXES", "Sweep", "sweep"]
