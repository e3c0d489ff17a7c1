"""A real training step, measured in a child process and laid beside the plan.

PyTorch is loaded in `profiler.worker` alone, which only ever runs as that child.
"""
