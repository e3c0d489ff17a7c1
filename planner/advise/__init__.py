"""What to change about a plan: single changes, pairs and more, each planned, with its price in time."""

from planner.advise.advice import Answering, Outcome, advise, first_that_fits
from planner.advise.change import Change

__all__ = ["Answering", "Change", "Outcome", "advise", "first_that_fits"]
