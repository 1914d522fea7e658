"""Does it still succeed? A band that holds at all times together, and an alarm with a bounded rate of false ones.

The band is for the mean of success so far, which may change while one watches (a normal mixture for bounded outcomes,
Robbins 1970; no constant mean is assumed, so the band is wider than the gate's).

The alarm is an e-detector (Shin, Ramdas and Rinaldo, 2023): at every episode somebody starts to bet that success has
fallen below what was expected. While it has not, the bets' sum grows by 1 per episode at most on average, so that the
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
"""Episodes to a false alarm, on average, at least."""
ALPHA = 0.05
TIGHT = 100.0
"""Episodes at which the band is tightest for its kind."""


@dataclass(frozen=True)
class Success:
    """Deployed episodes that somebody judged: how many succeeded, the band, and whether success has fallen.

    `fell` is the number of the episode at which the alarm went, None while it has not.
    """

    episodes: int
    successes: int
    low: float
    high: float
    expected: float | None
    fell: int | None


def follow_success(outcomes: Sequence[bool], expected: float | None, mean_time: float = MEAN_TIME) -> Success:
    """Look at outcomes in the order they came."""
    if expected is not None and not 0.0 < expected < 1.0:
        raise WrongUse("expected success lies between 0 and 1", got=expected)
    if not outcomes:
        return Success(0, 0, 0.0, 1.0, expected, None)
    values = np.array(outcomes, dtype=np.float64)
    low, high = running_band(int(values.sum()), len(values))
    fell = None if expected is None else first_alarm(values.tolist(), expected, mean_time)
    return Success(len(values), int(values.sum()), low, high, expected, fell)


def running_band(successes: int, episodes: int, alpha: float = ALPHA) -> tuple[float, float]:
    """Limits for the mean chance of success so far; those after every episode hold together with chance 1 - alpha."""
    tune = (math.log(1.0 / alpha**2) + math.log(math.log(1.0 / alpha**2) + 1.0)) / TIGHT
    grown = episodes * tune + 1.0
    half = 0.5 * math.sqrt(2.0 * grown / (episodes**2 * tune) * math.log(2.0 * math.sqrt(grown) / alpha))
    mean = successes / episodes
    return max(mean - half, 0.0), min(mean + half, 1.0)


def first_alarm(outcomes: Sequence[float], expected: float, mean_time: float = MEAN_TIME) -> int | None:
    """The first outcome at which bets that the mean is below `expected` sum to `mean_time`."""
    stakes = np.array([min(share, MOST) / (1.0 - expected) for share in FRACTIONS])
    sums = np.zeros(len(stakes))
    for number, outcome in enumerate(outcomes):
        sums = (sums + 1.0) * (1.0 + stakes * (expected - outcome))
        if float(np.array(BELIEFS) @ sums) >= mean_time:
            return number
    return None
