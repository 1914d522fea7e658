"""How long a response runs behind its command: cross-correlation, to a fraction of a sample.

The coarse lag is the highest correlation over whole samples (by FFT, each lag normalised over its own overlap); the
fine one maximises the correlation of the response with the command interpolated at `t - lag`, on the true time stamps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array

EARLIEST_S = -0.2
"""A response that leads its command points to clocks that disagree, so leads are looked for as well."""

FEWEST_ROWS = 16
SEARCH_PERIODS, SEARCH_STEP = 3.0, 0.125


@dataclass(frozen=True)
class Lag:
    """`response(t)` is about `gain * command(t - lag_s)`.

    `offset` is the median distance of response and delayed command, `scatter` the median distance from that.
    """

    lag_s: float
    uncertainty_s: float
    correlation: float
    gain: float
    offset: float
    scatter: float


def estimate_lag(time_s: Array, command: Array, response: Array, longest_s: float) -> Lag | None:
    """The lag between -0.2 s and `longest_s`, or None when there is too little to tell it from."""
    from scipy.optimize import minimize_scalar

    if len(time_s) < FEWEST_ROWS or np.ptp(command) == 0 or np.ptp(response) == 0:
        return None
    period_s = float(np.median(np.diff(time_s)))
    grid = np.arange(time_s[0], time_s[-1], period_s)
    half = len(grid) // 2
    earliest = -min(half, int(np.ceil(-EARLIEST_S / period_s)))
    latest = min(half, int(np.ceil(longest_s / period_s)) + 1)
    coarse, _ = correlation_peak(
        np.interp(grid, time_s, command), np.interp(grid, time_s, response), earliest, latest
    )

    def mismatch(lag_s: float) -> float:
        inside = _overlap(time_s, lag_s)
        return -_pearson(np.interp(time_s[inside] - lag_s, time_s, command), response[inside])

    # The peak of a slow motion is flat and an encoder makes it bumpy, so its surroundings are searched before it is climbed.
    nearby = (coarse + np.arange(-SEARCH_PERIODS, SEARCH_PERIODS + 0.01, SEARCH_STEP)) * period_s
    around = float(nearby[np.argmin([mismatch(lag_s) for lag_s in nearby])])
    found = minimize_scalar(
        mismatch,
        bounds=(around - SEARCH_STEP * period_s, around + SEARCH_STEP * period_s),
        method="bounded",
        options={"xatol": period_s * 1e-3},
    )
    return _describe(time_s, command, response, float(found.x))


def correlation_peak(command: Array, response: Array, earliest: int, latest: int) -> tuple[int, float]:
    """The lag in whole samples at which two equally spaced signals are most alike, and their correlation there.

    Among equal peaks, as periodic motions have them, the earliest that is not negative wins.
    """
    lags = np.arange(earliest, latest + 1)
    scores = _correlations(command, response, lags)
    best = int(np.argmax(scores))
    for place in range(max(0, -earliest), best):
        higher = (
            scores[place] >= 0.98 * scores[best]
            and scores[place] == scores[max(0, place - 2) : place + 3].max()
        )
        if higher and scores[place:best].min() < 0.9 * scores[best]:
            best = place
            break
    return int(lags[best]), float(scores[best])


def _correlations(command: Array, response: Array, lags: Array) -> Array:
    """Pearson's correlation of `response[i]` with `command[i - lag]` over the rows both have, for every lag."""
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


def _overlap(time_s: Array, lag_s: float) -> Array:
    shifted = time_s - lag_s
    return np.asarray((shifted >= time_s[0]) & (shifted <= time_s[-1]))


def _pearson(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


def _describe(time_s: Array, command: Array, response: Array, lag_s: float) -> Lag:
    inside = _overlap(time_s, lag_s)
    sent, answered = np.interp(time_s[inside] - lag_s, time_s, command), response[inside]
    gain = float(np.cov(sent, answered)[0, 1] / max(np.var(sent, ddof=1), 1e-300))
    error = answered - answered.mean() - gain * (sent - sent.mean())
    spread = float(error @ error)
    follows = float(error[1:] @ error[:-1]) / spread if spread > 0 else 0.0
    inflation = (1 + min(max(follows, 0.0), 0.999)) / (1 - min(max(follows, 0.0), 0.999))
    speed = np.gradient(sent, time_s[inside])
    information = gain**2 * float(speed @ speed)
    uncertainty = (
        np.sqrt(inflation * spread / max(len(error) - 3, 1) / information) if information > 0 else np.inf
    )
    beside = answered - sent
    offset = float(np.median(beside))
    scatter = float(np.median(np.abs(beside - offset)))
    return Lag(lag_s, float(uncertainty), _pearson(sent, answered), gain, offset, scatter)
