"""Measurements of Twinloop beside its peers: `python -m benchmarks`."""
