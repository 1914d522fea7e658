"""How a joint follows its position command: how late, with how much dead band, and what is left.

The reading is fitted by

    offset + gain * held(t - lag) + slope * d/dt held(t - lag) + bend * d2/dt2 held(t - lag)

where `held` is the command behind a dead band: it stays where it is until the command has turned back by the band's width.
The width is searched, and the lag is moved by slope / gain until slope vanishes. A late command moves the lag alone. Dry
friction under a servo's stiffness and play in the gears are such dead bands, whatever the speed; from readings alone those
two cannot be told apart, and friction as a torque needs a recorded effort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter

from twinloop.quality.lag import estimate_lag

Array = NDArray[Any]

LONGEST_S = 1.0
MOVING_SHARE = 0.1
"""Something moves where it is faster than this share of its own root mean square speed."""
FEWEST_MOVING = 40
STEPS = 4
LEAST_CORRELATION = 0.8
SMOOTH_ROWS = 9
WIDTHS = 12
"""Dead bands tried at once; the best one's neighbourhood is tried again, finer."""
WIDEST_SHARE = 0.25
"""The widest dead band that is looked for, as a share of the command's travel."""
DRIFT_S = 60.0
"""Drift is told as the standard deviation of a random walk after this long, as the twin's parameters are."""


@dataclass(frozen=True)
class Following:
    """One joint's response to its command: seconds late, width of the dead band, gain, RMS of what is left.

    `drift` is how far what is left moves from the first to the last quarter, as a random walk in `DRIFT_S` would.
    """

    lag_s: float
    dead_band: float
    gain: float
    residual: float
    drift: float


def follow(time_s: Array, command: Array, reading: Array) -> Following | None:
    """Fit one joint; None where the command moves too little or the joint does not follow it."""
    found = estimate_lag(time_s, command, reading, LONGEST_S)
    if found is None or found.correlation < LEAST_CORRELATION:
        return None
    period_s = float(np.median(np.diff(time_s)))
    grid = np.arange(time_s[0], time_s[-1], period_s)
    seen = np.interp(grid, time_s, reading)
    speed = np.abs(np.gradient(np.interp(grid, time_s, command), period_s))
    if (
        len(grid) < 2 * SMOOTH_ROWS
        or (speed > MOVING_SHARE * np.sqrt(np.mean(speed**2))).sum() < FEWEST_MOVING
    ):
        return None
    lag_s = found.lag_s
    widths = float(np.ptp(command)) * WIDEST_SHARE * np.linspace(0.0, 1.0, WIDTHS) ** 2
    fit: _Fit | None = None
    for _ in range(STEPS):
        inside = (grid - lag_s >= time_s[0]) & (grid - lag_s <= time_s[-1])
        sent = np.interp(grid - lag_s, time_s, command)
        fit = _best(sent, widths, seen, inside, period_s)
        if not 0.2 < fit.gain < 5.0:
            return None
        step = fit.slope / fit.gain
        lag_s = float(np.clip(lag_s - step, -0.3, LONGEST_S))
        reach = max(fit.spacing, 1e-9)
        widths = np.maximum(fit.width + reach * np.linspace(-1.0, 1.0, WIDTHS), 0.0)
    assert fit is not None
    return Following(
        lag_s=lag_s,
        dead_band=fit.width,
        gain=fit.gain,
        residual=float(np.sqrt(np.mean(fit.left**2))),
        drift=_drift(grid[inside], fit.left),
    )


def behind_dead_band(values: Array, widths: Array) -> Array:
    """`values` (T,) behind dead bands of several widths: (T, widths), starting in their middle."""
    held = np.full(len(widths), values[0])
    made = np.empty((len(values), len(widths)))
    half = 0.5 * widths
    for row, value in enumerate(values):
        held = np.minimum(np.maximum(held, value - half), value + half)
        made[row] = held
    return made


@dataclass(frozen=True)
class _Fit:
    width: float
    spacing: float
    gain: float
    slope: float
    left: Array


def _best(sent: Array, widths: Array, seen: Array, inside: Array, period_s: float) -> _Fit:
    """The dead band with which the reading is explained best."""
    held = behind_dead_band(sent, widths)
    smooth = {"window_length": SMOOTH_ROWS, "polyorder": 3, "delta": period_s, "axis": 0}
    first, second = (savgol_filter(held, deriv=order, **smooth) for order in (1, 2))
    fits = []
    for k in range(len(widths)):
        basis = np.stack([np.ones(len(sent)), held[:, k], first[:, k], second[:, k]], axis=1)[inside]
        weights = np.linalg.lstsq(basis, seen[inside], rcond=None)[0]
        fits.append((weights, seen[inside] - basis @ weights))
    best = int(np.argmin([float(left @ left) for _, left in fits]))
    around = widths[max(best - 1, 0) : best + 2]
    weights, left = fits[best]
    return _Fit(float(widths[best]), float(np.ptp(around)) / 2.0, float(weights[1]), float(weights[2]), left)


def _drift(time_s: Array, left: Array) -> float:
    quarter = len(left) // 4
    apart_s = float(time_s[-quarter:].mean() - time_s[:quarter].mean())
    moved = float(left[-quarter:].mean() - left[:quarter].mean())
    return abs(moved) / float(np.sqrt(max(apart_s, 1e-9) / DRIFT_S))
