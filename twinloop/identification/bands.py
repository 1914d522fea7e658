"""Predictive bands for the replay error of the fitted twin on new data.

Bands are conformal: leave-one-out residuals of each training episode are divided by a scale that grows with speed and with
time since the start, and their quantile sets the factor. No distribution is assumed; model error is in the residuals and so
in the band.

Episodes are the independent units, not rows: a joint that sticks next to its target has the same error for a whole episode.
Every episode counts the same however long it is; with fewer episodes, the factor has a larger margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from twinloop.episode import Array
from twinloop.identification.predict import Window
from twinloop.identification.problem import Linear, Solution
from twinloop.identification.recording import Recording
from twinloop.identification.windows import duration_s

LEVEL = 0.9
_FEATURES = 3


@dataclass(frozen=True)
class Bands:
    """Half-widths of predictive bands: per channel, factor * (c0 + c1 * pace + c2 * age), pace and age standardized."""

    level: float
    coefficients: tuple[tuple[float, ...], ...]
    factors: tuple[float, ...]
    pace: tuple[float, ...]
    age_s: float

    def half_widths(self, recording: Recording, window: Window) -> Array:
        """Half the width of the band at each row of a window, (rows, channels)."""
        features = _features(recording, window, np.array(self.pace), self.age_s)
        spread = np.einsum("tcf,cf->tc", features, np.array(self.coefficients))
        return np.asarray(spread * np.array(self.factors))


def fit_bands(
    recordings: Sequence[Recording], windows: Sequence[Window], residual: Array, level: float = LEVEL
) -> Bands:
    """Bands from the residuals (rows, channels) of training windows."""
    speeds = [np.abs(_speeds(recordings[w.recording], w)).mean(axis=0) for w in windows]
    pace = np.maximum(np.mean(speeds, axis=0), 1e-9)
    age_s = max(1e-9, *(duration_s([window], recordings) for window in windows))
    stacked = np.concatenate([_features(recordings[w.recording], w, pace, age_s) for w in windows])
    episode = np.concatenate([np.full(len(w), w.recording) for w in windows])
    coefficients, factors = [], []
    for channel in range(residual.shape[1]):
        fitted, factor = fit_band(stacked[:, channel], np.abs(residual[:, channel]), episode, level)
        factors.append(factor)
        coefficients.append(tuple(fitted.tolist()))
    return Bands(level, tuple(coefficients), tuple(factors), tuple(pace.tolist()), age_s)


def fit_band(features: Array, size: Array, episode: Array, level: float) -> tuple[Array, float]:
    """Coefficients (F,) and the factor of one channel's band, from features (rows, F) and sizes of residuals (rows,).

    Of `n` episodes, each counting alike, the band holds a fraction of `level * (1 + 1 / 2n)`, at most half-way from `level`
    to all: right for a new episode if residuals differ within episodes as much as between them.
    """
    _, which, rows = np.unique(episode, return_inverse=True, return_counts=True)
    weight = 1.0 / rows[which]
    root = np.sqrt(weight / weight.mean())
    fitted, _ = nnls(features * root[:, None], np.minimum(size, np.quantile(size, 0.995)) * root)
    fitted[0] = max(fitted[0], 0.1 * float(np.median(size)), 1e-12)
    fraction = min(level * (1.0 + 0.5 / len(rows)), 0.5 * (1.0 + level))
    return fitted, _weighted_quantile(size / (features @ fitted), weight, fraction)


def _weighted_quantile(values: Array, weight: Array, fraction: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(int(np.searchsorted(reached, fraction)), len(values) - 1)])


def left_out_residuals(solution: Solution, linear: Linear, residual: Array) -> Array:
    """Residuals (rows, channels) of the fitted windows, those of each episode moved by what leaving it out would do to the fit."""
    problem = solution.problem
    residual = residual.copy()
    count = len(solution.place)
    by_episode: dict[int, list[slice]] = {}
    for window, rows in zip(problem.windows, problem.window_rows, strict=True):
        by_episode.setdefault(window.recording, []).append(rows)
    if len(by_episode) < 2 or not count:
        return residual
    sigma = problem.noise.total
    for parts in by_episode.values():
        jacobian = np.concatenate([linear.jacobian[rows].reshape(-1, count) for rows in parts])
        score = jacobian.T @ np.concatenate([linear.residual[rows].reshape(-1) for rows in parts])
        step = np.linalg.solve(linear.information - jacobian.T @ jacobian, score)
        for rows in parts:
            residual[rows] += (linear.jacobian[rows] @ step) * sigma
    return residual


def coverage(
    bands: Bands, recordings: Sequence[Recording], windows: Sequence[Window], residual: Array
) -> Array:
    """The fraction of readings inside their bands, per channel."""
    inside, begin = [], 0
    for window in windows:
        rows = residual[begin : begin + len(window)]
        inside.append(np.abs(rows) <= bands.half_widths(recordings[window.recording], window))
        begin += len(window)
    return np.asarray(np.concatenate(inside).mean(axis=0))


def _speeds(recording: Recording, window: Window) -> Array:
    rows = slice(window.start, window.stop)
    readings, time_s = recording.readings[rows], recording.time_s[rows]
    if len(readings) < 2:
        return np.zeros_like(readings)
    reach = min(5, len(readings) - 1)
    low = np.clip(np.arange(len(readings)) - reach // 2 - 1, 0, len(readings) - 1 - reach)
    return np.asarray((readings[low + reach] - readings[low]) / (time_s[low + reach] - time_s[low])[:, None])


def _features(recording: Recording, window: Window, pace: Array, age_s: float) -> Array:
    """(rows, channels, features): one, speed over the usual speed, square root of time since the start, up to `age_s`."""
    speeds = np.abs(_speeds(recording, window)) / pace
    time_s = recording.time_s[window.start : window.stop]
    age = np.sqrt(np.clip((time_s - time_s[0]) / age_s, 0.0, 1.0))
    return np.stack([np.ones_like(speeds), speeds, np.broadcast_to(age[:, None], speeds.shape)], axis=2)
