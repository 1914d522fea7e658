"""Real points that are unlike anything simulated, taken as a whole: what no range of one or two variables shows.

Distances are those of the embedding, so a strange image or a rare combination counts. Points beyond the threshold are joined
to clusters, and each is described by the ranges of named variables that fit it best; with recall and precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from twinloop.coverage.embed import Scores
from twinloop.coverage.rule import Rule, make_range
from twinloop.coverage.sample import Points
from twinloop.episode import Array

FEWEST_EPISODES = 4
MOST_CLUSTERS = 4
MOST_RANGES = 2
ONE = 0.6
"""All far points are one cluster when one description has at least this recall and precision."""
_LINKS = 6
_REPEATS = 400
_CHANCE = 0.01


@dataclass(frozen=True, eq=False)
class Cluster:
    """Marked points, and the rule that describes them with its recall and precision."""

    points: Array
    rule: Rule
    recall: float
    precision: float


def find_unlike(
    scores: Scores, real: Points, sim: Points, already: Array, episodes: int, rng: np.random.Generator
) -> list[Cluster]:
    """Clusters of points that are far from simulation and in no region yet, larger than chance, the largest first."""
    far = (scores.score > 1.0) & ~already
    chance = _by_chance(scores.held_out, episodes, rng)
    if fraction_of(far, real.episode, episodes) <= chance:
        return []
    whole = Cluster(far, *describe(far, real, sim))
    if min(whole.recall, whole.precision) >= ONE:
        return [whole]
    labels = _clusters(scores.vectors[far])
    places = np.flatnonzero(far)
    found = []
    for label in np.argsort(-np.bincount(labels))[:MOST_CLUSTERS]:
        marks = np.zeros(len(far), dtype=bool)
        marks[places[labels == label]] = True
        enough = len(np.unique(real.episode[marks])) >= FEWEST_EPISODES
        if enough and fraction_of(marks, real.episode, episodes) > 0.5 * chance:
            found.append(Cluster(marks, *describe(marks, real, sim)))
    return found


def describe(marks: Array, real: Points, sim: Points) -> tuple[Rule, float, float]:
    """The ranges, at most two, that separate the marked points best from all others; with recall and precision."""
    values = np.concatenate([real.values, sim.values])
    mine = np.concatenate([marks, np.zeros(len(sim.values), dtype=bool)])
    weight = np.where(np.arange(len(values)) < len(real.values), 1.0, len(real.values) / len(sim.values))
    inside, ranges, best = np.ones(len(values), dtype=bool), [], (0.0, 0.0, 0.0)
    for _ in range(MOST_RANGES):
        tried = []
        for column, variable in enumerate(real.variables):
            span = _span(values[:, column], mine)
            if span is None:
                continue
            held = inside & (values[:, column] > span[0]) & (values[:, column] < span[1])
            tried.append((*_quality(held, mine, weight), make_range(variable, *span), held))
        if not tried:
            break
        quality, recall, precision, chosen, held = max(tried, key=lambda one: one[0])
        if quality <= best[0] + 0.02:
            break
        best, inside = (quality, recall, precision), held
        ranges.append(chosen)
    return Rule(tuple(ranges)), best[1], best[2]


def _span(values: Array, mine: Array) -> tuple[float, float] | None:
    """Where most of the marked points lie; open towards where no others are."""
    here = values[mine & np.isfinite(values)]
    if not len(here):
        return None
    low, high = np.quantile(here, [0.02, 0.98])
    slack = 1e-6 + 0.01 * (high - low)
    low, high = low - slack, high + slack
    others = values[~mine & np.isfinite(values)]
    open_low, open_high = not (others < low).any(), not (others > high).any()
    if open_low and open_high:
        return None
    return (-np.inf if open_low else float(low)), (np.inf if open_high else float(high))


def _quality(held: Array, mine: Array, weight: Array) -> tuple[float, float, float]:
    """The harmonic mean of recall and precision, and both."""
    both = weight[held & mine].sum()
    recall, precision = both / weight[mine].sum(), both / max(weight[held].sum(), 1e-12)
    return float(2.0 * recall * precision / max(recall + precision, 1e-12)), float(recall), float(precision)


def _clusters(vectors: Array) -> Array:
    """The cluster of each vector: linked to its nearest ones, if they are no further than twice what is far."""
    count = min(_LINKS + 1, len(vectors))
    distances, near = cKDTree(vectors).query(vectors, k=range(1, count + 1))
    linked = (distances <= 2.0).ravel()
    rows = np.repeat(np.arange(len(vectors)), count)[linked]
    graph = coo_matrix((np.ones(len(rows)), (rows, near.ravel()[linked])), shape=(len(vectors),) * 2)
    return np.asarray(connected_components(graph, directed=False)[1])


def fraction_of(marks: Array, owner: Array, episodes: int) -> float:
    """Fraction of marked points, each episode counting the same."""
    marked = np.bincount(owner, weights=marks, minlength=episodes)
    return float(np.mean(marked / np.maximum(np.bincount(owner, minlength=episodes), 1)))


def _by_chance(held_out: Array, episodes: int, rng: np.random.Generator) -> float:
    """The fraction that so many covered episodes exceed with probability 1 %; episodes are resampled, never points."""
    drawn = rng.integers(len(held_out), size=(_REPEATS, episodes))
    return float(np.quantile(held_out[drawn].mean(axis=1), 1.0 - _CHANCE))
