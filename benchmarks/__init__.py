"""Measures how accurate the plans are and how fast they are made, each by a command."""
