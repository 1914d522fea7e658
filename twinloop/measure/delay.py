"""Delay and backlash of a joint that follows its position command, from command and reading alone.

The reading is fitted by

    offset + gain * held(t - delay) + slope * d/dt held(t - delay) + bend * d2/dt2 held(t - delay) + sag * load(t - delay)

where `held` is the command behind a dead band: it stays where it is until the command has turned back by the band's width.
The fit begins at the highest correlation; then the width is searched, and the delay is moved by slope / gain until slope
vanishes. Without the dead band, half of its width would pass for delay. `load` is the weight that the servo holds up, as
far as the command itself does not explain it.

The delay is that of the response: transport plus what the servo takes to follow (damping over stiffness); with recorded
efforts `twinloop.measure.servo` separates the two. Dry friction under a servo's stiffness and backlash are both dead bands at
any speed, and readings alone do not separate them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import savgol_filter

from twinloop.episode import Array
from twinloop.imperfect.backlash import Backlash, drive
from twinloop.measure.trace import Trace
from twinloop.stats.interval import NORMAL, Interval, normal_interval

EARLIEST_S, LATEST_S = -0.2, 1.0
"""A response that leads its command points to clocks that disagree, so leads are looked for as well."""
FEWEST_ROWS = 18
MOVING_FRACTION = 0.1
"""A joint moves where it is faster than this fraction of its own root mean square speed."""
FEWEST_MOVING = 40
ROUNDS = 4
LEAST_CORRELATION = 0.8
SMOOTH_ROWS = 9
PLAUSIBLE_GAIN = (0.2, 5.0)
"""A joint whose motion per commanded motion lies outside does not follow its command."""
WIDTHS = 12
"""Dead bands tried at once; the best one's neighbourhood is tried again, finer."""
WIDEST_FRACTION = 0.25
"""The widest dead band that is looked for, as a fraction of the command's travel."""
MISFIT = 0.4
"""What is left, as time at the typical speed, counts by this fraction in the error of the delay: misfit does not average out."""
KNOWN_S = 0.01
"""A motion does not identify a delay with a larger standard error than this."""
DRIFT_S = 60.0
"""Drift is the standard deviation of a random walk after this long, as the twin's parameters are."""


@dataclass(frozen=True)
class Following:
    """How one joint follows its command.

    `delay` in s; `dead_band`, `offset` (median distance from the delayed command), `scatter` (median distance from that),
    `residual` (RMS of what the fit leaves) and `drift` (of what is left, as a random walk would in 60 s) in the joint's unit;
    `gain` is motion per commanded motion, `correlation` of reading and delayed command.
    """

    delay: Interval
    dead_band: Interval
    gain: float
    offset: float
    scatter: float
    residual: float
    drift: float
    correlation: float

    @property
    def follows(self) -> bool:
        """Whether the joint moves about as far as it is commanded to."""
        return PLAUSIBLE_GAIN[0] < self.gain < PLAUSIBLE_GAIN[1]

    @property
    def delay_known(self) -> bool:
        """Whether the motion identifies the delay: a slow one does not."""
        return self.delay.standard_deviation < KNOWN_S


def measure_following(
    trace: Trace, latest_s: float = LATEST_S, fewest_moving: int = FEWEST_MOVING
) -> Following | None:
    """Delay, dead band and gain of a joint that follows its position command.

    Args:
        trace: with `command`, and `load` where a model is at hand.
        latest_s: the longest delay that is looked for.
        fewest_moving: rows in which the command has to move.

    Returns:
        What was measured; None where the joint moves too little, does not follow, or later than the recording lasts.
    """
    if trace.command is None or len(trace) < FEWEST_ROWS:
        return None
    grid = np.arange(trace.time_s[0], trace.time_s[-1], trace.period_s)
    start = _start(trace, grid, latest_s, fewest_moving)
    if start is None:
        return None
    delay_s, fit = start, None
    widths = float(np.ptp(trace.command)) * WIDEST_FRACTION * np.linspace(0.0, 1.0, WIDTHS) ** 2
    for _ in range(ROUNDS):
        if grid[-1] - grid[0] - abs(delay_s) < FEWEST_ROWS * trace.period_s:
            return None  # as late as the recording is long: too few rows have a command before them
        fit = _fit(trace, grid, delay_s, widths)
        if fit.gain == 0.0:
            return None
        delay_s = float(np.clip(delay_s - fit.slope / fit.gain, EARLIEST_S - 0.1, latest_s))
        widths = np.maximum(fit.width + max(fit.spacing, 1e-9) * np.linspace(-1.0, 1.0, WIDTHS), 0.0)
    assert fit is not None
    return _describe(trace, delay_s, fit)


