"""What a server needs on each device, what it can then hold, and what its engine would print.

- `ledgers`: the memory of the asked load, device by device, and the most that an engine's own rules allow it.
- `answers`: tokens, context and sequences that fit.
- `readings`: a plan in the words of engine logs.
- `gaps`: what is given and not counted.

The entries themselves are in `planner.memory`, in the modules named `serving_`, a file for each engine and each
place; pipelines that make pictures and films are in `planner.diffusion`.
"""
