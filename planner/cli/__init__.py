"""The command line's words and tables: what `python -m planner` prints, a module a command."""
