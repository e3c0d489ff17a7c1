"""Machines to buy for the open job, side by side: what they hold, how fast, what they cost to own and to rent."""
