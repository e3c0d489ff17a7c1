"""The job on more, fewer and far fewer cards: sections of the Plan page."""
