"""How many: the arithmetic behind every number of episodes, and the gain to expect."""

from __future__ import annotations

from dataclasses import dataclass
from math import asin, ceil, log, sqrt

import numpy as np
from scipy import stats

from twinloop.coverage.result import Outcomes
from twinloop.episode import Array
from twinloop.stats.interval import NORMAL

POWER = 0.8
LEVEL = 0.05
MOST = 400
DRAWS = 20_000


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


def trials_to_detect(before: float, after: float) -> int:
    """Trials, in each of two arms, that show a rise in success with `POWER` at a one-sided `LEVEL` (arcsine test)."""
    effect = 2.0 * asin(sqrt(min(max(after, 0.0), 1.0))) - 2.0 * asin(sqrt(min(max(before, 0.0), 1.0)))
    if effect <= 0.0:
        return MOST
    needed = 2.0 * ((stats.norm.ppf(1.0 - LEVEL) + stats.norm.ppf(POWER)) / effect) ** 2
    return int(min(MOST, max(2, ceil(needed))))


def people_to_record(fraction: float) -> int:
    """People to record so that a kind that makes up `fraction` of them is among them with 95 % certainty."""
    return ceil(log(0.05) / log(1.0 - fraction))


def readings_for_noise(relative: float = 0.1) -> int:
    """Independent readings that determine a standard deviation within `relative`, with 95 % confidence."""
    return ceil(0.5 * (NORMAL / relative) ** 2)


def runs_to_identify(relative: float) -> int:
    """Runs, 3 to 20, that bring a parameter known within `relative` of its value to 15 %: intervals shrink with the root."""
    return int(min(20, max(3, ceil((relative / 0.15) ** 2))))


def gain_in_dimension(
    points: float, low: float, high: float, recovers: tuple[float, float], seed: int
) -> Gain:
    """Success points won back of those that a dimension costs: their interval times the fraction that data recovers."""
    rng = np.random.default_rng(seed)
    lost = np.maximum(rng.normal(points, max((high - low) / (2 * NORMAL), 1e-9), DRAWS), 0.0)
    return _summary(lost * rng.uniform(*recovers, DRAWS))


def gain_in_region(
    fraction: float, episodes: int, outcomes: Outcomes, recovers: tuple[float, float], seed: int
) -> Gain:
    """Gain when a region fails no more often than the rest: its fraction of the data times the difference, both uncertain."""
    if not outcomes.known_inside or not outcomes.known_elsewhere or not fraction:
        return UNKNOWN
    rng = np.random.default_rng(seed)
    total = max(episodes / max(fraction, 1e-9), 1.0)
    weight = rng.beta(0.5 + episodes, 0.5 + total - episodes, DRAWS)
    inside = draw_rates(rng, outcomes.failed_inside, outcomes.known_inside)
    elsewhere = draw_rates(rng, outcomes.failed_elsewhere, outcomes.known_elsewhere)
    return _summary(100.0 * weight * np.maximum(inside - elsewhere, 0.0) * rng.uniform(*recovers, DRAWS))


def draw_rates(rng: np.random.Generator, count: int, of: int) -> Array:
    """Draws of a rate after `count` of `of` (Jeffreys prior)."""
    return rng.beta(0.5 + count, 0.5 + of - count, DRAWS)


def _summary(values: Array) -> Gain:
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return Gain(float(middle), float(low), float(high))
