"""Simulated trials that make real ones worth more: prediction-powered inference with control variates.

The scenes are a fixed list; every one is simulated, so the mean of the simulated outcomes over the list is known, not
estimated. A real trial happens in a scene that was drawn at random from the list. Its outcome minus what simulation said
about this scene, plus the mean that simulation says about all, has the mean of the real outcome whatever simulation
says: a wrong twin widens nothing but the scatter. How much of the simulated outcome is taken off is learned from earlier
trials only, so that the bets stay fair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.stats.betting import Outcomes, Span

Array = NDArray[Any]

TRUST, CAUTION = 0.3, 8.0
"""How much of the simulated outcome is taken off before anything is known, and how many trials that belief weighs."""


def coefficients(real: Array, simulated: Array, mean: float | Array, variance: float | Array) -> Array:
    """How much of the simulated outcome to take off each real one, (..., n), from the trials before it alone.

    `mean` and `variance` are those of the simulated outcomes over the whole list.
    """
    away = simulated - mean
    before = np.arange(real.shape[-1])
    product = _before(real * away) - _before(real) * _before(away) / np.maximum(before, 1)
    known = np.asarray(variance, dtype=np.float64)
    slope = (product / np.where(known > 0.0, known, 1.0) + CAUTION * TRUST) / (before + CAUTION)
    return np.asarray(np.where(known > 0.0, np.clip(slope, 0.0, 1.0), 0.0))


def controlled_outcomes(
    real: Array, simulated: Array, mean: float | Array, variance: float | Array, span: Span
) -> tuple[Outcomes, Array]:
    """Real outcomes with what simulation explains taken off, and the coefficients that did it."""
    slope = coefficients(real, simulated, mean, variance)
    values = real - slope * (simulated - mean)
    low = span.low - slope * (span.high - mean)
    high = span.high + slope * (mean - span.low)
    return Outcomes(values, np.asarray(low), np.asarray(high), span), slope


def _before(values: Array) -> Array:
    """Sums over the trials before each one."""
    return np.asarray(np.cumsum(values, axis=-1) - values)
