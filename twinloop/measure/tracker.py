"""Errors of a tracker that perceives an object: how late it is, poses it repeats, and how near a hand hides the object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array
from twinloop.measure.trace import find_stretches

CARRY_S, CARRY_M = 0.4, 0.03
"""A shorter carry does not say how late the object is seen."""
DELAYS_S = np.arange(-0.06, 0.6, 0.02)
FEWEST_ROWS = 10
MOVING_M_S = 0.03
FROZEN = 0.5
"""An object that stays put in more than this fraction of the rows in which it is carried is hidden, not lost at times."""
HIDDEN_ROWS = 25


@dataclass(frozen=True, eq=False)
class Track:
    """The perceived `place` (T, 3) of an object and the `tool` (T, 3) that grasps it, in m; `carrying` (T,): it is in the hand."""

    time_s: Array
    place: Array
    tool: Array
    carrying: Array

    @property
    def repeated(self) -> Array:
        """Rows (T,) that repeat the pose before exactly."""
        return np.concatenate([[False], np.all(self.place[1:] == self.place[:-1], axis=1)])

    @property
    def tool_speed(self) -> Array:
        """Speed (T,) of the tool in m/s."""
        return np.asarray(np.linalg.norm(np.gradient(self.tool, self.time_s, axis=0), axis=1))


def measure_tracker_delay(track: Track) -> float | None:
    """How much later (s) than the arm's reading the perceived object moves while it is carried; None without a carry."""
    rows = track.carrying
    if rows.sum() * float(np.median(np.diff(track.time_s))) <= CARRY_S:
        return None
    if np.ptp(track.place[rows], axis=0).max() < CARRY_M:
        return None
    costs = []
    for delay_s in DELAYS_S:
        at = track.time_s[rows] - delay_s
        tool = np.stack([np.interp(at, track.time_s, column) for column in track.tool.T], axis=1)
        away = track.place[rows] - tool
        costs.append(float(np.mean(np.abs(away - np.median(away, axis=0)))))
    return float(DELAYS_S[int(np.argmin(costs))])


def measure_dropouts(track: Track, rows: Array) -> float | None:
    """Fraction of `rows` (T,), in which poses should differ, that repeat the pose before; None for ten rows or fewer."""
    where = rows[1:] & (np.abs(np.diff(track.time_s)) > 0)
    return float(np.mean(track.repeated[1:][where])) if where.sum() > FEWEST_ROWS else None


def measure_frozen(track: Track) -> float:
    """Fraction of carried rows in which the perceived object stays where it is although the tool moves."""
    rows = track.carrying & (track.tool_speed > MOVING_M_S)
    return float(np.mean(track.repeated[rows])) if rows.sum() > 5 else 0.0


def measure_hidden_distance(track: Track) -> float | None:
    """Distance (m) of the tool at which the object is seen again; None where the hand does not hide it."""
    if measure_frozen(track) < FROZEN:
        return None
    away = np.linalg.norm(track.place - track.tool, axis=1)
    stretches = find_stretches(track.repeated)
    ends = [last for first, last in stretches if last - first > HIDDEN_ROWS and last < len(away)]
    return float(np.clip(away[ends[-1]], 0.03, 0.3)) if ends else 0.1
