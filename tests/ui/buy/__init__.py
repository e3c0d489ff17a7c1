"""Tests of the Buy page and its parts."""
