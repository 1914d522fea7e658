"""Learning: training policies from simulated and real datasets."""
