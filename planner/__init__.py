"""Headroom's planner: how much GPU memory a model and a technique need. Pure functions on frozen values."""
