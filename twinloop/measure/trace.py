"""`Trace`: one recorded number over time, with the command it answers where there is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array

SMOOTHING_ROWS = 4
"""Rows on either side from which a slope is read off."""
AGREE = 2.0
"""Standard deviations within which slopes from more and from fewer rows agree."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One recorded number over time: readings `values` (T,) in `unit` at `time_s` (T,) seconds, which increases.

    What else was recorded of the same joint, all (T,): `command` in `unit`, `velocity` in `unit` per second, `effort` in N·m
    or N. `load` (T,) is the effort that gravity asks of it in the commanded pose, where a model says so.
    """

    name: str
    unit: str
    time_s: Array
    values: Array
    command: Array | None = None
    velocity: Array | None = None
    effort: Array | None = None
    load: Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def speed(self) -> Array:
        """Recorded velocity (T,), or the slope of the readings."""
        return slopes(self.time_s, self.values) if self.velocity is None else self.velocity

    @property
    def period_s(self) -> float:
        """The median time between two rows."""
        return float(np.median(np.diff(self.time_s)))


def split_columns(time_s: Array, rows: Array) -> list[Trace]:
    """One trace for each column of `rows` (T, n)."""
    return [Trace(str(place), "1", time_s, column) for place, column in enumerate(rows.T)]


def find_stretches(mask: Array) -> list[tuple[int, int]]:
    """Stretches of true rows of `mask` (T,), as (first, one past the last)."""
    edges = np.diff(np.concatenate([[False], np.asarray(mask, bool), [False]]).astype(np.int8))
    return [(int(first), int(stop)) for first, stop in np.flatnonzero(edges).reshape(-1, 2)]


def slopes(time_s: Array, values: Array, reach: int = SMOOTHING_ROWS) -> Array:
    """The slope of `values` (T,) at every row: of the parabola through the rows around it, least squares."""
    return _fit_slopes(time_s, values, reach)[0]


def adaptive_slopes(time_s: Array, values: Array, noise: float) -> tuple[Array, Array]:
    """Slopes (T,) of `values` (T,) from as many rows as agree, few where motion changes abruptly, and how wrong each may be.

    Wider fits are taken while their confidence interval meets those of all narrower ones (intersection of confidence
    intervals), `noise` being the standard deviation of the values. The error is that of noise, or the distance to the first fit
    that no longer agreed.
    """
    found, gain = _fit_slopes(time_s, values, 1)
    error = noise * gain
    low, high = found - AGREE * error, found + AGREE * error
    agreeing = np.ones(len(values), dtype=bool)
    for reach in range(2, SMOOTHING_ROWS + 1):
        wider, gain = _fit_slopes(time_s, values, reach)
        low, high = (
            np.maximum(low, wider - AGREE * noise * gain),
            np.minimum(high, wider + AGREE * noise * gain),
        )
        ended = agreeing & (low > high)
        agreeing &= ~ended
        error = np.where(ended, np.maximum(error, np.abs(wider - found)), error)
        found, error = np.where(agreeing, wider, found), np.where(agreeing, noise * gain, error)
    return found, error


def _fit_slopes(time_s: Array, values: Array, reach: int) -> tuple[Array, Array]:
    """Slopes (T,), and their standard deviation if that of the values is one."""
    count = len(values)
    if count < 3:
        flat = np.zeros(count) if count < 2 else np.full(count, np.diff(values)[0] / np.diff(time_s)[0])
        return flat, np.full(count, np.inf)
    reach = min(reach, (count - 1) // 2)
    rows = np.clip(np.arange(count), reach, count - 1 - reach)[:, None] + np.arange(-reach, reach + 1)
    shifted = time_s[rows] - time_s[:, None]
    scale = np.maximum(np.abs(shifted).max(axis=1, keepdims=True), 1e-12)
    basis = np.stack([np.ones_like(shifted), shifted / scale, (shifted / scale) ** 2], axis=1)
    normal = np.linalg.pinv(basis @ basis.swapaxes(1, 2), hermitian=True)
    fitted = normal @ (basis @ values[rows][:, :, None])
    gain = np.sqrt(np.maximum(normal[:, 1, 1], 0.0)) / scale[:, 0]
    return np.asarray(fitted[:, 1, 0] / scale[:, 0]), np.asarray(gain)
