"""Policies: learn them from datasets, keep them as plain files, let them act, and measure how often they succeed."""
