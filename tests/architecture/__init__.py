"""Tests that hold the walls between the packages."""
