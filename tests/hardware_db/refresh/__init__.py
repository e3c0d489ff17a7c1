"""Tests of the price refresh, on responses made up in the documented formats."""
