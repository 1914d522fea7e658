"""Holes of one level: which ranges of named variables hold real points and hardly any simulated ones.

One hole at a time: the scan finds where most is missing, the box is fitted to the points there, and what lies in it is put
aside; then again with what is left, until no more is missing than chance would leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy import stats

from twinloop.coverage import scan
from twinloop.coverage.box import Cloud, fit_box
from twinloop.coverage.nearest import fold_of, held_out_distances, kth_distance, threshold_of
from twinloop.coverage.rule import Range, Rule, Word, make_range
from twinloop.coverage.sample import Points
from twinloop.episode import Array

FEWEST_EPISODES = 3
"""Fewer real episodes than this make no region."""
MOST_HOLES = 8
SEARCHED = 6_000
"""Points of each dataset that are scanned; rules are then applied to all."""
SIMPLER = 0.85
"""One variable is preferred to two, and a recorded one to a derived one, when it has at least this fraction of the evidence."""
TRIED = 10
"""Boxes of the scan that are fitted before one is chosen."""
USUAL = 0.1
"""Fraction of held-out simulated points that lie further from the others than what counts as far from simulation."""
CHANCE = 1e-3
"""A hole has more episodes far from simulation than covered ones would have with this probability."""


@dataclass(frozen=True, eq=False)
class Hole:
    """A rule, which of the real points it holds for, and how certain it is (a log likelihood ratio)."""

    rule: Rule
    inside: Array
    statistic: float


def find_holes(
    real: Points, sim: Points, real_episodes: int, sim_episodes: int, rng: np.random.Generator
) -> list[Hole]:
    """Every hole that is larger than chance, the most certain first."""
    if real_episodes < FEWEST_EPISODES or not real.variables:
        return []
    few_real, few_sim = thinned(real), thinned(sim)
    grid = scan.make_grid(real.variables, few_real.values, few_sim.values)
    theirs = grid.sample(few_sim.values, few_sim.episode, sim_episodes)
    limit = scan.threshold(grid, theirs, few_sim.episode, real_episodes, rng)
    mine = grid.sample(few_real.values, few_real.episode, real_episodes)
    fitter = _Fitter(
        real,
        mine.cells,
        Cloud(few_real.values, mine.weight, few_real.episode, real_episodes),
        Cloud(few_sim.values, theirs.weight, few_sim.episode, sim_episodes),
        fold_of(sim_episodes, rng),
    )
    left = np.ones(len(few_real.values), dtype=bool)
    holes: list[Hole] = []
    while len(holes) < MOST_HOLES:
        boxes = scan.largest(grid, scan.Sample(mine.cells[left], mine.weight[left], real_episodes), theirs)
        certain = (fitter.fit(box, left) for box in boxes if box.statistic > limit)
        fitted = list(islice((hole for hole in certain if hole), TRIED))
        if not fitted:
            break
        best = max(fitted, key=lambda hole: hole.statistic * SIMPLER ** _parts(hole.rule))
        holes.append(best)
        left &= ~best.inside[:: _step(len(best.inside))]
    return holes


@dataclass(frozen=True, eq=False)
class _Fitter:
    """Turns boxes of cells into holes. `all_real` are the points that rules are applied to, the clouds what is searched."""

    all_real: Points
    cells: Array
    real: Cloud
    sim: Cloud
    fold: Array

    def fit(self, box: scan.Box, left: Array) -> Hole | None:
        """The box with its faces where simulation begins; None when the points in it are not far from simulation."""
        columns = list(box.columns)
        chosen = self.cells[:, columns]
        inside = left & ((chosen >= box.first) & (chosen <= box.last)).all(axis=1)
        if len(np.unique(self.real.owner[inside])) < FEWEST_EPISODES:
            return None
        rest, slack = self._rest(columns)
        here, there = (cloud.of(columns).settled(rest, slack) for cloud in (self.real, self.sim))
        low, high = fit_box(here.values[inside], here, there)
        high = np.where((slack > 0.0) & (high < rest), np.minimum(high, rest - slack), high)
        low = np.where((slack > 0.0) & (low > rest), np.maximum(low, rest + slack), low)
        fresh = left & here.inside(low, high)
        # What the rule will say must be far by itself, without the variables whose faces the fit took away.
        said = [c for i, c in enumerate(columns) if np.isfinite(low[i]) or np.isfinite(high[i])]
        if not said or not self.is_far(said, fresh):
            return None
        ranges = [
            make_range(self.all_real.variables[c], float(low[i]), float(high[i]))
            for i, c in enumerate(columns)
            if np.isfinite(low[i]) or np.isfinite(high[i])
        ]
        met = there.weight[there.inside(low, high)].sum()
        statistic = scan.log_likelihood_ratio(here.weight[fresh].sum(), here.episodes, met, there.episodes)
        values = self.all_real.values[:, columns]
        within = ((values > low) & (values < high)).all(axis=1)
        return Hole(Rule(tuple(ranges)), np.asarray(within), float(statistic))

    def _rest(self, columns: Sequence[int]) -> tuple[Array, Array]:
        """Where variables that simulation does not vary rest, and the difference from it that does not matter; else zero."""
        sim = self.sim.of(columns).values
        low, middle, high = np.nanquantile(sim, [0.025, 0.5, 0.975], axis=0)
        smallest = np.array([self.all_real.variables[c].smallest for c in columns])
        return middle, np.where(high - low < smallest, smallest, 0.0)

    def is_far(self, columns: Sequence[int], points: Array) -> bool:
        """Whether these real points lie further from simulation than simulated episodes lie from each other.

        An episode is far when most of its points are; points of one episode are no independent witnesses.
        """
        variables = [self.all_real.variables[c] for c in columns]
        sim, real = self.sim.of(columns).values, self.real.of(columns).values[points]
        smallest = np.array([v.smallest for v in variables])
        low, high = np.nanquantile(sim, [0.025, 0.975], axis=0)
        scale = np.maximum(np.maximum(high - low, smallest), 1e-9)
        usual = threshold_of(held_out_distances(sim / scale, self.sim.owner, self.fold, k=1), USUAL)
        far = kth_distance(real / scale, sim / scale, k=1) > max(usual, float((smallest / scale).min()))
        owner = self.real.owner[points]
        visits = np.bincount(owner)
        episodes = int((visits > 0).sum())
        distant = int((np.bincount(owner, weights=far)[visits > 0] > 0.5 * visits[visits > 0]).sum())
        return bool(stats.binom.sf(distant - 1, episodes, USUAL) < CHANCE)


def _parts(rule: Rule) -> int:
    """How much a rule asks of its reader: its ranges, and once more for each that is derived."""
    return sum(1 + ("(" in r.sql) for r in rule.conditions if isinstance(r, Range))


def find_words(
    real: Mapping[str, Sequence[str | None]], sim: Mapping[str, Sequence[str | None]]
) -> list[tuple[Word, Array]]:
    """Words that real episodes carry and no simulated one does, of fields that both use; and which episodes.

    A field without a common value is labelled by different conventions, see `named_apart`.
    """
    found = []
    for field in sorted(real.keys() & sim.keys()):
        if named_apart(real[field], sim[field]):
            continue
        known = {word for word in sim[field] if word is not None}
        for word in sorted({word for word in real[field] if word is not None} - known):
            inside = np.array([other == word for other in real[field]])
            if inside.sum() >= FEWEST_EPISODES:
                found.append((Word(field, word), inside))
    return sorted(found, key=lambda pair: -int(pair[1].sum()))


def named_apart(real: Sequence[str | None], sim: Sequence[str | None]) -> bool:
    """Whether real and simulated episodes have no value in common: then their values do not say what is covered."""
    return set(real).isdisjoint({word for word in sim if word is not None})


def thinned(points: Points) -> Points:
    """Every n-th point, so that not many more are left than are searched; all episodes keep some."""
    step = _step(len(points.values))
    return Points(points.variables, points.values[::step], points.episode[::step], points.frame[::step])


def _step(count: int) -> int:
    return max(1, -(-count // SEARCHED))
