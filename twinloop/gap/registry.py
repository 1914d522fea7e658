"""The door through which every gap metric enters, built-in or not.

A metric is a function of the `GapEvidence` that yields `Measure`s, or `NotEvaluated` with what it needs. Another package
adds one with an entry point in the group `twinloop.gap_metrics`, under a name that starts with its dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from twinloop.gap.evidence import GapEvidence
from twinloop.gap.result import Measure, NotEvaluated
from twinloop.plugins import Registry


class Metric(Protocol):
    """Compares reality with simulation in one respect."""

    def __call__(self, evidence: GapEvidence, /) -> Iterable[Measure | NotEvaluated]:
        """What was found, or what is missing to find it."""


METRICS: Registry[Metric] = Registry("gap metric", "gap_metrics")
