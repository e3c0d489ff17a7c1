"""What a stream of requests does to a server: seeded small simulations and closed forms.

Nothing here changes a plan's peak. Each module names the reference of its formulas in `REFERENCE`, a function that
has another names it in its docstring; times come from the caller, never from a constant here.
"""
