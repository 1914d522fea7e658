"""Statistics used by several packages: intervals, resampling by episode, paired tests, e-values."""
