"""A plan in the words of other programs: one file a target. Text comes out; nothing is run or written here."""
