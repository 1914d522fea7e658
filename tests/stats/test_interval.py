"""Intervals of success rates, differences and draws against tables and known truth."""

import numpy as np
import pytest
from scipy import stats

from twinloop.stats.interval import (
    Interval,
    difference_of_rates,
    exact_interval,
    interval_of_draws,
    mcnemar_p_value,
    normal_interval,
)


def limits(interval):
    return interval.low, interval.high


def test_intervals_are_those_of_the_tables():
    # Clopper and Pearson: 0 of 10 gives 1 - 0.025 ** (1 / 10).
    assert limits(exact_interval(0, 10)) == pytest.approx((0.0, 1 - 0.025**0.1))
    assert limits(exact_interval(20, 20)) == pytest.approx((0.025 ** (1 / 20), 1.0))
    assert limits(exact_interval(5, 10)) == pytest.approx((0.187086, 0.812914), abs=1e-6)


def test_intervals_cover_the_truth_at_least_as_often_as_they_say():
    intervals = [exact_interval(won, 40) for won in range(41)]
    for rate in (0.02, 0.05, 0.3, 0.5, 0.97):
        chance = stats.binom.pmf(np.arange(41), 40, rate)
        covered = sum(p for p, interval in zip(chance, intervals, strict=True) if interval.contains(rate))
        assert covered >= 0.95


def test_the_difference_of_two_rates_covers_the_truth():
    rng = np.random.default_rng(0)
    first, second = rng.binomial(20, 0.9, 400), rng.binomial(30, 0.6, 400)
    pairs = [
        (exact_interval(int(a), 20), exact_interval(int(b), 30)) for a, b in zip(first, second, strict=True)
    ]
    covered = np.mean([difference_of_rates(*pair).contains(0.3) for pair in pairs])
    assert covered >= 0.94


def test_a_normal_interval_knows_its_standard_deviation():
    found = normal_interval(2.0, 0.5, "s")
    assert found.standard_deviation == pytest.approx(0.5) and limits(found) == pytest.approx(
        (1.02, 2.98), abs=1e-3
    )


def test_draws_give_their_central_part_and_never_leave_the_value_outside():
    draws = np.linspace(0.0, 1.0, 1001)
    assert limits(interval_of_draws(draws)) == pytest.approx((0.025, 0.975))
    assert limits(interval_of_draws(draws, 1.5)) == pytest.approx((0.025, 1.5))


def test_pairs_that_disagree_evenly_are_chance():
    assert mcnemar_p_value(0, 0) == 1.0 and mcnemar_p_value(5, 5) == 1.0
    assert mcnemar_p_value(0, 6) == pytest.approx(2 * 0.5**6)


def test_an_interval_is_written_with_plus_minus_only_where_it_is_symmetric():
    assert Interval(0.21, 0.15, 0.27).points == "21 ± 6"
    assert Interval(0.37, 0.0, 0.43).points == "37 [0, 43]"
    assert Interval(0.62, 0.41, 0.8).percent == "62 % [41, 80]"
    assert str(Interval(0.0123, 0.01, 0.015, unit="s")) == "0.0123 [0.01, 0.015] s"
