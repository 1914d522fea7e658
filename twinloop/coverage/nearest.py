"""How far a point is from anything simulated, and how far is too far: k nearest neighbours, calibrated on held-out episodes.

Simulated episodes are cut into folds; each fold is measured against the others, so
the threshold is what an episode that simulation does cover would show.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from twinloop.episode import Array

NEIGHBOURS = 3
FOLDS = 4
FALSE_FRACTION = 0.01
"""Fraction of held-out simulated points beyond the threshold."""


def kth_distance(points: Array, reference: Array, k: int = NEIGHBOURS) -> Array:
    """Distance (N,) to the k-th nearest reference point; NaN where a value is missing."""
    known, there = np.isfinite(points).all(axis=1), np.isfinite(reference).all(axis=1)
    found = np.full(len(points), np.nan)
    if known.any() and there.any():
        k = min(k, int(there.sum()))
        found[known] = cKDTree(reference[there]).query(points[known], k=[k])[0][:, 0]
    return found


def fold_of(episodes: int, rng: np.random.Generator) -> Array:
    """The fold of each episode."""
    return np.asarray(rng.permutation(np.arange(episodes) % min(FOLDS, episodes)))


def held_out_distances(coordinates: Array, owner: Array, fold: Array, k: int = NEIGHBOURS) -> Array:
    """Distance of each simulated point to the simulated episodes of the other folds."""
    found = np.full(len(coordinates), np.nan)
    for number in range(int(fold.max()) + 1):
        out = fold[owner] == number
        found[out] = kth_distance(coordinates[out], coordinates[~out], k)
    return found


def threshold_of(distances: Array, fraction: float = FALSE_FRACTION) -> float:
    """The distance that a held-out point exceeds with probability `fraction` at most (split conformal)."""
    known = np.sort(distances[np.isfinite(distances)])
    if not len(known):
        return np.inf
    rank = int(np.ceil((len(known) + 1) * (1.0 - fraction))) - 1
    return float(known[min(rank, len(known) - 1)])
