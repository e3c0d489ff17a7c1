"""The parts of the Diagnose page."""
