"""The change detector against series whose truth is known."""

import numpy as np
import pytest
from scipy.special import logsumexp

from twinloop.identification.change import SHIFTS, log_factors, total_variances, watch

NONE = ((0.0, 1.0),)
"""Values that are known not to depend on one another."""


def test_a_bayes_factor_is_the_ratio_of_two_integrals():
    """Against the level and the scatter integrated out of the density itself, on a grid."""
    rng = np.random.default_rng(0)
    values, baseline = rng.standard_normal(7) + np.array([0, 0, 0, 0, 0, 2.0, 2.0]), 5
    level = np.linspace(-40.0, 40.0, 4001)[:, None]
    log_sigma = np.linspace(-3.0, 6.0, 361)

    def log_marginal(prior, begin):
        covariance = np.eye(7)
        covariance[begin:, begin:] += prior
        away = values - level
        distance = np.sum(away @ np.linalg.inv(covariance) * away, axis=1)[:, None]
        log_density = -0.5 * distance * np.exp(-2 * log_sigma) - 7 * log_sigma
        return logsumexp(log_density) - 0.5 * np.linalg.slogdet(covariance)[1]

    made = log_factors(values, np.ones(7), baseline, NONE)
    for begin in (5, 6):
        expected = logsumexp([log_marginal(s**2, begin) for s in SHIFTS]) - np.log(len(SHIFTS))
        assert made[begin - baseline, 1] == pytest.approx(expected - log_marginal(0.0, begin), abs=1e-3)
    assert made[1, 0] == -np.inf, "a shift that has not begun has no evidence"


def test_factors_do_not_depend_on_units():
    rng = np.random.default_rng(1)
    values, variances = rng.standard_normal(30), rng.uniform(0.5, 2.0, 30)
    np.testing.assert_allclose(
        log_factors(values, variances, 10), log_factors(1e3 - 50.0 * values, 7.0 * variances, 10), atol=1e-6
    )


def test_under_no_change_the_evidence_grows_by_one_per_value():
    """The mean of a martingale is where it started; a mean over tails this heavy is only checked early."""
    rng = np.random.default_rng(2)
    early = [
        np.exp(log_factors(rng.standard_normal(23), np.ones(23), 20, NONE)[:, -1]).sum() for _ in range(4000)
    ]
    assert np.mean(early) == pytest.approx(3.0, rel=0.25)


def test_stationary_series_stay_quiet():
    rng = np.random.default_rng(3)
    alarms = [
        watch(rng.uniform(0.1, 9) * rng.standard_normal(120), np.ones(120), 20).alarm is not None
        for _ in range(200)
    ]
    assert np.mean(alarms) <= 0.01


@pytest.mark.parametrize(("shift", "within"), [(3.0, 25), (5.0, 15), (8.0, 15)])
def test_a_shift_is_found_soon_and_dated(shift, within):
    rng = np.random.default_rng(4)
    off = []
    for _ in range(20):
        values = rng.standard_normal(75)
        values[45:] -= shift
        found = watch(values, np.ones(75), 20, series=5)
        assert found.alarm is not None and 45 <= found.alarm < 45 + within
        off.append(abs(found.began - 45))
    assert np.median(off) <= 1 and max(off) <= 5, off


def test_one_bad_value_is_not_a_change():
    values = np.random.default_rng(5).standard_normal(60)
    values[30] = 1e6
    assert watch(values, np.ones(60), 20).alarm is None


def test_a_value_known_badly_moves_little():
    values = np.random.default_rng(6).standard_normal(60)
    values[30:] += 3.0
    variances = np.ones(60)
    assert watch(values, variances, 20).alarm is not None
    variances[30:] = 100.0
    assert watch(values, variances, 20).alarm is None


def test_scatter_between_episodes_comes_on_top_of_their_own():
    rng = np.random.default_rng(7)
    own = np.full(4000, 0.25)
    values = rng.standard_normal(4000) * np.sqrt(0.25 + 1.0)
    assert total_variances(values, own, 4000).mean() == pytest.approx(1.25, rel=0.1)
    quiet = 0.5 * rng.standard_normal(4000)
    assert total_variances(quiet, own, 4000).mean() == pytest.approx(0.25, rel=0.1)


def test_a_factor_with_memory_is_the_ratio_of_two_integrals():
    rng = np.random.default_rng(8)
    values, baseline, memories = rng.standard_normal(7), 5, ((0.0, 0.7), (0.5, 0.3))
    level = np.linspace(-40.0, 40.0, 4001)[:, None]
    log_sigma = np.linspace(-3.0, 6.0, 361)

    def log_marginal(memory, shift):
        lag = np.abs(np.subtract.outer(np.arange(7), np.arange(7)))
        covariance = memory**lag / (1.0 - memory**2)
        covariance[6:, 6:] += shift**2 / (1.0 - memory**2)
        away = values - level
        distance = np.sum(away @ np.linalg.inv(covariance) * away, axis=1)[:, None]
        log_density = -0.5 * distance * np.exp(-2 * log_sigma) - 7 * log_sigma
        return logsumexp(log_density) - 0.5 * np.linalg.slogdet(covariance)[1]

    made = log_factors(values, np.ones(7), baseline, memories)[1, 1]
    moved = logsumexp([np.log(w / len(SHIFTS)) + log_marginal(m, s) for m, w in memories for s in SHIFTS])
    unmoved = logsumexp([np.log(w) + log_marginal(m, 0.0) for m, w in memories])
    assert made == pytest.approx(moved - unmoved, abs=1e-3)


@pytest.mark.parametrize("memory", [0.2, 0.4])
def test_episodes_that_resemble_the_one_before_do_not_alarm(memory):
    rng = np.random.default_rng(9)
    alarms = 0
    for _ in range(150):
        values = rng.standard_normal(120)
        for row in range(1, len(values)):
            values[row] = memory * values[row - 1] + np.sqrt(1.0 - memory**2) * values[row]
        alarms += watch(values, np.ones(120), 20).alarm is not None
    assert alarms <= 2
