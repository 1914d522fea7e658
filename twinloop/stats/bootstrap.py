"""Intervals by resampling whole episodes: rows of one episode are not independent, episodes are.

The interval is the percentile interval, stretched about the estimate by what few episodes cost: Student's t over the
normal quantile, and sqrt(n / (n - 1)) since resampling n episodes sees too little of their spread. For normal data it is
Student's interval; where data are skewed it keeps the skew. `tests/stats/test_bootstrap.py` measures its coverage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twinloop.stats.interval import CONFIDENCE, Interval, exact_interval

Array = NDArray[Any]

RESAMPLES = 2000
FEWEST = 3
"""Fewer episodes than this say nothing about how they differ."""


@dataclass(frozen=True, kw_only=True)
class Difference(Interval):
    """Simulation minus reality, by resampling episodes; `real` and `sim` are the levels where there are two."""

    standard_error: float
    real_count: int
    sim_count: int
    real: float | None = None
    sim: float | None = None


def paired(real: Array, sim: Array, seed: int, resamples: int = RESAMPLES) -> Difference | None:
    """Interval of the mean of `sim - real`, rows (episodes,) or (episodes, channels) that belong together; NaN is missing.

    Channels are averaged after episodes. None when fewer than `FEWEST` episodes have a number.
    """
    real, sim = _table(real), _table(sim)
    both = np.isfinite(real) & np.isfinite(sim)
    keep = both.any(axis=1)
    count = int(keep.sum())
    if count < FEWEST:
        return None
    real, sim = np.where(both, real, np.nan)[keep], np.where(both, sim, np.nan)[keep]
    weights = _weights(np.random.default_rng(seed), count, resamples)
    drawn = _means(sim - real, weights)
    return _interval(
        drawn, float(_means(sim - real)), count, count, count, float(_means(real)), float(_means(sim))
    )


def unpaired(real: Array, sim: Array, seed: int, resamples: int = RESAMPLES) -> Difference | None:
    """Interval of the difference of the means of two sets of episodes, each resampled by itself."""
    real, sim = _present(_table(real)), _present(_table(sim))
    usable = np.isfinite(real).any(axis=0) & np.isfinite(sim).any(axis=0) if len(real) and len(sim) else None
    if usable is None or min(len(real), len(sim)) < FEWEST or not usable.any():
        return None
    real, sim = real[:, usable], sim[:, usable]
    rng = np.random.default_rng(seed)
    drawn = _means(sim, _weights(rng, len(sim), resamples)) - _means(
        real, _weights(rng, len(real), resamples)
    )
    levels = float(_means(real)), float(_means(sim))
    return _interval(drawn, levels[1] - levels[0], min(len(real), len(sim)), len(real), len(sim), *levels)


def of_mean(values: Array, seed: int, resamples: int = RESAMPLES) -> Difference | None:
    """Interval of the mean over episodes of values that are differences already; NaN is missing."""
    table = _present(_table(values))
    if len(table) < FEWEST:
        return None
    drawn = _means(table, _weights(np.random.default_rng(seed), len(table), resamples))
    return _interval(drawn, float(_means(table)), len(table), len(table), 0)


def of_fraction(hits: int, count: int) -> Difference:
    """Exact interval of a fraction: resampling would give a fraction of zero no width."""
    exact = exact_interval(hits, count)
    error = float(np.sqrt(max(exact.value * (1.0 - exact.value), 0.25 / count) / count))
    return Difference(exact.value, exact.low, exact.high, standard_error=error, real_count=count, sim_count=0)


def of_draws(
    value: float,
    draw: Callable[[np.random.Generator], float],
    count: int,
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Difference | None:
    """Interval of any estimate of `count` episodes: `draw` resamples them and estimates again; NaN where it cannot."""
    if count < FEWEST or not np.isfinite(value):
        return None
    rng = np.random.default_rng(seed)
    drawn = np.array([draw(rng) for _ in range(resamples)])
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < resamples // 10:
        return None
    return _interval(drawn, value, count, count, 0, confidence=confidence)


def stretch(count: int, confidence: float = CONFIDENCE) -> float:
    """By how much a percentile interval of `count` episodes is too short."""
    tail = 0.5 * (1.0 - confidence)
    student = float(stats.t.isf(tail, count - 1)) / float(stats.norm.isf(tail))
    return student * float(np.sqrt(count / (count - 1)))


def _interval(
    drawn: Array,
    value: float,
    fewest: int,
    real_count: int,
    sim_count: int,
    real: float | None = None,
    sim: float | None = None,
    confidence: float = CONFIDENCE,
) -> Difference:
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(drawn, [tail, 100.0 - tail])
    factor = stretch(fewest, confidence)
    error = float(np.std(drawn)) * float(np.sqrt(fewest / (fewest - 1)))
    low, high = value - factor * max(value - low, 0.0), value + factor * max(high - value, 0.0)
    return Difference(
        value, float(low), float(high), standard_error=error, real_count=real_count, sim_count=sim_count, real=real, sim=sim
    )  # fmt: skip


def _weights(rng: np.random.Generator, count: int, resamples: int) -> Array:
    """How often each episode is in each resample, (resamples, count)."""
    return np.asarray(rng.multinomial(count, np.full(count, 1.0 / count), size=resamples), np.float64)


def _means(table: Array, weights: Array | None = None) -> Array:
    """Mean over episodes, then over channels, of (episodes, channels): a number, or one per row of weights."""
    here = np.isfinite(table)
    filled = np.where(here, table, 0.0)
    weights = np.ones((1, len(table))) if weights is None else weights
    counts = weights @ here
    with np.errstate(invalid="ignore"):
        means = np.where(counts > 0, (weights @ filled) / np.maximum(counts, 1e-12), np.nan)
    present = np.isfinite(means)
    totals = np.where(present, means, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    return np.asarray(totals[0] if len(totals) == 1 else totals)


def _table(values: Array) -> Array:
    values = np.asarray(values, np.float64)
    return values[:, None] if values.ndim == 1 else values


def _present(table: Array) -> Array:
    return table[np.isfinite(table).any(axis=1)]


def resampled_means(values: Array, draws: int, rng: np.random.Generator) -> Array:
    """Means (draws, ...) of episodes (E, ...) drawn with replacement: what the mean could have been."""
    picks = rng.integers(0, len(values), (draws, len(values)))
    return np.asarray(values[picks].mean(axis=1))
