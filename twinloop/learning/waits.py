"""Waits of whoever demonstrates: found in the commands, so that a policy does not learn to wait.

A person rests, thinks, looks. What they see does not change meanwhile, so nothing tells a policy when such a wait is over: having
learned to stand still where somebody did, it stands still for ever. A hand that has just been told to close or open is another
thing: it needs its time, and has it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[Any]

SHORTEST_S = 0.1
"""Commands that stand still for this long are a wait; all but its first row is."""

STILL_SHARE = 1e-4
"""Of its range in the whole data, no channel moves more than this from row to row while somebody waits."""

SWITCHED_SHARE = 0.2
"""A channel that moves by this share of its range within `SHORTEST_S` is a hand that closes or opens ..."""

TAKES_EFFECT_S = 0.6
"""... and is given this long to do so."""

MOST_WAITING = 0.5
"""Where somebody waits for more than this share of the time, waiting is what they show."""


def waiting_rows(action: Array, starts: Array, rate_hz: float) -> Array:
    """Which rows of `action` (rows, channels) are a wait, (rows,); episode i is `starts[i]` to `starts[i + 1]`."""
    shortest, effect = max(1, round(SHORTEST_S * rate_hz)), round(TAKES_EFFECT_S * rate_hz)
    waits = np.zeros(len(action), dtype=bool)
    if not len(action):
        return waits
    extent = np.ptp(action, axis=0)
    extent[extent == 0.0] = 1.0
    for first, last in pairwise(starts.tolist()):
        if last - first > shortest:
            command = action[first:last] / extent
            still = np.append(False, (np.abs(np.diff(command, axis=0)) <= STILL_SHARE).all(axis=1))
            travel = np.ptp(sliding_window_view(command, shortest + 1, axis=0), axis=-1)
            switched = np.append(np.zeros(shortest, dtype=bool), (travel > SWITCHED_SHARE).any(axis=1))
            waits[first:last] = _long(still, shortest) & ~_lately(switched, effect)
    return waits if waits.mean() <= MOST_WAITING else np.zeros_like(waits)


def _long(still: Array, shortest: int) -> Array:
    """Only those stretches that have so many rows."""
    edges = np.flatnonzero(np.diff(still, prepend=False, append=False))
    found = np.zeros_like(still)
    for begin, end in edges.reshape(-1, 2):
        found[begin:end] = end - begin >= shortest
    return found


def _lately(events: Array, rows: int) -> Array:
    """Whether an event was at most so many rows ago."""
    at = np.arange(len(events))
    newest = np.maximum.accumulate(np.where(events, at, -rows - 1))
    return np.asarray(at - newest <= rows)
