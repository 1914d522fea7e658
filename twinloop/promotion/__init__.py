"""From trials to a verdict: evidence, statistics and decision are three things, each stored."""
