"""Where within a region episodes fail: a policy generalizes a little beyond its training data, and no further."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from twinloop.coverage.rule import Condition, Range, Rule, make_range
from twinloop.coverage.sample import DatasetSample
from twinloop.coverage.variables import Variable
from twinloop.episode import Array

FEWEST = 3
"""Episodes on either side of a cut, at least."""
CHANCE = 0.05
"""How likely the best of all cuts may be by chance, at most."""


def narrowed(real: DatasetSample, rule: Rule, places: Array) -> Rule | None:
    """The rule of a situation with one more bound, beyond which its episodes (`places`) fail far more often; None if none does.

    Every settable variable of the start is cut between each two neighbouring values. Of the cuts that are significant after
    Bonferroni's correction, the one that separates failures from successes best (Youden's index).
    """
    known = np.array([place for place in places if real.success[place] is not None], dtype=int)
    failed = np.array([real.success[place] is False for place in known])
    if not 0 < failed.sum() < len(failed):
        return None
    cuts = [
        (variable, bound, beyond)
        for variable in _settable(real.situations.variables)
        for bound, beyond in _cuts(real.situations.values[known, variable])
    ]
    clear = [cut for cut in cuts if _chance(failed, cut[2]) * len(cuts) <= CHANCE]
    if not clear:
        return None
    variable, (low, high), _ = max(clear, key=lambda cut: np.mean(cut[2][failed]) - np.mean(cut[2][~failed]))
    return _with(rule, make_range(real.situations.variables[variable], low, high))


def _settable(variables: Sequence[Variable]) -> list[int]:
    """Places of all but what the policy itself did first, and distances whose coordinates are there."""
    names = {variable.name for variable in variables}

    def follows(variable: Variable) -> bool:
        coordinate = variable.name.replace(".distance", ".x")
        return variable.sql.startswith('"action') or (coordinate != variable.name and coordinate in names)

    return [place for place, variable in enumerate(variables) if not follows(variable)]


def _cuts(column: Array) -> list[tuple[tuple[float, float], Array]]:
    """Both sides of every place between two values, where either side keeps enough episodes."""
    if not np.isfinite(column).all():
        return []
    values = np.unique(column)
    made = []
    for middle in 0.5 * (values[1:] + values[:-1]):
        above = column > middle
        if FEWEST <= above.sum() <= len(column) - FEWEST:
            made += [((float(middle), np.inf), above), ((-np.inf, float(middle)), ~above)]
    return made


def _chance(failed: Array, beyond: Array) -> float:
    """Fisher's exact test, one-sided: as many failures beyond the cut, or more, if it made no difference."""
    hits = int((failed & beyond).sum())
    return float(stats.hypergeom.sf(hits - 1, len(failed), int(failed.sum()), int(beyond.sum())))


def _with(rule: Rule, bound: Range) -> Rule:
    """The rule and the bound, in one range where the rule speaks of that variable already."""
    made: list[Condition] = []
    merged = False
    for condition in rule.conditions:
        if isinstance(condition, Range) and condition.variable == bound.variable:
            low, high = max(condition.low, bound.low), min(condition.high, bound.high)
            condition, merged = replace(condition, low=low, high=high), True
        made.append(condition)
    return Rule(tuple(made) if merged else (*made, bound))
