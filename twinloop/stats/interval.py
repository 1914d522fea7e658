"""`Interval`, the one type of an estimate with its confidence interval, and exact intervals of success rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[Any]

CONFIDENCE = 0.95
NORMAL = float(stats.norm.isf(0.5 * (1.0 - CONFIDENCE)))
"""Half the width of a 95 % interval in standard deviations of a normal distribution."""
SYMMETRIC = 0.25
"""An interval is written with ± when its middle is at most this fraction of its half width away from its value."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval, all in `unit`; "1" is a number without a unit."""

    value: float
    low: float
    high: float
    confidence: float = CONFIDENCE
    unit: str = "1"

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return 0.5 * (self.high - self.low)

    @property
    def standard_deviation(self) -> float:
        """The standard deviation of the normal distribution with this interval."""
        return self.half_width / float(stats.norm.isf(0.5 * (1.0 - self.confidence)))

    def contains(self, value: float) -> bool:
        """Whether `value` lies within the interval."""
        return self.low <= value <= self.high

    def overlaps(self, other: Interval) -> bool:
        """Whether both intervals have a value in common."""
        return self.low <= other.high and other.low <= self.high

    @property
    def percent(self) -> str:
        """A fraction in percent: `62 % [41, 80]`."""
        return f"{100 * self.value:.0f} % [{100 * self.low:.0f}, {100 * self.high:.0f}]"

    @property
    def points(self) -> str:
        """A difference of fractions in points: `21 ± 6`, or `37 [0, 43]` where the interval is not symmetric."""
        half, middle = 100.0 * self.half_width, 50.0 * (self.high + self.low)
        if abs(100.0 * self.value - middle) <= max(1.0, SYMMETRIC * half):
            return f"{round(100.0 * self.value)} ± {half:.0f}"
        value, low, high = (round(100.0 * number) for number in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"

    def __str__(self) -> str:
        unit = "" if self.unit in ("1", "unknown", "") else f" {self.unit}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]{unit}"


def normal_interval(value: float, standard_error: float, unit: str = "1") -> Interval:
    """The 95 % interval of an estimate with a normal error."""
    half = NORMAL * standard_error
    return Interval(value, value - half, value + half, unit=unit)


def interval_of_draws(draws: Array, value: float | None = None, unit: str = "1") -> Interval:
    """The central 95 % of draws (n,) of a quantity; `value` is their median unless it is known better.

    The interval is widened to include `value`.
    """
    low, middle, high = (float(q) for q in np.quantile(draws, (0.025, 0.5, 0.975)))
    if value is None:
        return Interval(middle, low, high, unit=unit)
    return Interval(value, min(low, value), max(high, value), unit=unit)


def exact_interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """A success rate with its exact interval (Clopper and Pearson, 1934).

    It covers the true rate at least as often as `confidence` says, whatever the rate is.
    """
    tail = 0.5 * (1.0 - confidence)
    low = stats.beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = stats.beta.ppf(1.0 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return Interval(successes / trials, float(low), float(high), confidence)


def difference_of_rates(first: Interval, second: Interval) -> Interval:
    """`first - second` of two independent rates, from the intervals of both (MOVER; Donner and Zou, 2010)."""
    value = first.value - second.value
    low = value - float(np.hypot(first.value - first.low, second.high - second.value))
    high = value + float(np.hypot(first.high - first.value, second.value - second.low))
    return Interval(value, low, high, first.confidence)


def paired_difference(
    only_first: int, only_second: int, trials: int, confidence: float = CONFIDENCE
) -> Interval:
    """`first - second` of two rates over the same trials, from those that disagree (Agresti and Min, 2005).

    Half a pair is added to each kind of trial, so that trials without any disagreement still have an interval.
    """
    value = (only_first - only_second) / trials
    first, second, count = only_first + 0.5, only_second + 0.5, trials + 2.0
    middle = (first - second) / count
    error = float(np.sqrt(first + second - (first - second) ** 2 / count)) / count
    reach = float(stats.norm.ppf(0.5 + 0.5 * confidence)) * error
    return Interval(value, max(middle - reach, -1.0), min(middle + reach, 1.0), confidence)


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Exact McNemar test: how likely pairs that disagree are split this unevenly by chance, two-sided."""
    disagree = only_first + only_second
    return float(stats.binomtest(only_first, disagree, 0.5).pvalue) if disagree else 1.0
