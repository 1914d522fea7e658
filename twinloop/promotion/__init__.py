"""From trials to a verdict: evidence, statistics and decision are stored separately."""
