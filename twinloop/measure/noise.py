"""Noise of a reading: white noise under motion, and its spectrum and Allan deviation at rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import signal

from twinloop.episode import Array
from twinloop.measure.trace import Trace, find_stretches
from twinloop.stats.interval import NORMAL, Interval

FEWEST_ROWS = 8
MAD = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""
GAIN = float(np.sqrt(20.0))
"""Third differences of white noise have this many times its standard deviation: 1 + 9 + 9 + 1."""
ERROR = 1.77
"""Standard error of the estimate is this over the root of the rows: 1.17 for a median deviation, times the root of 2.3 because
third differences of neighbouring rows are correlated."""
PIECE_ROWS = 25
QUIETER = 0.25
QUIET_BIAS = 0.86
"""What the quieter quarter of evenly noisy pieces reads, of the noise that is there: 0.95 for 60 rows, 0.84 for 600."""

STILL_S = 1.0
STILL_NOISES = 6.0
"""A stretch is still while averages over 0.2 s do not move by more than this many times their noise."""


def measure_noise(trace: Trace, *, quiet: bool = False) -> Interval | None:
    """Standard deviation of what changes from row to row without direction.

    Third differences all but cancel a smooth motion; their median ignores impacts.

    Args:
        trace: readings, under any motion that is smooth over four rows.
        quiet: count the quieter quarter of pieces of 25 rows alone. A sensor is always noisy, an arm shakes at times.

    Returns:
        The noise in the trace's unit, or None for fewer than 8 rows.
    """
    if len(trace) < FEWEST_ROWS:
        return None
    third = np.abs(np.diff(trace.values, n=3))
    if quiet:
        pieces = np.array_split(third, max(1, len(third) // PIECE_ROWS))
        typical = float(np.quantile([np.median(piece) for piece in pieces], QUIETER)) / QUIET_BIAS
    else:
        typical = float(np.median(third))
    noise = MAD * typical / GAIN
    half = NORMAL * ERROR / np.sqrt(len(third))
    return Interval(noise, noise * max(1.0 - half, 0.0), noise * (1.0 + half), unit=trace.unit)


def noise_of(values: Array, *, quiet: bool = False) -> Array:
    """Noise (n,) of every column of `values` (T, n); NaN for fewer than 8 rows."""
    found = [measure_noise(Trace("", "1", np.zeros(0), column), quiet=quiet) for column in values.T]
    return np.array([np.nan if one is None else one.value for one in found])


def noise_density(trace: Trace, low_hz: float, high_hz: float) -> float:
    """Noise per root hertz between two frequencies of a stretch at rest, its trend removed; NaN for an empty band."""
    if np.ptp(trace.values) == 0.0:
        return 0.0
    length = min(len(trace), 256)
    hertz, power = signal.welch(signal.detrend(trace.values), 1.0 / trace.period_s, nperseg=length)
    band = (hertz >= low_hz) & (hertz <= high_hz)
    return float(np.sqrt(power[band].mean())) if band.any() else float("nan")


def allan_deviation(trace: Trace, over_s: float) -> float:
    """Overlapping Allan deviation of readings averaged over `over_s`; NaN for stretches shorter than three averages."""
    width = max(1, round(over_s / trace.period_s))
    if len(trace) < 3 * width:
        return float("nan")
    total = np.concatenate([[0.0], np.cumsum(trace.values - trace.values.mean())])
    means = (total[width:] - total[:-width]) / width
    steps = means[width:] - means[:-width]
    return float(np.sqrt(0.5 * np.mean(steps**2)))


def find_rests(traces: Sequence[Trace], commands: Array) -> list[tuple[int, int]]:
    """Stretches of at least 1 s at rest.

    Args:
        traces: all readings of a robot, on one time axis.
        commands: what was sent to it, (T, commands).

    Returns:
        (first row, one past the last) wherever no command changes and no reading wanders.
    """
    period_s, held = traces[0].period_s, np.ones(len(traces[0]), dtype=bool)
    held[1:] = (np.abs(np.diff(commands, axis=0)) <= 1e-9).all(axis=1)
    width = max(3, round(0.2 / period_s))
    kernel = np.ones(width) / width
    for trace in traces:
        measured = measure_noise(trace)
        noise = max(measured.value if measured else 0.0, 1e-9)
        padded = np.pad(trace.values, (width // 2, width - 1 - width // 2), mode="edge")
        around = np.pad(np.convolve(padded, kernel, "valid"), width, mode="edge")
        held &= np.abs(around[2 * width :] - around[: -2 * width]) < STILL_NOISES * noise / np.sqrt(width)
    least = max(8, round(STILL_S / period_s))
    return [(first, last) for first, last in find_stretches(held) if last - first >= least]
