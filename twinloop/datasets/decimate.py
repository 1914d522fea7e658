"""Fewer points that look the same: the least and greatest value of each stretch of time, so that no spike is lost."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array


def decimate(time_s: Array, values: Array, points: int) -> tuple[Array, Array]:
    """Reduce rows to at most `points`, keeping the extremes of every stretch.

    Args:
        time_s: Time of each row, s, shape (rows,).
        values: One column for each element, shape (rows, elements).
        points: Most points to return, at least 4.

    Returns:
        Times, shape (at most points,), and values, shape (the same, elements): all rows where they are few enough, else two
        points for each of `points / 2` stretches of equally many rows, the least and the greatest value in the order in which
        they occur in the element.
    """
    rows = len(time_s)
    if rows <= points:
        return time_s, values
    stretches = max(2, points // 2)
    edges = np.linspace(0, rows, stretches + 1).astype(np.int64)
    starts = edges[:-1]
    low, high = np.minimum.reduceat(values, starts, axis=0), np.maximum.reduceat(values, starts, axis=0)
    firsts = values[starts]
    rising = np.abs(firsts - low) <= np.abs(firsts - high)  # the extreme nearer to the first value came first
    pairs = np.empty((2 * stretches, values.shape[1]), values.dtype)
    pairs[0::2], pairs[1::2] = np.where(rising, low, high), np.where(rising, high, low)
    times = np.empty(2 * stretches)
    times[0::2], times[1::2] = time_s[starts], time_s[starts + np.maximum(1, np.diff(edges)) // 2]
    return times, pairs
