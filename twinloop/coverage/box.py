"""The box around a hole: from points that are far from simulation, shrunk off simulated ones and grown until it meets some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DENSEST = 0.1
"""A box with more simulation than this share of what real data has there is no hole: it is cut smaller."""
STRAY = 0.03
"""Simulated episodes in the box, as a share of what real data has there, that do not stop it from growing."""
_SLICE = 0.05


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points (N, d), what each weighs and its episode, out of `episodes`; every episode weighs one."""

    values: Array
    weight: Array
    owner: Array
    episodes: int

    def of(self, columns: Sequence[int]) -> Cloud:
        """Only these columns."""
        return replace(self, values=self.values[:, list(columns)])

    def inside(self, low: Array, high: Array) -> Array:
        """Which points lie in the box, edges included."""
        return np.asarray(((self.values >= low) & (self.values <= high)).all(axis=1))

    def visitors(self, low: Array, high: Array) -> int:
        """How many episodes have a point in the box."""
        return len(np.unique(self.owner[self.inside(low, high)]))

    def share(self, low: Array, high: Array) -> float:
        """Share of all weight in the box."""
        return float(self.weight[self.inside(low, high)].sum() / self.episodes)


def fit_box(outside: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Low and high edges (d,) of the box around the outside points; infinite where nothing is simulated beyond."""
    low, high = outside.min(axis=0), outside.max(axis=0)
    low, high = _shrink(low, high, real, sim)
    low, high = _grow(low, high, real, sim)
    return _edges(low, high, real, sim)


def _shrink(low: Array, high: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Cut slices off until hardly any simulation is left inside: always the one that loses most of it per real point."""
    while sim.share(low, high) > DENSEST * real.share(low, high) > 0.0:
        points = real.values[real.inside(low, high)]
        if len(points) < 2:
            break
        best: tuple[float, Array, Array] | None = None
        for axis in range(len(low)):
            for quantile, upper in ((_SLICE, False), (1.0 - _SLICE, True)):
                cut_low, cut_high = low.copy(), high.copy()
                edge = np.quantile(points[:, axis], quantile, method="lower" if upper else "higher")
                (cut_high if upper else cut_low)[axis] = edge
                kept = real.share(cut_low, cut_high)
                ratio = sim.share(cut_low, cut_high) / kept if kept else np.inf
                smaller = bool((cut_low > low).any() or (cut_high < high).any())
                if smaller and (best is None or ratio < best[0]):
                    best = ratio, cut_low, cut_high
        if best is None:
            break
        _, low, high = best
    return low, high


def _grow(low: Array, high: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Move each face to the next real point, in turn, as long as no simulated episode is met but a stray one."""
    low, high = low.copy(), high.copy()
    moved = True
    while moved:
        moved = False
        room = STRAY * real.visitors(low, high) * sim.episodes / real.episodes
        allowed = max(sim.visitors(low, high), int(room))
        for axis in range(len(low)):
            for upper in (False, True):
                beyond = _beyond(real, low, high, axis, upper)
                if not len(beyond):
                    continue
                wider_low, wider_high = low.copy(), high.copy()
                if upper:
                    wider_high[axis] = beyond.min()
                else:
                    wider_low[axis] = beyond.max()
                if sim.visitors(wider_low, wider_high) <= allowed:
                    low, high, moved = wider_low, wider_high, True
    return low, high


def _edges(low: Array, high: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Faces half way to the next point beyond them; open where neither real nor simulated points are beyond."""
    made_low, made_high = low.copy(), high.copy()
    for axis in range(len(low)):
        for upper in (False, True):
            beyond = np.concatenate(
                [_beyond(real, low, high, axis, upper), _beyond(sim, low, high, axis, upper)]
            )
            edge = (high if upper else low)[axis]
            if not len(beyond):
                (made_high if upper else made_low)[axis] = np.inf if upper else -np.inf
            elif upper:
                made_high[axis] = 0.5 * (edge + beyond.min())
            else:
                made_low[axis] = 0.5 * (edge + beyond.max())
    return made_low, made_high


def _beyond(cloud: Cloud, low: Array, high: Array, axis: int, upper: bool) -> Array:
    """Values on one axis of the points that lie beyond one face and within the others."""
    open_low, open_high = low.copy(), high.copy()
    open_low[axis], open_high[axis] = -np.inf, np.inf
    values = cloud.values[cloud.inside(open_low, open_high), axis]
    return np.asarray(values[values > high[axis]] if upper else values[values < low[axis]])
