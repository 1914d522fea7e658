"""Twins and their randomization in the formats of other simulators."""
