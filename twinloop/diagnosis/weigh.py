"""What the twin predicts against what the robot did: costs, explained drop and unknown rest, with intervals.

Rows of the twin are resampled, the robot's success rate is drawn from its posterior, and the twin's prediction is trusted up to
`DISCREPANCY`. What the twin predicts beyond the real drop explains nothing: it is cut off there, and the costs with it.

Costs and unknown add up to the drop. The explained drop is the smaller of the predicted and the real one. A dimension without
which the policy would do no better in the twin costs nothing (its Shapley value is zero or below); the others share the
explained drop in proportion to their Shapley values, in every resample. The unknown is the real drop minus the explained one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    blamed = [d for d in shared.dimensions if float(np.mean(shared.lost[d])) > 0.0]
    blamed_loss = sum((shared.lost[d] for d in blamed), np.zeros(rows))
    scale = explained / np.maximum(np.maximum(blamed_loss[picks].mean(axis=1), explained), 1e-9)
    # The smaller of two uncertain numbers is smaller than either on average: single values are of the averages.
    lost, whole = float(np.mean(shared.before - shared.after)), float(np.mean(drop))
    middle = float(np.clip(min(lost, whole), 0.0, 1.0))
    fraction = middle / max(float(np.mean(blamed_loss)), middle, 1e-9)
    costs = [
        Cost(
            d,
            _positive(
                interval_of_draws(
                    shared.lost[d][picks].mean(axis=1) * scale,
                    float(np.mean(shared.lost[d])) * fraction if d in blamed else 0.0,
                )
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


def _positive(interval: Interval) -> Interval:
    """A cost is never below zero: what looks like a gain is noise, or belongs to no cost."""
    return replace(interval, low=max(interval.low, 0.0), high=max(interval.high, 0.0))
