"""Idle frames in demonstrations, found in the commands, so that a policy does not learn to stand still.

A demonstrator who rests or thinks sees a scene that does not change, so nothing in the observation marks the end of the pause: a
policy that imitates it stands still for ever. A gripper that has just been commanded to close or open is not idle: it is given
time to finish.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from twinloop.episode import Array

MIN_IDLE_S = 0.1
"""Commands that stand still for this long are idle, except for the first row."""

STILL_FRACTION = 1e-4
"""While idle, no channel moves between rows by more than this fraction of its range in the whole dataset."""

SWITCH_FRACTION = 0.2
"""A channel that moves by this fraction of its range within `MIN_IDLE_S` is a gripper that closes or opens ..."""

SWITCH_SETTLING_S = 0.6
"""... and has this long to finish."""

MAX_IDLE_FRACTION = 0.5
"""Where more than this fraction of the frames is idle, standing still is part of the task: none is dropped."""


def find_idle_frames(action: Array, starts: Array, rate_hz: float) -> Array:
    """Find the frames in which the demonstrator pauses.

    Args:
        action: Commands, (rows, channels).
        starts: First row of each episode, and the number of rows: episode i is `starts[i]` to `starts[i + 1]`.
        rate_hz: Control rate.

    Returns:
        Which rows are idle, (rows,) bool.
    """
    shortest, settling = max(1, round(MIN_IDLE_S * rate_hz)), round(SWITCH_SETTLING_S * rate_hz)
    idle = np.zeros(len(action), dtype=bool)
    if not len(action):
        return idle
    extent = np.ptp(action, axis=0)
    extent[extent == 0.0] = 1.0
    for first, last in pairwise(starts.tolist()):
        if last - first > shortest:
            command = action[first:last] / extent
            still = np.append(False, (np.abs(np.diff(command, axis=0)) <= STILL_FRACTION).all(axis=1))
            travel = np.ptp(sliding_window_view(command, shortest + 1, axis=0), axis=-1)
            switched = np.append(np.zeros(shortest, dtype=bool), (travel > SWITCH_FRACTION).any(axis=1))
            idle[first:last] = _keep_long_runs(still, shortest) & ~_extend(switched, settling)
    return idle if idle.mean() <= MAX_IDLE_FRACTION else np.zeros_like(idle)


def _keep_long_runs(still: Array, shortest: int) -> Array:
    """Keep runs of at least `shortest` rows."""
    edges = np.flatnonzero(np.diff(still, prepend=False, append=False))
    kept = np.zeros_like(still)
    for begin, end in edges.reshape(-1, 2):
        kept[begin:end] = end - begin >= shortest
    return kept


def _extend(events: Array, rows: int) -> Array:
    """Mark the rows at most `rows` after an event."""
    at = np.arange(len(events))
    newest = np.maximum.accumulate(np.where(events, at, -rows - 1))
    return np.asarray(at - newest <= rows)
