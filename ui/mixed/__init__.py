"""Layouts of a job over unequal cards, on the Plan page."""
