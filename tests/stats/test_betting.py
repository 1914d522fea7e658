"""Bets, confidence sequences and control variates against known truth, over many simulated campaigns."""

import numpy as np
import pytest

from twinloop.promotion.control import coefficients, controlled_outcomes
from twinloop.stats.betting import (
    PAIRED,
    SINGLE,
    confidence_sequence,
    log_e_value,
    log_e_value_both,
    raw_outcomes,
)

CAMPAIGNS, TRIALS = 2000, 200


def pairs(rng, better, worse, shape):
    """Differences that are +1, -1 and 0 with known chances."""
    return rng.choice([1.0, -1.0, 0.0], p=[better, worse, 1 - better - worse], size=shape)


@pytest.mark.parametrize(("better", "worse"), [(0.2, 0.2), (0.02, 0.02), (0.1, 0.3), (0.5, 0.5)])
def test_a_candidate_that_is_no_better_is_rarely_promoted_however_often_one_looks(better, worse):
    rng = np.random.default_rng(1)
    values = pairs(rng, better, worse, (CAMPAIGNS, TRIALS))
    ever = (log_e_value(raw_outcomes(values, PAIRED), 0.0) >= np.log(20.0)).any(axis=1)
    assert ever.mean() <= 0.05


def test_wealth_is_on_average_one_where_the_null_is_exactly_true():
    rng = np.random.default_rng(2)
    outcomes = raw_outcomes(rng.random((200_000, 6)) < 0.7, SINGLE)
    assert np.exp(log_e_value(outcomes, 0.7)).mean(axis=0) == pytest.approx(1.0, abs=0.02)
    assert np.exp(log_e_value(outcomes, 0.7, upward=False)).mean(axis=0) == pytest.approx(1.0, abs=0.02)


def test_a_better_candidate_is_promoted_and_sooner_the_better_it_is():
    rng = np.random.default_rng(3)
    took = []
    for better in (0.3, 0.4, 0.6):
        values = pairs(rng, better, 0.1, (CAMPAIGNS, TRIALS))
        hit = log_e_value(raw_outcomes(values, PAIRED), 0.0) >= np.log(20.0)
        assert hit.any(axis=1).mean() > 0.9
        took.append(np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, TRIALS).mean())
    assert took == sorted(took, reverse=True) and took[-1] < 20


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("misleading", [False, True])
def test_limits_hold_at_all_times_together_also_where_simulation_misleads(correlation, misleading):
    real, simulated, mean, variance = matched(7, correlation, misleading)
    outcomes, _ = controlled_outcomes(real, simulated, mean, variance, PAIRED)
    ever = (log_e_value_both(outcomes, 0.2) >= np.log(20.0)).any(axis=1)
    assert ever.mean() <= 0.05, "the true gain, 20 points, is refuted in at most 5 % of campaigns"


def test_simulation_that_foresees_reality_saves_real_trials():
    real, simulated, mean, variance = matched(8, 0.85, False)
    assert np.corrcoef(real.ravel(), simulated.ravel())[0, 1] > 0.6
    alone = stopping(log_e_value(raw_outcomes(real, PAIRED), 0.0))
    outcomes, _ = controlled_outcomes(real, simulated, mean, variance, PAIRED)
    assert stopping(log_e_value(outcomes, 0.0)) < 0.8 * alone


def test_coefficients_know_only_the_past_and_ignore_a_constant_simulation():
    rng = np.random.default_rng(4)
    real = pairs(rng, 0.3, 0.1, 50)
    simulated = np.where(rng.random(50) < 0.7, real, 0.0)
    before = coefficients(real, simulated, 0.2, 0.36)
    changed = real.copy()
    changed[30:] *= -1.0
    after = coefficients(changed, simulated, 0.2, 0.36)
    assert (before[:31] == after[:31]).all() and not (before == after).all()
    assert (coefficients(real, np.ones(50), 1.0, 0.0) == 0.0).all()


def test_limits_close_in_on_the_truth():
    rng = np.random.default_rng(5)
    low, high = confidence_sequence(raw_outcomes(rng.random(400) < 0.9, SINGLE), 0.05)
    assert (np.diff(low) >= 0).all() and (np.diff(high) <= 0).all()
    assert low[-1] < 0.9 < high[-1] and high[-1] - low[-1] < 0.12
    assert (low[0], high[0]) == (0.0, 1.0) or high[0] - low[0] > 0.8


def matched(seed, strength, misleading):
    """Campaigns of real and simulated differences in the same scenes: 20 points of true gain."""
    from scipy.stats import norm

    rng = np.random.default_rng(seed)
    scene = rng.normal(size=(CAMPAIGNS, TRIALS))
    other = strength * scene + np.sqrt(1 - strength**2) * rng.normal(size=scene.shape)
    better, worse = (0.02, 0.6) if misleading else (0.32, 0.12)

    def outcome(latent, better, worse):
        return np.where(latent > norm.isf(better), 1.0, np.where(latent < norm.ppf(worse), -1.0, 0.0))

    mean = better - worse
    return outcome(scene, 0.32, 0.12), outcome(other, better, worse), mean, better + worse - mean**2


def stopping(e_value):
    hit = e_value >= np.log(20.0)
    return np.where(hit.any(axis=1), hit.argmax(axis=1) + 1, e_value.shape[1]).mean()
