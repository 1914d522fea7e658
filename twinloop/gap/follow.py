"""How a joint follows its position command: how late, with how much dead band, and what is left.

The reading is fitted by

    offset + gain * held(t - lag) + slope * d/dt held(t - lag) + bend * d2/dt2 held(t - lag) + sag * load(t - lag)

where `load` is the weight that the servo holds up in the commanded pose, by the twin's masses, as far as the command
itself does not explain it, and `held` is the command behind a dead band: it stays where it is until the command has
turned back by the band's width. The width is searched, and the lag is moved by slope / gain until slope vanishes. A late command moves the lag alone. Dry
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
PLAUSIBLE = (0.2, 5.0)
"""A joint whose motion per commanded motion lies outside does not follow its command."""
WIDTHS = 12
"""Dead bands tried at once; the best one's neighbourhood is tried again, finer."""
WIDEST_SHARE = 0.25
"""The widest dead band that is looked for, as a share of the command's travel."""
MISFIT_SHARE = 0.4
"""What is left, as time at the typical speed, counts by this share in the error of the lag: misfit does not average out."""
TOLD_S = 0.01
"""A lag with a larger error than this is not told by the motion."""
DRIFT_S = 60.0
"""Drift is told as the standard deviation of a random walk after this long, as the twin's parameters are."""


@dataclass(frozen=True)
class Following:
    """One joint's response to its command: seconds late, width of the dead band, gain, RMS of what is left.

    `lag_error_s` is how wrong the lag may be: slow motions do not tell it. `drift` is how far what is left moves
    from the first to the last quarter, as a random walk in `DRIFT_S` would.
    """

    lag_s: float
    lag_error_s: float
    dead_band: float
    gain: float
    residual: float
    drift: float


def follow(time_s: Array, commands: Array, readings: Array, loads: Array) -> list[Following | None]:
    """Fit every joint, all arrays (T, joints); None where it moves too little or does not follow."""
    period_s = float(np.median(np.diff(time_s)))
    grid = np.arange(time_s[0], time_s[-1], period_s)
    made: list[Following | None] = [None] * commands.shape[1]
    starts = [_start(time_s, grid, commands[:, k], readings[:, k]) for k in range(commands.shape[1])]
    joints = [k for k, start in enumerate(starts) if start is not None]
    if not joints or len(grid) < 2 * SMOOTH_ROWS:
        return made
    lags = np.array([starts[k] for k in joints], np.float64)
    seen = np.stack([np.interp(grid, time_s, readings[:, k]) for k in joints], axis=1)
    travel = np.array([float(np.ptp(commands[:, k])) for k in joints])
    widths = travel[:, None] * WIDEST_SHARE * np.linspace(0.0, 1.0, WIDTHS) ** 2
    fits: list[_Fit] = []
    for _ in range(STEPS):
        sent, load = (
            np.stack([np.interp(grid - lags[j], time_s, rows[:, k]) for j, k in enumerate(joints)], axis=1)
            for rows in (commands, loads)
        )
        held = behind_dead_band(sent, widths)
        fits = []
        for place, lag in enumerate(lags):
            inside = (grid - lag >= time_s[0]) & (grid - lag <= time_s[-1])
            fits.append(
                _best(held[:, place], widths[place], seen[:, place], load[:, place], inside, period_s)
            )
        lags = np.array([_moved(lag, fit) for lag, fit in zip(lags, fits, strict=True)])
        spread = np.linspace(-1.0, 1.0, WIDTHS)
        widths = np.stack([np.maximum(fit.width + max(fit.spacing, 1e-9) * spread, 0.0) for fit in fits])
    for k, lag, fit in zip(joints, lags, fits, strict=True):
        if PLAUSIBLE[0] < fit.gain < PLAUSIBLE[1]:
            residual = float(np.sqrt(np.mean(fit.left**2)))
            error_s = float(np.hypot(fit.slope_error / fit.gain, MISFIT_SHARE * residual / fit.speed))
            made[k] = Following(
                float(lag), error_s, fit.width, fit.gain, residual, _drift(fit.left, period_s)
            )
    return made


def behind_dead_band(values: Array, widths: Array) -> Array:
    """`values` (T, joints) behind dead bands (joints, widths): (T, joints, widths), starting in their middle."""
    half = 0.5 * widths
    held = np.broadcast_to(values[0][:, None], widths.shape).copy()
    made = np.empty((len(values), *widths.shape))
    for row, value in enumerate(values[:, :, None]):
        np.maximum(held, value - half, out=held)
        np.minimum(held, value + half, out=held)
        made[row] = held
    return made


@dataclass(frozen=True)
class _Fit:
    width: float
    spacing: float
    gain: float
    slope: float
    slope_error: float
    speed: float
    left: Array


def _start(time_s: Array, grid: Array, command: Array, reading: Array) -> float | None:
    """The lag to begin with, where there is one."""
    found = estimate_lag(time_s, command, reading, LONGEST_S)
    if found is None or found.correlation < LEAST_CORRELATION:
        return None
    speed = np.abs(np.gradient(np.interp(grid, time_s, command)))
    moving = (speed > MOVING_SHARE * np.sqrt(np.mean(speed**2))).sum()
    return found.lag_s if moving >= FEWEST_MOVING else None


def _moved(lag_s: float, fit: _Fit) -> float:
    if not PLAUSIBLE[0] < fit.gain < PLAUSIBLE[1]:
        return lag_s
    return float(np.clip(lag_s - fit.slope / fit.gain, -0.3, LONGEST_S))


def _best(held: Array, widths: Array, seen: Array, load: Array, inside: Array, period_s: float) -> _Fit:
    """The dead band with which the reading is explained best."""
    first, second = (
        savgol_filter(held, SMOOTH_ROWS, 3, deriv=order, delta=period_s, axis=0) for order in (1, 2)
    )
    fits = []
    line = np.stack([np.ones(len(held)), held[:, 0]], axis=1)
    load = load - line @ np.linalg.lstsq(line, load, rcond=None)[0]
    for k in range(len(widths)):
        basis = np.stack([np.ones(len(held)), held[:, k], first[:, k], second[:, k], load], axis=1)[inside]
        weights = np.linalg.lstsq(basis, seen[inside], rcond=None)[0]
        fits.append((basis, weights, seen[inside] - basis @ weights))
    best = int(np.argmin([float(left @ left) for _, _, left in fits]))
    around = widths[max(best - 1, 0) : best + 2]
    basis, weights, left = fits[best]
    return _Fit(
        width=float(widths[best]),
        spacing=float(np.ptp(around)) / 2.0,
        gain=float(weights[1]),
        slope=float(weights[2]),
        slope_error=_standard_error(basis, left, 2),
        speed=max(float(np.sqrt(np.mean(basis[:, 2] ** 2))), 1e-12),
        left=left,
    )


def _standard_error(basis: Array, left: Array, place: int) -> float:
    """Of one weight, with what is left as correlated from row to row as it is."""
    power = float(left @ left)
    follows = float(left[1:] @ left[:-1]) / power if power > 0.0 else 0.0
    follows = min(max(follows, 0.0), 0.999)
    spread = np.linalg.pinv(basis.T @ basis)[place, place]
    return float(
        np.sqrt((1.0 + follows) / (1.0 - follows) * power / max(len(left) - 5, 1) * max(spread, 0.0))
    )


def _drift(left: Array, period_s: float) -> float:
    quarter = len(left) // 4
    apart_s = 3 * quarter * period_s
    moved = float(left[-quarter:].mean() - left[:quarter].mean())
    return abs(moved) / float(np.sqrt(max(apart_s, 1e-9) / DRIFT_S))
