"""Noise, its spectrum and rests of readings whose truth is known."""

import numpy as np
import pytest

from tests.measure.test_delay import TIME_S, motion
from twinloop.measure.noise import allan_deviation, find_rests, measure_noise, noise_density
from twinloop.measure.trace import Trace


def trace(values):
    return Trace("elbow", "rad", np.arange(len(values)) / 100.0, values)


@pytest.mark.parametrize("rows", [60, 300])
def test_the_interval_of_noise_covers_the_truth_under_motion(rows):
    found = []
    for seed in range(200):
        noise = 2e-3 * np.random.default_rng(seed).standard_normal(rows)
        found.append(measure_noise(trace(motion(TIME_S[:rows]) + noise)))
    assert 0.9 <= np.mean([one.contains(2e-3) for one in found]) <= 0.99
    assert np.mean([one.value for one in found]) == pytest.approx(2e-3, rel=0.05)
    assert found[0].unit == "rad"


def test_an_arm_that_shakes_at_times_is_not_a_noisy_sensor():
    rng = np.random.default_rng(5)
    values = motion(TIME_S) + 1e-3 * rng.standard_normal(len(TIME_S))
    values[300:900] += 0.01 * rng.standard_normal(600)
    assert measure_noise(trace(values)).value > 2e-3
    assert measure_noise(trace(values), quiet=True).value == pytest.approx(1e-3, rel=0.2)


def test_too_few_rows_give_no_noise():
    assert measure_noise(trace(np.zeros(7))) is None


def test_noise_is_found_under_motion_and_impacts():
    rng = np.random.default_rng(2)
    values = motion(TIME_S) + 1e-3 * rng.standard_normal(len(TIME_S))
    values[400:] += 0.2
    assert measure_noise(trace(values)).value == pytest.approx(1e-3, rel=0.1)
    assert measure_noise(trace(motion(TIME_S))).value < 2e-5


def test_white_noise_has_its_allan_deviation_and_density():
    rng = np.random.default_rng(3)
    white = 2e-3 * rng.standard_normal(20_000)
    for over_s in (0.1, 1.0):
        assert allan_deviation(trace(white), over_s) == pytest.approx(2e-3 / np.sqrt(100 * over_s), rel=0.1)
    assert noise_density(trace(white), 10.0, 40.0) == pytest.approx(2e-3 / np.sqrt(50.0), rel=0.05)
    walk = np.cumsum(1e-4 * rng.standard_normal(20_000))
    assert allan_deviation(trace(walk), 10.0) > 3 * allan_deviation(trace(walk), 0.1)
    assert np.isnan(allan_deviation(trace(white[:100]), 1.0))


def test_stretches_at_rest_are_found():
    rng = np.random.default_rng(4)
    command = np.where(TIME_S < 6.0, motion(TIME_S), motion(np.array([6.0]))[0])
    reading = command + 1e-4 * rng.standard_normal(len(TIME_S))
    ((first, last),) = find_rests([trace(reading)], command[:, None])
    assert 590 <= first <= 640 and last == len(TIME_S)
