"""Scenarios side by side: what differs, by how much, and from what."""
