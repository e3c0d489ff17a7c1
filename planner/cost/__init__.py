"""What a run costs, and whether to buy or to rent."""

from planner.cost.buy_or_rent import BuyOrRent, Ownership, Rent, buy_or_rent
from planner.cost.run_cost import LEFT_OUT, RunCost, Spot, run_cost, tokens_of

__all__ = [
    "LEFT_OUT",
    "BuyOrRent",
    "Ownership",
    "Rent",
    "RunCost",
    "Spot",
    "buy_or_rent",
    "run_cost",
    "tokens_of",
]
