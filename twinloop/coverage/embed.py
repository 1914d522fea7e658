"""All that is known of a moment as one vector: state, surroundings, action and picture, each block with the same weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.coverage.nearest import fold_of, held_out_distances, kth_distance, threshold_of
from twinloop.coverage.side import Side

Array = NDArray[Any]

KEPT = 0.99
"""Share of the variance that the embedding keeps."""
MOST = 16


@dataclass(frozen=True, eq=False)
class Embedding:
    """A linear map, fitted on both sides: subtract `center`, multiply by `matrix` (elements, d)."""

    center: Array
    matrix: Array

    def vectors(self, side: Side) -> Array:
        """(N, d), the directions of most variance first; missing values count as the mean."""
        return np.asarray(np.nan_to_num(_stacked(side) - self.center) @ self.matrix)

    def places(self, side: Side) -> Array:
        """Where the map puts each moment (N, 2)."""
        found = self.vectors(side)[:, :2]
        return found if found.shape[1] == 2 else np.column_stack([found, np.zeros(len(found))])


def fit_embedding(real: Side, sim: Side) -> Embedding:
    """Principal directions of both sides, weighted alike."""
    first, second = _stacked(real), _stacked(sim)
    center = 0.5 * (np.nanmean(first, axis=0) + np.nanmean(second, axis=0))
    spread = np.sqrt(
        0.5 * (np.nanmean((first - center) ** 2, axis=0) + np.nanmean((second - center) ** 2, axis=0))
    )
    weight = np.where(spread > 1e-9, 1.0 / np.maximum(spread, 1e-9), 0.0)
    if real.views is not None:
        pixels = real.views.shape[1]
        weight[-pixels:] *= np.sqrt((len(center) - pixels) / pixels)
    both = [np.nan_to_num(one - center) * weight for one in (first, second)]
    covariance = sum(one.T @ one / len(one) for one in both) / 2.0
    values, directions = np.linalg.eigh(covariance)
    values, directions = values[::-1], directions[:, ::-1]
    share = np.cumsum(values) / max(values.sum(), 1e-12)
    count = min(MOST, int(np.searchsorted(share, KEPT)) + 1, len(values))
    return Embedding(center, weight[:, None] * directions[:, :count])


@dataclass(frozen=True, eq=False)
class Scores:
    """How far real moments are from simulation: `score` (N,) is the distance over the threshold, above one is far.

    `held_out` (E,) is the share of far moments in each simulated episode when it is held out.
    """

    vectors: Array
    score: Array
    threshold: float
    held_out: Array


def score_points(embedding: Embedding, real: Side, sim: Side, rng: np.random.Generator) -> Scores:
    """Distance of each real moment to simulation, over what held-out simulated episodes show."""
    here, there = embedding.vectors(real), embedding.vectors(sim)
    owner = sim.moments.episode
    distances = held_out_distances(there, owner, fold_of(len(sim), rng))
    threshold = max(threshold_of(distances), 1e-12)
    marked = np.bincount(owner, weights=distances > threshold, minlength=len(sim))
    shares = marked / np.maximum(np.bincount(owner, minlength=len(sim)), 1)
    return Scores(here, kth_distance(here, there) / threshold, threshold, shares)


def _stacked(side: Side) -> Array:
    return side.raw if side.views is None else np.concatenate([side.raw, side.views], axis=1)
