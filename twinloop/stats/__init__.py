"""Statistics that several packages share: intervals, resampling by episode, paired tests, e-values."""
