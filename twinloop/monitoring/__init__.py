"""Deployed episodes: is the success rate still as expected, what has changed, and what to do next."""
