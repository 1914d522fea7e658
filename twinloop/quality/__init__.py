"""What is wrong with recorded data, where, and whether it blocks: checks that are pure functions of an episode."""
