"""Success points lost to each dimension: Shapley values over dimensions, every combination in the same scenes.

Row k of every combination has the same scene, the same seed and the same draw of what was measured, so that combinations
differ by what is put in and by nothing else. Few dimensions: every combination is evaluated. Many: orders are drawn, and the
combinations they pass through are evaluated, as far as the budget goes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.episode import Array

Coalition = frozenset[str]
Evaluate = Callable[[Sequence[Coalition]], dict[Coalition, Array]]
"""Outcomes (rows,) of each combination, as numbers: 1 is a success."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """Lost success of each dimension and row, (rows,); rows average to the Shapley value. `exact` when nothing was drawn."""

    dimensions: tuple[str, ...]
    lost: dict[str, Array]
    outcomes: dict[Coalition, Array]
    exact: bool

    @property
    def before(self) -> Array:
        """Outcomes with nothing put in."""
        return self.outcomes[frozenset()]

    @property
    def after(self) -> Array:
        """Outcomes with everything put in."""
        return self.outcomes[frozenset(self.dimensions)]


def attribute(
    dimensions: Sequence[str], evaluate: Evaluate, most: int, rng: np.random.Generator
) -> Attribution:
    """Share the lost success among `dimensions` with at most `most` combinations.

    Dimensions that lose nothing alone are left out of further combinations, unless all together lose more without them.
    """
    everyone = frozenset(dimensions)
    outcomes = evaluate(sorted({frozenset(), everyone, *(frozenset({d}) for d in dimensions)}, key=_key))
    acting = [d for d in dimensions if _differ(outcomes[frozenset()], outcomes[frozenset({d})])]
    if frozenset(acting) not in outcomes:
        outcomes |= evaluate([frozenset(acting)])
    if _differ(outcomes[frozenset(acting)], outcomes[everyone]):  # a dimension acts only together with others
        outcomes |= evaluate(sorted({everyone - {d} for d in dimensions} - set(outcomes), key=_key))
        acting = [
            d for d in dimensions if d in acting or _differ(outcomes[everyone - {d}], outcomes[everyone])
        ]
        outcomes |= evaluate([c for c in [frozenset(acting)] if c not in outcomes])
    idle = everyone - set(acting)
    subsets = [frozenset(c) for n in range(len(acting) + 1) for c in itertools.combinations(acting, n)]
    exact = len(subsets) <= max(most - len(outcomes), 4)
    if exact:
        wanted, orders = subsets, list(itertools.permutations(acting)) if len(acting) <= 5 else []
    else:
        wanted, orders = [], []
    if not orders:
        wanted, orders = _orders(acting, set(outcomes), most, rng)
        exact = False
    missing = [c for c in wanted if c not in outcomes]
    if missing:
        outcomes |= evaluate(sorted(missing, key=_key))
    lost = {d: np.zeros(len(outcomes[everyone])) for d in dimensions}
    for order in orders:
        inside: Coalition = frozenset()
        for d in order:
            lost[d] += (outcomes[inside] - outcomes[inside | {d}]) / len(orders)
            inside = inside | {d}
    # What the idle ones take together with the others' chance goes to everyone's full combination, shared evenly.
    rest = outcomes[frozenset(acting)] - outcomes[everyone]
    for d in idle:
        lost[d] += rest / max(len(idle), 1)
    return Attribution(tuple(dimensions), lost, outcomes, exact)


def _differ(one: Array, other: Array) -> bool:
    """Whether success differs in more than two rows and a tenth of them: fewer could be chance."""
    return bool(abs(float(one.sum() - other.sum())) > max(2.0, 0.1 * len(one)))


def _orders(
    acting: Sequence[str], known: set[Coalition], most: int, rng: np.random.Generator
) -> tuple[list[Coalition], list[tuple[str, ...]]]:
    """Random orders, each with its reverse, as long as they need no more than `most` combinations in all."""
    wanted: list[Coalition] = []
    orders: list[tuple[str, ...]] = []
    for _ in range(200):
        order = tuple(rng.permutation(list(acting)).tolist())
        for way in (order, order[::-1]):
            passed = [frozenset(way[:n]) for n in range(len(way) + 1)]
            fresh = [c for c in passed if c not in known and c not in wanted]
            if orders and len(known) + len(wanted) + len(fresh) > most:
                return wanted, orders
            wanted += fresh
            orders.append(way)
        if len(orders) >= math.factorial(min(len(acting), 8)):
            break
    return wanted, orders


def _key(coalition: Coalition) -> tuple[int, tuple[str, ...]]:
    return len(coalition), tuple(sorted(coalition))
