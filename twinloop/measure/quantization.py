"""The step in which a reading counts."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.measure.trace import Trace
from twinloop.stats.interval import Interval


def measure_resolution(trace: Trace) -> Interval | None:
    """The step between neighbouring values that lie on a grid, in the trace's unit; None where they look continuous.

    The number of steps between the lowest and the highest value may be miscounted by half a step: that is the interval.
    """
    step = resolution_of(trace.values)
    if step == 0.0:
        return None
    travel = float(np.ptp(trace.values))
    count = max(travel / step, 1.0)
    return Interval(step, travel / (count + 0.5), travel / (count - 0.5), unit=trace.unit)


def resolution_of(values: Array) -> float:
    """The step of readings (T,), 0 where they look continuous."""
    levels = np.unique(values)
    if len(levels) < 4:
        return 0.0
    gaps = np.diff(levels)
    gaps = gaps[gaps > 1e-5 * (levels[-1] - levels[0])]
    # Where hardly a value repeats, a few gaps may look like a grid by chance.
    if len(gaps) < (20 if len(levels) > 0.5 * len(values) else 3):
        return 0.0
    step = float(np.median(gaps[gaps < 1.5 * gaps.min()]))
    on_grid = np.abs(gaps / step - np.rint(gaps / step)) < 0.15
    return step if on_grid.mean() >= 0.9 else 0.0
