"""Lag, dead band, gain and drift of responses whose truth is known."""

import numpy as np
import pytest

from twinloop.gap.follow import TOLD_S, behind_dead_band, follow
from twinloop.gap.noise import allan_deviation, density, noise_of, still_stretches

TIME_S = np.arange(0.0, 12.0, 0.01)


def motion(time_s, top_hz=1.0):
    rates = np.array([0.23, 0.61, 1.0]) * top_hz
    return sum(0.3 * np.sin(2 * np.pi * rate * time_s + k) for k, rate in enumerate(rates))


def respond(lag_s=0.05, width=0.0, gain=1.0, noise=0.0, drift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    late = motion(TIME_S - lag_s)
    held = behind_dead_band(late[:, None], np.array([[width]]))[:, 0, 0]
    return gain * held + noise * rng.standard_normal(len(late)) + drift * TIME_S / TIME_S[-1]


def fit(reading, command=None):
    command = motion(TIME_S) if command is None else command
    (found,) = follow(TIME_S, command[:, None], reading[:, None], np.zeros((len(reading), 1)))
    return found


@pytest.mark.parametrize("lag_s", [0.0, 0.037, 0.11])
@pytest.mark.parametrize("width", [0.0, 0.01, 0.04])
def test_lag_and_dead_band_are_told_apart(lag_s, width):
    found = fit(respond(lag_s, width, noise=2e-4))
    assert found.lag_s == pytest.approx(lag_s, abs=1.5e-3)
    assert found.dead_band == pytest.approx(width, abs=1.5e-3)
    assert found.gain == pytest.approx(1.0, abs=5e-3)
    assert found.lag_error_s < TOLD_S


def test_gain_residual_and_drift_are_found():
    assert fit(respond(gain=0.9)).gain == pytest.approx(0.9, abs=5e-3)
    assert fit(respond(noise=0.004)).residual == pytest.approx(0.004, rel=0.05)
    assert fit(respond(drift=0.02)).drift > 5 * fit(respond()).drift + 0.01


def test_weight_that_a_servo_holds_up_is_not_a_dead_band():
    load = 5.0 * np.cos(motion(TIME_S) + 0.4)
    reading = respond(noise=1e-4) + 0.05 * np.cos(motion(TIME_S - 0.05) + 0.4)
    (found,) = follow(TIME_S, motion(TIME_S)[:, None], reading[:, None], load[:, None])
    assert found.dead_band < 1e-3 and found.lag_s == pytest.approx(0.05, abs=1e-3)


def test_a_joint_that_does_not_follow_or_hardly_moves_says_nothing():
    rng = np.random.default_rng(1)
    assert fit(rng.standard_normal(len(TIME_S))) is None
    assert fit(respond(), command=np.zeros(len(TIME_S))) is None


def test_noise_is_found_under_motion_and_impacts():
    rng = np.random.default_rng(2)
    values = motion(TIME_S) + 1e-3 * rng.standard_normal(len(TIME_S))
    values[400:] += 0.2
    assert noise_of(values) == pytest.approx(1e-3, rel=0.05)
    assert noise_of(motion(TIME_S)) < 2e-5


def test_white_noise_has_its_allan_deviation_and_density():
    rng = np.random.default_rng(3)
    white = 2e-3 * rng.standard_normal(20_000)
    for over_s in (0.1, 1.0):
        assert allan_deviation(white, 100.0, over_s) == pytest.approx(2e-3 / np.sqrt(100 * over_s), rel=0.1)
    assert density(white, 100.0, 10.0, 40.0) == pytest.approx(2e-3 / np.sqrt(50.0), rel=0.05)
    walk = np.cumsum(1e-4 * rng.standard_normal(20_000))
    assert allan_deviation(walk, 100.0, 10.0) > 3 * allan_deviation(walk, 100.0, 0.1)
    assert np.isnan(allan_deviation(white[:100], 100.0, 1.0))


def test_stretches_at_rest_are_found():
    rng = np.random.default_rng(4)
    command = np.where(TIME_S < 6.0, motion(TIME_S), motion(np.array([6.0]))[0])
    reading = command + 1e-4 * rng.standard_normal(len(TIME_S))
    ((first, last),) = still_stretches(TIME_S, command[:, None], reading[:, None])
    assert 590 <= first <= 640 and last == len(TIME_S)
