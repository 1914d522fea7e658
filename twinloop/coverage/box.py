"""The box around a hole: from the scan's cells, trimmed to where simulation ends and grown until it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.coverage.scan import log_likelihood_ratio
from twinloop.episode import Array

_ROUNDS = 4


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

    def settled(self, rest: Array, slack: Array) -> Cloud:
        """With values that are within `slack` of `rest` put there."""
        return replace(self, values=np.where(np.abs(self.values - rest) <= slack, rest, self.values))

    def inside(self, low: Array, high: Array) -> Array:
        """Which points lie in the box, edges included."""
        return np.asarray(((self.values >= low) & (self.values <= high)).all(axis=1))

    def visitors(self, low: Array, high: Array) -> int:
        """How many episodes have a point in the box."""
        return len(np.unique(self.owner[self.inside(low, high)]))


def fit_box(outside: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Low and high edges (d,) of the box around these points; infinite where nothing lies beyond."""
    low, high = outside.min(axis=0), outside.max(axis=0)
    low, high = _trim(low, high, real, sim)
    low, high = _grow(low, high, real, sim)
    return _edges(low, high, real, sim)


def _trim(low: Array, high: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Move each face inwards, in turn, to where the box is the surest hole."""
    low, high = low.copy(), high.copy()
    for _ in range(_ROUNDS):
        before = np.concatenate([low, high])
        for axis in range(len(low)):
            for upper in (False, True):
                edge = _surest_edge(low, high, axis, upper, real, sim)
                (high if upper else low)[axis] = edge
        if np.array_equal(before, np.concatenate([low, high])):
            break
    return low, high


def _surest_edge(low: Array, high: Array, axis: int, upper: bool, real: Cloud, sim: Cloud) -> float:
    """Where to cut one face: at a real point, for the largest log likelihood ratio of what is left."""
    here, there = real.inside(low, high), sim.inside(low, high)
    mine, theirs = real.values[here, axis], sim.values[there, axis]
    sign = -1.0 if upper else 1.0  # from the far face towards the one that is cut
    order, other = np.argsort(-sign * mine), np.argsort(-sign * theirs)
    reached = sign * mine[order]
    weight = np.cumsum(real.weight[here][order])
    passed = np.concatenate([[0.0], np.cumsum(sim.weight[there][other])])
    met = passed[np.searchsorted(-sign * theirs[other], -reached, side="right")]
    value = log_likelihood_ratio(weight, real.episodes, met, sim.episodes)
    value = np.where(met / sim.episodes < weight / real.episodes, value, -np.inf)
    return float(sign * reached[len(value) - 1 - int(np.argmax(value[::-1]))])


def _grow(low: Array, high: Array, real: Cloud, sim: Cloud) -> tuple[Array, Array]:
    """Move each face to the next real point, in turn, as long as no further simulated episode is met."""
    low, high = low.copy(), high.copy()
    allowed, moved = sim.visitors(low, high), True
    while moved:
        moved = False
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
