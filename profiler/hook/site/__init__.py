"""The folder that goes on the path of a watched program."""
