"""Readers of one program's texts each. A reader takes a `Passage` and yields a `Record` per message or line."""
