"""Quantization: an encoder counts, a converter has bits.

The reading is the nearest multiple of `step`; for a signal that crosses many steps the error is uniform, with variance
step^2 / 12. Outside `lowest` .. `highest` the reading stays at the end of the range.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.errors import WrongUse
from twinloop.imperfect.parameters import Array, Value, broadcast, check_field


@dataclass(frozen=True)
class Quantization:
    """All in the unit of the signal. A step of 0 leaves an environment's signal as it is."""

    step: Value = 0.0
    lowest: Value = -np.inf
    highest: Value = np.inf

    def __post_init__(self) -> None:
        check_field(self, "step", at_least=0.0)
        check_field(self, "lowest", infinite=True)
        check_field(self, "highest", infinite=True)
        if np.any(np.asarray(self.lowest) > np.asarray(self.highest)):
            raise WrongUse(
                "Quantization.lowest is above Quantization.highest",
                got=f"{self.lowest} and {self.highest}",
                expected="lowest <= highest",
            )


def apply(params: Quantization, reading: Array) -> Array:
    """`reading` (N, ...) in whole steps, within the range."""
    reading = np.asarray(reading)
    step = broadcast(params.step, reading.shape)
    exact = step == 0.0
    counts = np.rint(reading / np.where(exact, 1.0, step))
    counts *= step
    if exact.any():
        counts = np.where(exact, reading, counts)
    return np.clip(counts, broadcast(params.lowest, reading.shape), broadcast(params.highest, reading.shape))