def correlation_peak(command: Array, response: Array, earliest: int, latest: int) -> tuple[int, float]:
    """The lag in whole samples at which two equally spaced signals are most alike, and their correlation there.

    Among equal peaks, as periodic motions have them, the earliest that is not negative wins.
    """
    lags = np.arange(earliest, latest + 1)
    scores = _correlations(command, response, lags)
    best = int(np.argmax(scores))
    for place in range(max(0, -earliest), best):
        nearby = scores[max(0, place - 2) : place + 3]
        as_high = scores[place] >= 0.98 * scores[best] and scores[place] == nearby.max()
        if as_high and scores[place:best].min() < 0.9 * scores[best]:
            return int(lags[place]), float(scores[place])
    return int(lags[best]), float(scores[best])


def _start(trace: Trace, grid: Array, latest_s: float, fewest_moving: int) -> float | None:
    """The delay (s) of the highest correlation; None where nothing follows."""
    assert trace.command is not None
    if len(grid) < FEWEST_ROWS or np.ptp(trace.command) == 0.0 or np.ptp(trace.values) == 0.0:
        return None
    command, reading = (np.interp(grid, trace.time_s, rows) for rows in (trace.command, trace.values))
    speed = np.abs(np.gradient(command))
    if (speed > MOVING_FRACTION * np.sqrt(np.mean(speed**2))).sum() < fewest_moving:
        return None
    half = len(grid) // 2
    earliest = -min(half, int(np.ceil(-EARLIEST_S / trace.period_s)))
    latest = min(half, int(np.ceil(latest_s / trace.period_s)) + 1)
    lag, correlation = correlation_peak(command, reading, earliest, latest)
    return lag * trace.period_s if correlation >= LEAST_CORRELATION else None


@dataclass(frozen=True)
class _Fit:
    width: float
    width_error: float
    spacing: float
    gain: float
    slope: float
    slope_error: float
    speed: float
    left: Array


def _fit(trace: Trace, grid: Array, delay_s: float, widths: Array) -> _Fit:
    """The dead band among `widths` with which the reading is explained best, at this delay."""
    assert trace.command is not None
    period_s = trace.period_s
    inside = (grid - delay_s >= trace.time_s[0]) & (grid - delay_s <= trace.time_s[-1])
    sent = np.interp(grid - delay_s, trace.time_s, trace.command)
    reading = np.interp(grid, trace.time_s, trace.values)[inside]
    held = drive(Backlash(widths), np.repeat(sent[:, None], len(widths), axis=1))
    rates, bends = (
        savgol_filter(held, SMOOTH_ROWS, 3, deriv=order, delta=period_s, axis=0) for order in (1, 2)
    )
    load = np.zeros(len(grid)) if trace.load is None else np.interp(grid - delay_s, trace.time_s, trace.load)
    line = np.stack([np.ones(len(grid)), sent], axis=1)
    load = load - line @ np.linalg.lstsq(line, load, rcond=None)[0]
    constant, sag = (np.broadcast_to(column[:, None], held.shape) for column in (np.ones(len(grid)), load))
    basis = np.stack([constant, held, rates, bends, sag], axis=2)[inside].swapaxes(0, 1)
    scale = np.maximum(np.sqrt(np.mean(basis**2, axis=1)), 1e-12)
    basis = basis / scale[:, None]
    spread = np.linalg.pinv(basis.swapaxes(1, 2) @ basis, rcond=1e-12, hermitian=True)
    weights = (spread @ (basis.swapaxes(1, 2) @ reading)[:, :, None])[:, :, 0]
    left = reading - (basis @ weights[:, :, None])[:, :, 0]
    best = int(np.argmin(np.sum(left**2, axis=1)))
    deviation = _correlated_deviation(left[best])
    gain, slope = float(weights[best, 1] / scale[best, 1]), float(weights[best, 2] / scale[best, 2])
    turned = gain * (held[inside, -1] - held[inside, 0]) / max(widths[-1] - widths[0], 1e-12)
    turned = turned - basis[best] @ (spread[best] @ (basis[best].T @ turned))
    return _Fit(
        width=float(widths[best]),
        width_error=deviation / max(float(np.linalg.norm(turned)), 1e-9),
        spacing=float(np.ptp(widths[max(best - 1, 0) : best + 2])) / 2.0,
        gain=gain,
        slope=slope,
        slope_error=deviation * float(np.sqrt(max(spread[best, 2, 2], 0.0))) / float(scale[best, 2]),
        speed=float(scale[best, 2]),
        left=left[best],
    )  # fmt: skip


