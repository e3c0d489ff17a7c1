"""Which plan on which machine: every division and technique over every offer, the best by cost, time and cards."""
