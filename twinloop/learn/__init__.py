"""Policies: learn them from data sets, keep them as plain files, let them act, and measure how often they succeed."""
