"""Moments as vectors: signals and images, each reduced to the directions in which they vary, and how far they lie apart.

The map lays both out together, with the same weight. Distances to simulation are taken in each by itself, so that a strange
image is not lost among many joints.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.coverage.nearest import FALSE_FRACTION, fold_of, held_out_distances, kth_distance, threshold_of
from twinloop.coverage.sample import DatasetSample
from twinloop.episode import Array

KEPT = 0.99
"""Fraction of the variance that an embedding keeps."""
MOST = 16
SMALLEST_PIXEL = 0.01
"""An invisible difference in brightness, of 1."""


@dataclass(frozen=True, eq=False)
class Embedding:
    """A linear map: subtract `center`, multiply by `matrix` (elements, d); missing values count as the mean."""

    center: Array
    matrix: Array

    def __call__(self, rows: Array) -> Array:
        """(N, d), the directions of most variance first."""
        return np.asarray(np.nan_to_num(rows - self.center) @ self.matrix)


def fit_embedding(real: Array, sim: Array, smallest: Array) -> Embedding:
    """Principal directions of both datasets, weighted equally, as is every element that varies by a relevant amount."""
    center = 0.5 * (np.nanmean(real, axis=0) + np.nanmean(sim, axis=0))
    variance = 0.5 * (np.nanmean((real - center) ** 2, axis=0) + np.nanmean((sim - center) ** 2, axis=0))
    weight = np.where(variance > 1e-18, 1.0 / np.sqrt(np.maximum(variance, smallest**2 + 1e-18)), 0.0)
    both = [np.nan_to_num(rows - center) * weight for rows in (real, sim)]
    covariance = sum(rows.T @ rows / len(rows) for rows in both) / 2.0
    values, directions = np.linalg.eigh(covariance)
    values, directions = values[::-1], directions[:, ::-1]
    explained = np.cumsum(values) / max(values.sum(), 1e-12)
    count = min(MOST, int(np.searchsorted(explained, KEPT)) + 1, len(values))
    scale = 1.0 / np.sqrt(max(values[:count].sum(), 1e-12))
    return Embedding(center, scale * weight[:, None] * directions[:, :count])


@dataclass(frozen=True, eq=False)
class Scores:
    """How far real moments are from simulation, and where the map puts the moments of both datasets (N, 2).

    `score` (N,) is the largest distance over its threshold: above one is far. `vectors` (N, d) are in units of the
    threshold. `held_out` (E,) is the fraction of far moments in each simulated episode when it is held out.
    """

    score: Array
    vectors: Array
    held_out: Array
    real_places: Array
    sim_places: Array


def score_moments(real: DatasetSample, sim: DatasetSample, rng: np.random.Generator) -> Scores:
    """Distance of each real moment to simulation, over what held-out simulated episodes show."""
    blocks = [(real.raw, sim.raw, real.smallest)]
    if real.views is not None and sim.views is not None:
        blocks.append((real.views, sim.views, np.full(real.views.shape[1], SMALLEST_PIXEL)))
    owner, fold = sim.moments.episode, fold_of(len(sim), rng)
    scores, mine, theirs, scaled, far = [], [], [], [], np.zeros(len(owner), dtype=bool)
    for here, there, smallest in blocks:
        embed = fit_embedding(here, there, smallest)
        first, second = embed(here), embed(there)
        distances = held_out_distances(second, owner, fold)
        threshold = max(threshold_of(distances, FALSE_FRACTION / len(blocks)), 1e-12)
        far |= distances > threshold
        scores.append(kth_distance(first, second) / threshold)
        mine.append(first)
        theirs.append(second)
        scaled.append(first / threshold)
    together = fit_layout(np.hstack(mine), np.hstack(theirs))
    marked = np.bincount(owner, weights=far, minlength=len(sim))
    return Scores(
        score=np.max(scores, axis=0),
        vectors=np.hstack(scaled),
        held_out=marked / np.maximum(np.bincount(owner, minlength=len(sim)), 1),
        real_places=together(np.hstack(mine)),
        sim_places=together(np.hstack(theirs)),
    )


def fit_layout(real: Array, sim: Array) -> Embedding:
    """The two directions of most variance."""
    center = 0.5 * (real.mean(axis=0) + sim.mean(axis=0))
    covariance = sum((rows - center).T @ (rows - center) / len(rows) for rows in (real, sim))
    directions = np.linalg.eigh(covariance)[1][:, ::-1]
    pair = directions[:, :2] if directions.shape[1] > 1 else np.column_stack([directions, 0.0 * directions])
    return Embedding(center, pair)
