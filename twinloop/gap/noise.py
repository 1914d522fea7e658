"""What a sensor adds to a quantity, read off its numbers: noise, its spectrum, Allan deviation, step, still stretches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from twinloop.quality.view import runs

Array = NDArray[Any]

KEPT_SHARE = 0.95
"""Of the third differences; the largest are impacts, not noise."""
_TRIMMED = 0.8711
"""Standard deviation of a normal variable between its 2.5 and 97.5 percentiles, relative to the whole."""

STILL_S = 1.0
STILL_NOISES = 6.0
"""A stretch is still while averages over 0.2 s do not move by more than this many times their noise."""


def noise_of(values: Array) -> float:
    """Standard deviation of what changes from row to row, from third differences, in which motion all but vanishes."""
    if len(values) < 8:
        return float("nan")
    third = np.sort(np.abs(np.diff(values, n=3)))
    kept = third[: max(4, int(KEPT_SHARE * len(third)))]
    return float(np.sqrt(np.mean(kept**2)) / _TRIMMED / np.sqrt(20.0))


def density(values: Array, rate_hz: float, low_hz: float, high_hz: float) -> float:
    """Noise per square root of hertz between two frequencies, of an evenly sampled stretch without its trend."""
    if np.ptp(values) == 0.0:
        return 0.0
    length = min(len(values), 256)
    hertz, power = signal.welch(signal.detrend(values), rate_hz, nperseg=length)
    band = (hertz >= low_hz) & (hertz <= high_hz)
    return float(np.sqrt(power[band].mean())) if band.any() else float("nan")


def allan_deviation(values: Array, rate_hz: float, over_s: float) -> float:
    """Allan deviation of readings averaged over `over_s` (overlapping); NaN where the stretch is shorter than three."""
    width = max(1, round(over_s * rate_hz))
    if len(values) < 3 * width:
        return float("nan")
    total = np.concatenate([[0.0], np.cumsum(values - values.mean())])
    means = (total[width:] - total[:-width]) / width
    steps = means[width:] - means[:-width]
    return float(np.sqrt(0.5 * np.mean(steps**2)))


def still_stretches(time_s: Array, commands: Array, readings: Array) -> list[tuple[int, int]]:
    """Stretches (first, one past the last) of at least `STILL_S` in which no command changes and no reading wanders."""
    period_s = float(np.median(np.diff(time_s)))
    held = np.ones(len(time_s), dtype=bool)
    if commands.shape[1]:
        held[1:] = (np.abs(np.diff(commands, axis=0)) <= 1e-9).all(axis=1)
    width = max(3, round(0.2 / period_s))
    kernel = np.ones(width) / width
    for column in readings.T:
        noise = max(noise_of(column), 1e-9)
        slow = np.convolve(np.pad(column, (width // 2, width - 1 - width // 2), mode="edge"), kernel, "valid")
        around = np.pad(slow, width, mode="edge")
        held &= np.abs(around[2 * width :] - around[: -2 * width]) < STILL_NOISES * noise / np.sqrt(width)
    least = max(8, round(STILL_S / period_s))
    return [(first, last) for first, last in runs(held) if last - first >= least]
