"""How many: the arithmetic behind every number of episodes, and what a gain may be worth.

Each function answers one question and returns the numbers it used, so that a plan can show its work.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asin, ceil, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[Any]

POWER = 0.8
LEVEL = 0.05
MOST = 400
_DRAWS = 20_000


@dataclass(frozen=True)
class Gain:
    """Success points, the median and the 95 % interval; None where nothing is known to compute them from."""

    points: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.points is None:
            return "not estimated"
        return f"+{self.points:.0f} [{self.low:.0f}, {self.high:.0f}] points"


UNKNOWN = Gain(None, None, None)


def trials_to_see(before: float, after: float, *, power: float = POWER, level: float = LEVEL) -> int:
    """Trials, in each of two arms, that show a rise in success with this power at this one-sided level (arcsine test)."""
    effect = 2.0 * asin(sqrt(min(max(after, 0.0), 1.0))) - 2.0 * asin(sqrt(min(max(before, 0.0), 1.0)))
    if effect <= 0.0:
        return MOST
    needed = 2.0 * ((stats.norm.ppf(1.0 - level) + stats.norm.ppf(power)) / effect) ** 2
    return int(min(MOST, max(2, ceil(needed))))


def kinds_to_meet(share: float, sure: float = 0.95) -> int:
    """People (or objects) to ask so that a kind that makes up `share` of them is met at least once."""
    return ceil(log(1.0 - sure) / log(1.0 - share))


def readings_for_noise(relative: float = 0.1) -> int:
    """Independent readings that tell a standard deviation within `relative`, with 95 % confidence."""
    return ceil(0.5 * (1.959964 / relative) ** 2)


def runs_to_sharpen(vague: float, wanted: float = 0.15, *, fewest: int = 3, most: int = 20) -> int:
    """Runs after which an interval that is `vague` times its value now should be `wanted` times: it shrinks with the root."""
    return int(min(most, max(fewest, ceil((vague / wanted) ** 2))))


def gain_of_loss(points: float, low: float, high: float, recovers: tuple[float, float], seed: int) -> Gain:
    """What is won back of a loss: its interval times the share that data recovers."""
    rng = np.random.default_rng(seed)
    lost = np.maximum(rng.normal(points, max((high - low) / (2 * 1.959964), 1e-9), _DRAWS), 0.0)
    return _summary(lost * rng.uniform(*recovers, _DRAWS))


def gain_of_hole(
    share: float,
    episodes: int,
    failed_inside: int,
    known_inside: int,
    failed_elsewhere: int,
    known_elsewhere: int,
    recovers: tuple[float, float],
    seed: int,
) -> Gain:
    """What is won when a region fails no more often than the rest: its share times the difference, both uncertain."""
    if not known_inside or not known_elsewhere or not share:
        return UNKNOWN
    rng = np.random.default_rng(seed)
    total = max(episodes / max(share, 1e-9), 1.0)
    weight = rng.beta(0.5 + episodes, 0.5 + total - episodes, _DRAWS)
    inside = rng.beta(0.5 + failed_inside, 0.5 + known_inside - failed_inside, _DRAWS)
    elsewhere = rng.beta(0.5 + failed_elsewhere, 0.5 + known_elsewhere - failed_elsewhere, _DRAWS)
    return _summary(100.0 * weight * np.maximum(inside - elsewhere, 0.0) * rng.uniform(*recovers, _DRAWS))


def _summary(values: Array) -> Gain:
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return Gain(float(middle), float(low), float(high))
