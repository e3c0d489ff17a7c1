"""The checks behind `planner.validation`, one file per part of a scenario."""
