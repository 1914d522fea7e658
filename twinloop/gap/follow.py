"""How a joint follows its position command: how late, with how much dead band, and what is left.

The reading is fitted, least squares over the rows in which the command moves, by

    offset + gain * command(t - lag) + slope * speed(t - lag) - half_band * sign(speed(t - lag)) + bend * acceleration(t - lag)

and the lag is moved by slope / gain until slope vanishes. A late command moves the lag alone. Dry friction and play in the
gears hold the joint back by the same amount whatever the speed: the dead band, in the joint's unit. From readings alone
those two cannot be told apart; friction as a torque needs a recorded effort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.identify.recording import slopes
from twinloop.quality.lag import estimate_lag

Array = NDArray[Any]

LONGEST_S = 1.0
MOVING_SHARE = 0.1
"""A command moves where it is faster than this share of its own root mean square speed."""
FEWEST_MOVING = 40
STEPS = 4
LEAST_CORRELATION = 0.8
DRIFT_S = 60.0
"""Drift is told as the standard deviation of a random walk after this long, as the twin's parameters are."""


@dataclass(frozen=True)
class Following:
    """One joint's response to its command: seconds late, full width of the dead band, gain, RMS of what is left.

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
    speed = slopes(time_s, command)
    bend = slopes(time_s, speed)
    typical = float(np.sqrt(np.mean(speed**2)))
    lag_s = found.lag_s
    fitted: Array | None = None
    for _ in range(STEPS):
        at = time_s - lag_s
        inside = (at >= time_s[0]) & (at <= time_s[-1])
        sent, fast, curved = (np.interp(at, time_s, rows) for rows in (command, speed, bend))
        moving = inside & (np.abs(fast) > MOVING_SHARE * typical)
        if moving.sum() < FEWEST_MOVING:
            return None
        basis = np.stack([np.ones(len(at)), sent, fast, np.sign(fast), curved], axis=1)
        fitted = np.linalg.lstsq(basis[moving], reading[moving], rcond=None)[0]
        if not 0.2 < fitted[1] < 5.0:
            return None
        step = float(fitted[2] / fitted[1])
        lag_s = float(np.clip(lag_s - step, -0.3, LONGEST_S))
        if abs(step) < 1e-5:
            break
    assert fitted is not None
    left = reading[moving] - basis[moving] @ fitted
    return Following(
        lag_s=lag_s,
        dead_band=float(-2.0 * fitted[3]),
        gain=float(fitted[1]),
        residual=float(np.sqrt(np.mean(left**2))),
        drift=_drift(time_s[moving], left),
    )


def _drift(time_s: Array, left: Array) -> float:
    quarter = len(left) // 4
    apart_s = float(time_s[-quarter:].mean() - time_s[:quarter].mean())
    moved = float(left[-quarter:].mean() - left[:quarter].mean())
    return abs(moved) / float(np.sqrt(max(apart_s, 1e-9) / DRIFT_S))
