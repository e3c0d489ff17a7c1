"""One module a page; each has a function `draw`."""
