"""Intervals cover the truth as often as they say, on data whose truth is known, with few episodes and many."""

import numpy as np
import pytest

from twinloop.stats.bootstrap import of_draws, of_fraction, of_mean, paired, unpaired

SEEDS = 400
RESAMPLES = 300


def coverage(draw, truth):
    found = [draw(np.random.default_rng(seed), seed) for seed in range(SEEDS)]
    return np.mean([one.low <= truth <= one.high for one in found])


@pytest.mark.parametrize("count", [4, 6, 12, 40])
def test_the_mean_of_normal_episodes_is_covered(count):
    def draw(rng, seed):
        return of_mean(rng.normal(1.0, 2.0, count), seed, RESAMPLES)

    assert 0.92 <= coverage(draw, 1.0) <= 0.985


def test_skewed_episodes_are_covered_nearly_as_often():
    # The mean of 12 exponential numbers: Student's own interval covers about 92 %.
    def draw(rng, seed):
        return of_mean(rng.exponential(1.0, 12), seed, RESAMPLES)

    assert coverage(draw, 1.0) >= 0.90


def test_differences_are_covered_paired_and_unpaired():
    def matched(rng, seed):
        scene = rng.normal(0.0, 5.0, 8)
        return paired(scene + rng.normal(0, 1, 8), scene + 0.5 + rng.normal(0, 1, 8), seed, RESAMPLES)

    def apart(rng, seed):
        return unpaired(rng.normal(2.0, 1.0, 6), rng.normal(2.5, 3.0, 10), seed, RESAMPLES)

    assert 0.92 <= coverage(matched, 0.5) <= 0.985
    assert 0.91 <= coverage(apart, 0.5) <= 0.99


def test_rows_of_one_episode_do_not_count_as_many():
    """Channels that move together make an interval no narrower."""
    rng = np.random.default_rng(3)
    one = rng.normal(size=10)
    together = of_mean(np.repeat(one[:, None], 7, axis=1), 1)
    alone = of_mean(one, 1)
    assert together.high - together.low == pytest.approx(alone.high - alone.low)


def test_channels_are_averaged_after_episodes_so_that_missing_ones_do_not_pull():
    table = np.array([[1.0, 10.0], [1.0, np.nan], [1.0, np.nan], [1.0, 10.0]])
    assert of_mean(table, 0).value == pytest.approx(5.5)
    both = paired(np.zeros((4, 2)), table, 0)
    assert both.value == pytest.approx(5.5) and both.real == 0.0 and both.sim == pytest.approx(5.5)


def test_too_few_episodes_have_no_interval_and_the_same_seed_gives_the_same_one():
    assert of_mean(np.array([1.0, 2.0]), 0) is None
    assert paired(np.array([1.0, np.nan, 2.0]), np.ones(3), 0) is None
    assert unpaired(np.ones(2), np.ones(9), 0) is None
    assert of_draws(float("nan"), lambda rng: 1.0, 9, 0) is None
    values = np.arange(8.0)
    assert of_mean(values, 5) == of_mean(values, 5) != of_mean(values, 6)


def test_a_share_of_nothing_is_not_certain():
    none = of_fraction(0, 8)
    assert none.value == 0.0 and none.low == 0.0 and none.high == pytest.approx(0.3694, abs=1e-4)
    assert not none.low > 0.0
