"""References of the training formulas."""

from planner.references.types import Reference

REFERENCES: dict[str, Reference] = {}
