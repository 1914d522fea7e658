"""What to record next, how much of it, what it costs and what it should bring."""
