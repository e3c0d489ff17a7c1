"""Runs a real training step and records the memory it uses, for comparison with the plan."""
