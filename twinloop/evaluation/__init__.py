"""Evaluation: trials of policies in twins and on robots, their success rates, and paired comparisons."""
