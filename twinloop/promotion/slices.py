"""Slices of the scenes in which the candidate must not be much worse: both halves of each value that varies.

The cut depends on the list of scenes alone, never on an outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.promotion.evidence import PairedTrial


@dataclass(frozen=True)
class Slice:
    """Scenes in which one value lies above, or not above, a cut."""

    value: str
    cut: float
    above: bool

    @property
    def name(self) -> str:
        """Such as `object_yaw_rad > 0.1`."""
        return f"{self.value} {'>' if self.above else '<='} {self.cut:.3g}"

    def holds(self, trial: PairedTrial) -> bool:
        """Whether a trial belongs to it; a trial without the value does not."""
        if self.value not in trial.values:
            return False
        return (trial.values[self.value] > self.cut) == self.above


def make_slices(scenes: Sequence[PairedTrial]) -> tuple[Slice, ...]:
    """Both halves of every value that all scenes have and that varies."""
    if not scenes:
        return ()
    named = set(scenes[0].values)
    for trial in scenes:
        named &= set(trial.values)
    made: list[Slice] = []
    for name in sorted(named):
        values = np.array([trial.values[name] for trial in scenes])
        if np.ptp(values) > 0.0:
            cut = float(np.median(values))
            if (values > cut).any():
                made += [Slice(name, cut, False), Slice(name, cut, True)]
    return tuple(made)
