"""Tests of Headroom; the folders mirror the packages."""
