"""Recordings with known truth, under the name the tests use."""

from twinloop.testing.known_truth import record_known as record

__all__ = ["record"]
