"""Delay, dead band, gain and drift of responses whose truth is known."""

import numpy as np
import pytest

from twinloop.imperfect.backlash import Backlash, drive
from twinloop.measure.delay import measure_following
from twinloop.measure.trace import Trace

TIME_S = np.arange(0.0, 12.0, 0.01)


def motion(time_s, top_hz=1.0):
    rates = np.array([0.23, 0.61, 1.0]) * top_hz
    return sum(0.3 * np.sin(2 * np.pi * rate * time_s + k) for k, rate in enumerate(rates))


def respond(delay_s=0.05, width=0.0, gain=1.0, noise=0.0, drift=0.0, seed=0):
    rng = np.random.default_rng(seed)
    held = drive(Backlash(width), motion(TIME_S - delay_s)[:, None])[:, 0]
    return gain * held + noise * rng.standard_normal(len(held)) + drift * TIME_S / TIME_S[-1]


def fit(reading, command=None, load=None):
    command = motion(TIME_S) if command is None else command
    return measure_following(Trace("elbow", "rad", TIME_S, reading, command, load=load))


@pytest.mark.parametrize("delay_s", [0.0, 0.037, 0.11])
@pytest.mark.parametrize("width", [0.0, 0.01, 0.04])
def test_delay_and_dead_band_are_separated(delay_s, width):
    found = fit(respond(delay_s, width, noise=2e-4))
    assert found.delay.value == pytest.approx(delay_s, abs=1.5e-3) and found.delay.unit == "s"
    assert found.dead_band.value == pytest.approx(width, abs=1.5e-3) and found.dead_band.unit == "rad"
    assert found.gain == pytest.approx(1.0, abs=5e-3)
    assert found.delay_known


@pytest.mark.parametrize("width", [0.0, 0.02])
def test_intervals_of_delay_and_dead_band_cover_the_truth(width):
    found = [fit(respond(0.037, width, noise=2e-3, seed=seed)) for seed in range(40)]
    assert np.mean([one.delay.contains(0.037) for one in found]) >= 0.9
    assert np.mean([one.dead_band.contains(width) for one in found]) >= 0.85
    assert np.median([one.delay.half_width for one in found]) < 2e-3
    assert np.median([one.dead_band.half_width for one in found]) < 2e-3


def test_a_response_before_its_command_has_a_negative_delay():
    assert fit(respond(-0.06, noise=1e-3)).delay.value == pytest.approx(-0.06, abs=1e-3)


def test_gain_residual_offset_and_drift_are_found():
    assert fit(respond(gain=0.9)).gain == pytest.approx(0.9, abs=5e-3)
    assert fit(respond(noise=0.004)).residual == pytest.approx(0.004, rel=0.05)
    assert fit(respond(drift=0.02)).drift > 5 * fit(respond()).drift + 0.01
    assert fit(respond() + 0.03).offset == pytest.approx(0.03, abs=1e-3)


def test_weight_that_a_servo_holds_up_is_not_a_dead_band():
    load = 5.0 * np.cos(motion(TIME_S) + 0.4)
    reading = respond(noise=1e-4) + 0.05 * np.cos(motion(TIME_S - 0.05) + 0.4)
    found = fit(reading, load=load)
    assert found.dead_band.value < 1e-3 and found.delay.value == pytest.approx(0.05, abs=1e-3)


def test_a_periodic_motion_has_its_shortest_delay():
    command, reading = np.sin(2 * np.pi * 2 * TIME_S), np.sin(2 * np.pi * 2 * (TIME_S - 0.1))
    assert fit(reading, command).delay.value == pytest.approx(0.1, abs=1e-3)


def test_a_joint_that_does_not_follow_or_hardly_moves_gives_no_delay():
    rng = np.random.default_rng(1)
    assert fit(rng.standard_normal(len(TIME_S))) is None
    assert fit(respond(), command=np.zeros(len(TIME_S))) is None
