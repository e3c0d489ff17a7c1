"""References of the serving formulas."""

from planner.references.types import Reference

REFERENCES: dict[str, Reference] = {}
