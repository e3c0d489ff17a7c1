"""How long a plan takes: its section on the Plan page."""
