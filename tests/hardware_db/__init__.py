"""Tests of the data files and their loaders."""
