"""A scenario document as the form edits it; the functions are the planner's."""

from planner.document import Document, canonical, get, put, put_all

__all__ = ["Document", "canonical", "get", "put", "put_all"]
