"""What a run costs, and whether to buy or to rent."""

from planner.cost.buy_or_rent import BuyOrRent, Ownership, Rent, buy_or_rent, least_utilisation_frac
from planner.cost.run_cost import ASSUMED_SPOT, LEFT_OUT, RunCost, Spot, run_cost, tokens_of

__all__ = [
    "ASSUMED_SPOT",
    "LEFT_OUT",
    "BuyOrRent",
    "Ownership",
    "Rent",
    "RunCost",
    "Spot",
    "buy_or_rent",
    "least_utilisation_frac",
    "run_cost",
    "tokens_of",
]
