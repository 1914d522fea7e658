"""What the twin predicts against what the robot did: costs, explained drop and unknown rest, with intervals.

Rows of the twin are resampled, the robot's success is drawn from its posterior, and the twin's prediction is believed up to
`DISCREPANCY`. What the twin predicts beyond the real drop explains nothing: it is cut off there, and the costs with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinloop.diagnosis.attribute import Attribution
from twinloop.diagnosis.result import Cost
from twinloop.stats.interval import Interval, interval_of_draws

RESAMPLES = 4000
DISCREPANCY = 0.13
"""Standard deviation of the twin's success rate around the robot's when everything measured is put in.

From the five stand-ins of `TUNED_ON` (twin 19, 66, 62, 100 and 100 %, robot 8, 94, 75, 83 and 92 %): 17 points root mean square,
10 of which are the chance of 16 to 32 trials.
"""
TUNED_ON = frozenset({1, 23, 42, 10_000, 10_001})
"""Cases of `make bench-diagnose` that set `DISCREPANCY`: they are no evidence for it."""


@dataclass(frozen=True)
class Weighed:
    """Costs, the largest first, and the whole drop, what of it is explained, and the rest."""

    costs: tuple[Cost, ...]
    drop: Interval
    explained: Interval
    unknown: Interval


def weigh(shared: Attribution, won: int, count: int, rng: np.random.Generator) -> Weighed:
    """`won` of `count` real runs succeeded."""
    rows = len(shared.before)
    picks = rng.integers(0, rows, (RESAMPLES, rows))
    on_robot = rng.beta(won + 0.5, count - won + 0.5, RESAMPLES)
    wins = shared.before[picks].sum(axis=1)
    drop = rng.beta(wins + 0.5, rows - wins + 0.5) - on_robot
    total = (shared.before - shared.after)[picks].mean(axis=1)
    something = float(np.abs(shared.before - shared.after).sum()) > 0.0
    doubt = rng.normal(0.0, DISCREPANCY, RESAMPLES) if something else 0.0
    explained = np.clip(np.minimum(total + doubt, drop), 0.0, 1.0)
    scale = explained / np.maximum(np.maximum(total, explained), 1e-9)
    # The smaller of two uncertain numbers is smaller than either on average: single values are of the averages.
    lost, whole = float(np.mean(shared.before - shared.after)), float(np.mean(drop))
    middle = float(np.clip(min(lost, whole), 0.0, 1.0))
    share = middle / max(lost, middle, 1e-9)
    costs = [
        Cost(
            d,
            interval_of_draws(
                shared.lost[d][picks].mean(axis=1) * scale, float(np.mean(shared.lost[d])) * share
            ),
            _alone(shared, d),
        )
        for d in shared.dimensions
    ]
    costs.sort(key=lambda cost: -cost.lost.value)
    return Weighed(
        tuple(costs),
        interval_of_draws(drop, whole),
        interval_of_draws(explained, middle),
        interval_of_draws(drop - explained, whole - middle),
    )


def _alone(shared: Attribution, dimension: str) -> float:
    return float(np.mean(shared.before - shared.outcomes[frozenset({dimension})]))