def _correlated_deviation(left: Array) -> float:
    """Standard deviation of what is left, raised because neighbouring rows are correlated."""
    power = float(left @ left)
    follows = float(left[1:] @ left[:-1]) / power if power > 0.0 else 0.0
    follows = min(max(follows, 0.0), 0.999)
    return float(np.sqrt((1.0 + follows) / (1.0 - follows) * power / max(len(left) - 5, 1)))


def _describe(trace: Trace, delay_s: float, fit: _Fit) -> Following:
    assert trace.command is not None
    shifted = trace.time_s - delay_s
    inside = (shifted >= trace.time_s[0]) & (shifted <= trace.time_s[-1])
    sent, reading = np.interp(shifted[inside], trace.time_s, trace.command), trace.values[inside]
    away = reading - sent
    offset = float(np.median(away))
    residual = float(np.sqrt(np.mean(fit.left**2)))
    error_s = float(np.hypot(fit.slope_error / fit.gain, MISFIT * residual / max(fit.speed, 1e-12)))
    half = NORMAL * fit.width_error
    return Following(
        delay=normal_interval(delay_s, error_s, "s"),
        dead_band=Interval(fit.width, max(fit.width - half, 0.0), fit.width + half, unit=trace.unit),
        gain=fit.gain,
        offset=offset,
        scatter=float(np.median(np.abs(away - offset))),
        residual=residual,
        drift=_drift(fit.left, trace.period_s),
        correlation=float(np.corrcoef(sent, reading)[0, 1]),
    )


def _drift(left: Array, period_s: float) -> float:
    """How far what is left moves from the first to the last quarter, as a random walk in `DRIFT_S` would."""
    quarter = len(left) // 4
    apart_s = 3 * quarter * period_s
    moved = float(left[-quarter:].mean() - left[:quarter].mean())
    return abs(moved) / float(np.sqrt(max(apart_s, 1e-9) / DRIFT_S))


def _correlations(command: Array, response: Array, lags: Array) -> Array:
    """Pearson's correlation of `response[i]` with `command[i - lag]` over the rows both have, for every lag, by FFT."""
    count = len(command)
    command, response = command - command.mean(), response - response.mean()
    size = 1 << (2 * count - 1).bit_length()
    products = np.fft.irfft(np.fft.rfft(response, size) * np.conj(np.fft.rfft(command, size)), size)[lags]
    overlap = count - np.abs(lags)

    def sums(values: Array, first: Array, last: Array) -> Array:
        total = np.concatenate([[0.0], np.cumsum(values)])
        return np.asarray(total[last] - total[first])

    r_first, r_last = np.maximum(lags, 0), count + np.minimum(lags, 0)
    c_first, c_last = r_first - lags, r_last - lags
    r_mean = sums(response, r_first, r_last) / overlap
    c_mean = sums(command, c_first, c_last) / overlap
    r_var = sums(response**2, r_first, r_last) / overlap - r_mean**2
    c_var = sums(command**2, c_first, c_last) / overlap - c_mean**2
    scale = np.sqrt(np.maximum(r_var, 0) * np.maximum(c_var, 0))
    floor = 1e-12 * max(float(response.std() * command.std()), 1e-300)
    return np.asarray((products / overlap - r_mean * c_mean) / np.maximum(scale, floor))
