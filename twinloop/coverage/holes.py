"""Holes of one level: which ranges of named variables hold real points and hardly any simulated ones.

One hole at a time: the scan finds where most is missing, the box is fitted to the points there, and what lies in it is put
aside; then again with what is left, until no more is missing than chance would leave out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.coverage import scan
from twinloop.coverage.box import Cloud, fit_box
from twinloop.coverage.rule import Range, Rule, Word
from twinloop.coverage.side import Points

Array = NDArray[Any]

FEWEST_EPISODES = 3
"""Fewer real episodes than this make no region."""
MOST_HOLES = 8
SEARCHED = 6_000
"""Points of each side that the scan looks at; rules are then applied to all."""


SIMPLER = 0.85
"""One variable is preferred to two, and a recorded one to a derived one, when it says at least this share as much."""
TRIED = 10
"""Boxes of the scan that are fitted before one is chosen."""


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
    if real_episodes < FEWEST_EPISODES:
        return []
    few_real, few_sim = thinned(real), thinned(sim)
    grid = scan.make_grid(real.variables, few_real.values, few_sim.values)
    theirs = grid.sample(few_sim.values, few_sim.episode, sim_episodes)
    limit = scan.threshold(grid, theirs, few_sim.episode, real_episodes, rng)
    mine = grid.sample(few_real.values, few_real.episode, real_episodes)
    clouds = (
        Cloud(few_real.values, mine.weight, few_real.episode, real_episodes),
        Cloud(few_sim.values, theirs.weight, few_sim.episode, sim_episodes),
    )
    left = np.ones(len(few_real.values), dtype=bool)
    holes: list[Hole] = []
    while len(holes) < MOST_HOLES:
        boxes = scan.largest(grid, scan.Sample(mine.cells[left], mine.weight[left], real_episodes), theirs)
        fitted = [
            hole
            for box in boxes[:TRIED]
            if box.statistic > limit and (hole := _fit(box, mine.cells, left, *clouds, real))
        ]
        if not fitted:
            break
        best = max(fitted, key=lambda hole: hole.statistic * SIMPLER ** _parts(hole.rule))
        holes.append(best)
        left &= ~best.inside[:: _step(len(best.inside))]
    return holes


def _fit(box: scan.Box, cells: Array, left: Array, mine: Cloud, theirs: Cloud, real: Points) -> Hole | None:
    """The box with its faces where simulation begins."""
    columns = list(box.columns)
    chosen = cells[:, columns]
    inside = left & ((chosen >= box.first) & (chosen <= box.last)).all(axis=1)
    if len(np.unique(mine.owner[inside])) < FEWEST_EPISODES:
        return None
    here, there = mine.of(columns), theirs.of(columns)
    low, high = fit_box(here.values[inside], here, there)
    ranges = [
        Range(real.variables[c], float(low[i]), float(high[i]))
        for i, c in enumerate(columns)
        if np.isfinite(low[i]) or np.isfinite(high[i])
    ]
    fresh = left & here.inside(low, high)
    statistic = scan.log_likelihood_ratio(
        here.weight[fresh].sum(), here.episodes, there.weight[there.inside(low, high)].sum(), there.episodes
    )
    values = real.values[:, columns]
    return Hole(
        Rule(tuple(ranges)), np.asarray(((values > low) & (values < high)).all(axis=1)), float(statistic)
    )


def _parts(rule: Rule) -> int:
    """How much a rule asks of its reader: its ranges, and once more for each that is derived."""
    return sum(1 + ("(" in r.variable.sql) for r in rule.conditions if isinstance(r, Range))


def find_words(
    real: Mapping[str, Sequence[str | None]], sim: Mapping[str, Sequence[str | None]]
) -> list[tuple[Word, Array]]:
    """Words that real episodes carry and no simulated one does, of fields that both use; and which episodes."""
    found = []
    for field in sorted(real.keys() & sim.keys()):
        known = {word for word in sim[field] if word is not None}
        for word in sorted({word for word in real[field] if word is not None} - known):
            inside = np.array([other == word for other in real[field]])
            if inside.sum() >= FEWEST_EPISODES:
                found.append((Word(field, word), inside))
    return sorted(found, key=lambda pair: -int(pair[1].sum()))


def thinned(points: Points) -> Points:
    """Every n-th point, so that not many more are left than are searched; all episodes keep some."""
    step = _step(len(points.values))
    return Points(points.variables, points.values[::step], points.episode[::step], points.frame[::step])


def _step(count: int) -> int:
    return max(1, -(-count // SEARCHED))
