"""Unequal cards in one job: which card gets which layers."""
