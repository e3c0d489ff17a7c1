"""Tests of the formulas of memory."""
