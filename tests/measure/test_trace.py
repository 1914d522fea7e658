"""Slopes of readings, against motions whose speed is known."""

import numpy as np

from twinloop.measure.trace import adaptive_slopes, slopes

NOISE = 5e-4


def test_a_smooth_motion_is_averaged_over_all_rows():
    time_s = np.arange(500) * 0.02
    rng = np.random.default_rng(0)
    values = 0.5 * np.sin(time_s) + NOISE * rng.standard_normal(500)
    found, error = adaptive_slopes(time_s, values, NOISE)
    wide = slopes(time_s, values)
    assert np.mean(found == wide) > 0.7
    missed = found - 0.5 * np.cos(time_s)
    assert np.sqrt(np.mean(missed**2)) < 1.5 * np.sqrt(np.mean((wide - 0.5 * np.cos(time_s)) ** 2))
    assert np.mean(np.abs(missed) < 3.0 * error) > 0.95


def test_the_speed_at_an_abrupt_start_is_not_smeared_and_its_error_is_known():
    time_s = np.arange(100) * 0.02
    rng = np.random.default_rng(1)
    fall = np.where(time_s < 0.06, -17.5 * time_s**2, -0.063 * np.exp(-(time_s - 0.06) / 0.03))
    values = fall + NOISE * rng.standard_normal(100)
    found, error = adaptive_slopes(time_s, values, NOISE)
    assert abs(found[0]) < 0.5 * abs(slopes(time_s, values)[0])
    assert abs(found[0]) < 3.0 * error[0]


def test_few_rows_and_equal_stamps_are_no_problem():
    for count in (0, 1, 2, 3, 5):
        found, error = adaptive_slopes(np.arange(count) * 0.1, np.arange(count) * 1.0, 0.01)
        assert len(found) == len(error) == count and np.isfinite(found).all()
    assert np.isfinite(
        adaptive_slopes(np.array([0.0, 0.0, 0.1, 0.2]), np.array([0.0, 1.0, 2.0, 3.0]), 0.01)[0]
    ).all()
