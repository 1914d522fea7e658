"""A scan for holes: over every interval of every variable and every rectangle of every pair, where is simulation missing?

Each variable is cut into equal cells over the range of both datasets. A box of cells is a hole when it has far less simulation
than real data would lead one to expect *and* than simulation has elsewhere: the second keeps a real robot that always works
at one spot from being called uncovered. The statistic is the smaller of the two log likelihood ratios; what is
large is calibrated with simulated episodes in the place of real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import xlogy

from twinloop.coverage.variables import Variable
from twinloop.episode import Array

CELLS = 12
EMPTY = 0.1
"""A hole has at most this fraction of the simulation that is expected there."""
_TAIL = 0.005
_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class Sample:
    """Cells (N, V) of points, -1 where a value is missing, and what each weighs: every episode weighs one."""

    cells: Array
    weight: Array
    episodes: int


@dataclass(frozen=True, eq=False)
class Grid:
    """Cell edges of each variable; fewer than two cells and a variable is left out."""

    edges: tuple[Array, ...]
    pairs: tuple[tuple[int, int], ...]

    def sample(self, values: Array, owner: Array, episodes: int) -> Sample:
        """Points on the grid."""
        columns = [
            np.searchsorted(e[1:-1], v, side="right") for e, v in zip(self.edges, values.T, strict=True)
        ]
        cells = np.where(np.isfinite(values), np.stack(columns, axis=1), -1)
        weight = 1.0 / np.maximum(np.bincount(owner, minlength=episodes), 1)[owner]
        return Sample(cells, weight, episodes)


@dataclass(frozen=True)
class Box:
    """Variables, the first and last cell of each, and the statistic."""

    columns: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    statistic: float


def make_grid(variables: Sequence[Variable], real: Array, sim: Array) -> Grid:
    """Equal cells over the range of both datasets, none finer than the smallest relevant difference."""
    edges = []
    for index, variable in enumerate(variables):
        both = [values[np.isfinite(values[:, index]), index] for values in (real, sim)]
        if not (len(both[0]) and len(both[1])):
            edges.append(np.array([-np.inf, np.inf]))
            continue
        tails = [np.quantile(one, [_TAIL, 1.0 - _TAIL]) for one in both]
        low, high = min(t[0] for t in tails), max(t[1] for t in tails)
        count = CELLS if not variable.smallest else int(min(CELLS, max(2, (high - low) / variable.smallest)))
        if high - low < max(variable.smallest, 1e-9):
            edges.append(np.array([-np.inf, np.inf]))
            continue
        inner = np.linspace(low, high, count + 1)
        inner[0], inner[-1] = -np.inf, np.inf
        edges.append(inner)
    alive = [i for i, e in enumerate(edges) if len(e) > 2]
    pairs = [(i, j) for i, j in combinations(alive, 2) if not _twins(sim[:, i], sim[:, j])]
    return Grid(tuple(edges), tuple(pairs))


def largest(grid: Grid, real: Sample, sim: Sample) -> list[Box]:
    """The best box of every variable and pair that has one, the largest statistic first."""
    alone = [box for i in range(len(grid.edges)) if (box := _along(i, grid, real, sim))]
    found = [box for box in (*alone, *_over_pairs(grid, real, sim)) if box.statistic > 0.0]
    return sorted(found, key=lambda box: -box.statistic)


def threshold(
    grid: Grid, sim: Sample, owner: Array, real_episodes: int, rng: np.random.Generator, repeats: int = 24
) -> float:
    """The statistic that simulated episodes in the place of the real ones exceed once in a hundred: Gumbel's tail.

    Episodes are drawn whole, so that rows of one episode do not count as independent.
    """
    count = max(2, min(real_episodes, sim.episodes // 3))
    found = np.empty(repeats)
    for repeat in range(repeats):
        chosen = np.zeros(sim.episodes, dtype=bool)
        chosen[rng.choice(sim.episodes, count, replace=False)] = True
        held_out = _part(sim, chosen[owner], count)
        rest = _part(sim, ~chosen[owner], sim.episodes - count)
        found[repeat] = max((box.statistic for box in largest(grid, held_out, rest)), default=0.0)
    width = max(float(found.std(ddof=1)) * np.sqrt(6.0) / np.pi, 0.2)
    return float(found.mean() - np.euler_gamma * width - width * np.log(-np.log(0.99)))


def _part(sample: Sample, kept: Array, episodes: int) -> Sample:
    return Sample(sample.cells[kept], sample.weight[kept], episodes)


def _along(column: int, grid: Grid, real: Sample, sim: Sample) -> Box | None:
    count = len(grid.edges[column]) - 1
    if count < 2:
        return None
    mine, theirs = (_histogram(s, (column,), (count,)) for s in (real, sim))
    spans = _intervals(count)
    cells, usual = spans.members.sum(axis=1), _usual(theirs[None])
    values = _statistic(spans.members @ mine, spans.members @ theirs, cells, usual, real, sim)
    best = int(np.argmax(values))
    return Box((column,), (int(spans.first[best]),), (int(spans.last[best]),), float(values[best]))


def _over_pairs(grid: Grid, real: Sample, sim: Sample) -> list[Box]:
    found = []
    sizes = {pair: tuple(len(grid.edges[c]) - 1 for c in pair) for pair in grid.pairs}
    for size in sorted(set(sizes.values())):
        alike = [pair for pair in grid.pairs if sizes[pair] == size]
        for start in range(0, len(alike), _AT_ONCE):
            found += _rectangles(alike[start : start + _AT_ONCE], size, real, sim)
    return found


def _rectangles(
    pairs: Sequence[tuple[int, int]], size: tuple[int, ...], real: Sample, sim: Sample
) -> list[Box]:
    """The best rectangle of each pair."""
    first, second = (_intervals(count) for count in size)
    cells = first.members.sum(axis=1)[:, None] * second.members.sum(axis=1)
    mine, theirs = (np.stack([_histogram(s, pair, size) for pair in pairs]) for s in (real, sim))
    usual = _usual(theirs.reshape(len(pairs), -1))[:, None, None]
    sums = [first.members @ table @ second.members.T for table in (mine, theirs)]
    values = _statistic(sums[0], sums[1], cells, usual, real, sim).reshape(len(pairs), -1)
    found = []
    for pair, row in zip(pairs, values, strict=True):
        best = int(np.argmax(row))
        i, j = divmod(best, len(second.first))
        starts, ends = (first.first[i], second.first[j]), (first.last[i], second.last[j])
        found.append(Box(pair, tuple(map(int, starts)), tuple(map(int, ends)), float(row[best])))
    return found


def log_likelihood_ratio(mine: Array, n: int, theirs: Array, m: int) -> Array:
    """Log likelihood ratio of two fractions being different: `mine` of `n` episodes against `theirs` of `m`."""
    pooled = (mine + theirs) / (n + m)
    return np.asarray(
        _log_likelihood(mine, n, mine / n)
        + _log_likelihood(theirs, m, theirs / m)
        - _log_likelihood(mine + theirs, n + m, pooled)
    )


def _log_likelihood(count: Array, of: int, fraction: Array) -> Array:
    tiny = 1e-12
    return np.asarray(
        xlogy(count, np.maximum(fraction, tiny)) + xlogy(of - count, np.maximum(1.0 - fraction, tiny))
    )


def _statistic(mine: Array, theirs: Array, cells: Array, usual: Array, real: Sample, sim: Sample) -> Array:
    """The log likelihood ratio of a box; zero where it is no hole."""
    dense = usual * cells
    hole = (theirs <= EMPTY * sim.episodes * mine / real.episodes) & (theirs <= EMPTY * dense) & (mine > 0.0)
    found = np.zeros(hole.shape)
    a, b, usually = mine[hole], theirs[hole], np.broadcast_to(dense, hole.shape)[hole]
    against_sim = usually - b + xlogy(b, np.maximum(b, 1e-12) / usually)
    found[hole] = np.minimum(log_likelihood_ratio(a, real.episodes, b, sim.episodes), against_sim)
    return found


def _usual(tables: Array) -> Array:
    """What a cell with any simulation usually holds, for each table (P, cells)."""
    return np.asarray([np.median(table[table > 0.0]) if (table > 0.0).any() else 0.0 for table in tables])


def _histogram(sample: Sample, columns: tuple[int, ...], size: tuple[int, ...]) -> Array:
    """Weight in each cell, of the shape `size`."""
    cells = sample.cells[:, list(columns)]
    known = (cells >= 0).all(axis=1)
    code = np.ravel_multi_index(tuple(cells[known].T), size)
    return np.bincount(code, weights=sample.weight[known], minlength=int(np.prod(size))).reshape(size)


@dataclass(frozen=True, eq=False)
class _Intervals:
    """First and last cell of intervals, and which cells (I, count) each has."""

    first: Array
    last: Array
    members: Array


def _intervals(count: int) -> _Intervals:
    """Every interval of cells but the whole line."""
    first, last = np.triu_indices(count)
    kept = last - first < count - 1
    first, last = first[kept], last[kept]
    cells = np.arange(count)
    return _Intervals(first, last, ((cells >= first[:, None]) & (cells <= last[:, None])).astype(np.float64))


def _twins(first: Array, second: Array) -> bool:
    """Two columns that say the same, such as a target and the position that follows it."""
    known = np.isfinite(first) & np.isfinite(second)
    if known.sum() < 3 or np.ptp(first[known]) == 0.0 or np.ptp(second[known]) == 0.0:
        return False
    return bool(abs(np.corrcoef(first[known], second[known])[0, 1]) > 0.999)
