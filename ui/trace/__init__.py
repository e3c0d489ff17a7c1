"""Checking a plan by tracing, and memory snapshots of real runs: what both need beside the figures."""
