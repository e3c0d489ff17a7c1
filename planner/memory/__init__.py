"""Where memory goes: one file per place, one formula per function, symbols as parameters."""
