"""Simulated trials reduce the variance of real ones: prediction-powered inference with control variates.

The scenes are a fixed list; every scene is simulated, so the mean of the simulated outcomes over the list is known, not
estimated. Each real trial uses a scene drawn at random from the list. Its outcome, minus the simulated outcome of that
scene, plus the simulated mean over the list, has the mean of the real outcome whatever the simulation predicts: a wrong
twin increases the variance but adds no bias. The coefficient is estimated from earlier trials only, so the bets stay fair.
"""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.stats.betting import Outcomes, Span

TRUST, CAUTION = 0.3, 8.0
"""Prior coefficient of the control variate, and its weight in trials."""


def coefficients(real: Array, simulated: Array, mean: float | Array, variance: float | Array) -> Array:
    """Coefficient of the control variate for each real trial, (..., n), estimated from the trials before it.

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
    """Real outcomes adjusted by the control variate, and the coefficients used."""
    slope = coefficients(real, simulated, mean, variance)
    values = real - slope * (simulated - mean)
    low = span.low - slope * (span.high - mean)
    high = span.high + slope * (mean - span.low)
    return Outcomes(values, np.asarray(low), np.asarray(high), span), slope


def _before(values: Array) -> Array:
    """Sums over the trials before each one."""
    return np.asarray(np.cumsum(values, axis=-1) - values)
