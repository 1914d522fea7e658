"""Where within a region episodes fail: a policy reaches a little beyond what it was shown, and then no further."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from twinloop.coverage.rule import Condition, Range, Rule
from twinloop.coverage.side import Side

Array = NDArray[Any]

FEWEST = 3
"""Episodes on either side of a cut, at least."""
CHANCE = 0.05
"""How likely the best of all cuts may be by chance, at most."""


def narrowed(real: Side, rule: Rule, places: Array) -> Rule | None:
    """The rule of a situation with one more bound, beyond which its episodes (`places`) fail far more often; None if none does.

    Every variable of how episodes begin is cut wherever two of them can be told apart. The best cut must be better than the best of
    as many would be by chance.
    """
    known = np.array([place for place in places if real.success[place] is not None], dtype=int)
    failed = np.array([real.success[place] is False for place in known])
    if not 0 < failed.sum() < len(failed):
        return None
    cuts = [
        (_chance(failed, beyond), variable, bound)
        for variable, column in enumerate(real.situations.values[known].T)
        for bound, beyond in _cuts(column)
    ]
    if not cuts:
        return None
    chance, variable, (low, high) = min(cuts, key=lambda cut: cut[0])
    if chance * len(cuts) > CHANCE:
        return None
    return _with(rule, Range(real.situations.variables[variable], low, high))


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
