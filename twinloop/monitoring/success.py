"""Success rate in deployment: a band that is valid at all times, and an alarm with a bounded rate of false alarms.

The band is for the mean success rate so far, which may change over time (a normal mixture for bounded outcomes,
Robbins 1970; no constant mean is assumed, so the band is wider than the gate's).

The alarm is an e-detector (Shin, Ramdas and Rinaldo, 2023): at every episode a new bet starts that the success rate has
fallen below the expected one. While it has not, the sum of the bets grows by at most 1 per episode on average, so the
mean time to a false alarm is at least the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinloop.errors import WrongUse
from twinloop.stats.betting import BELIEFS, FRACTIONS, MOST

MEAN_TIME = 2500.0
"""Smallest mean number of episodes to a false alarm."""
ALPHA = 0.05
TIGHT = 100.0
"""Number of episodes for which the band is optimized."""


@dataclass(frozen=True)
class Success:
    """Labelled deployed episodes: number of successes, the band, and whether the success rate has fallen.

    `fell` is the number of the episode that raised the alarm, or None. `outcomes` are those of the episodes, in order.
    """

    episodes: int
    successes: int
    low: float
    high: float
    expected: float | None
    fell: int | None
    outcomes: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Band:
    """The success rate after each of so many labelled episodes, with the limits that hold at all times together."""

    episodes: tuple[int, ...]
    rate: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def success_over_time(success: Success, points: int = 2_000) -> Band:
    """Follow how the success rate and its band came about.

    Args:
        success: What the monitor found, with its outcomes.
        points: Most numbers of episodes at which the band is computed; they are spread evenly, and the last one is among them.

    Returns:
        The band; empty if the outcomes are not known.
    """
    count = len(success.outcomes)
    total = np.cumsum(success.outcomes)
    at = np.unique(np.linspace(1, count, min(count, points)).round().astype(int)) if count else ()
    limits = [running_band(int(total[n - 1]), int(n)) for n in at]
    return Band(
        tuple(int(n) for n in at),
        tuple(float(total[n - 1] / n) for n in at),
        tuple(low for low, _ in limits),
        tuple(high for _, high in limits),
    )


def follow_success(outcomes: Sequence[bool], expected: float | None, mean_time: float = MEAN_TIME) -> Success:
    """Follow the success rate over outcomes in chronological order."""
    if expected is not None and not 0.0 < expected < 1.0:
        raise WrongUse("the expected success rate must lie between 0 and 1", got=expected)
    if not outcomes:
        return Success(0, 0, 0.0, 1.0, expected, None)
    values = np.array(outcomes, dtype=np.float64)
    low, high = running_band(int(values.sum()), len(values))
    fell = None if expected is None else first_alarm(values.tolist(), expected, mean_time)
    return Success(len(values), int(values.sum()), low, high, expected, fell, tuple(map(bool, outcomes)))


def running_band(successes: int, episodes: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Limits for the mean success rate so far; the limits after all episodes hold simultaneously with probability 1 - alpha."""
    tune = (math.log(1.0 / alpha**2) + math.log(math.log(1.0 / alpha**2) + 1.0)) / TIGHT
    grown = episodes * tune + 1.0
    half = 0.5 * math.sqrt(2.0 * grown / (episodes**2 * tune) * math.log(2.0 * math.sqrt(grown) / alpha))
    mean = successes / episodes
    return max(mean - half, 0.0), min(mean + half, 1.0)


def first_alarm(outcomes: Sequence[float], expected: float, mean_time: float = MEAN_TIME) -> int | None:
    """The first outcome at which bets that the mean is below `expected` sum to `mean_time`."""
    stakes = np.array([min(fraction, MOST) / (1.0 - expected) for fraction in FRACTIONS])
    sums = np.zeros(len(stakes))
    for number, outcome in enumerate(outcomes):
        sums = (sums + 1.0) * (1.0 + stakes * (expected - outcome))
        if float(np.array(BELIEFS) @ sums) >= mean_time:
            return number
    return None
