"""Delay, time constant and backlash of simulated position servos whose values are known."""

import numpy as np
import pytest

from tests.measure.test_delay import motion
from twinloop.imperfect.backlash import Backlash, drive
from twinloop.measure.servo import measure_servo
from twinloop.measure.trace import Trace

TIME_S = np.arange(0.0, 8.0, 0.02)
FINE_S = np.arange(0.0, 8.0, 0.002)
INERTIA, FRICTION = 1.0, 0.5


def joint(place, delay_s=0.06, backlash=0.0, damping=40.0, stiffness=400.0, noise=0.0, seed=0):
    """A servo that is simulated at 500 Hz and recorded at 50 Hz."""
    rng = np.random.default_rng([seed, place])
    command = motion(TIME_S + 3.0 * place)
    sent = np.interp(FINE_S - delay_s, TIME_S, command)
    sent = drive(Backlash(backlash), sent[:, None])[:, 0]
    position, speed = float(sent[0]), 0.0
    rows = []
    for target in sent:
        effort = stiffness * (target - position) - damping * speed
        rows.append((position, speed, effort))
        speed += 0.002 * (effort - FRICTION * np.tanh(speed / 0.02)) / INERTIA
        position += 0.002 * speed
    position, speed, effort = np.array(rows)[::10].T
    speed = speed + noise * rng.standard_normal(len(speed))
    return Trace(f"joint{place}", "rad", TIME_S, position, command, speed, effort)


def arm(**values):
    return [joint(place, **values) for place in range(3)]


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.13])
@pytest.mark.parametrize("damping", [20.0, 60.0])
def test_the_delay_is_that_of_transport_whatever_the_servo_takes_to_follow(delay_s, damping):
    found = measure_servo(arm(delay_s=delay_s, damping=damping))
    assert found.delay_s == pytest.approx(delay_s, abs=0.006)
    assert np.median(found.time_constant_s) == pytest.approx(damping / 400.0, abs=0.01)
    assert found.backlash == 0.0


def test_backlash_is_not_taken_for_delay():
    found = measure_servo(arm(backlash=0.045))
    assert found.backlash == pytest.approx(0.045, abs=0.016) and found.delay_s == pytest.approx(
        0.06, abs=0.01
    )


def test_noisy_speeds_keep_the_delay_to_a_control_step_when_the_time_constant_is_known():
    usual_s = np.full(3, 0.1)
    delays = [measure_servo(arm(noise=0.15, seed=seed), usual_s).delay_s for seed in range(4)]
    assert np.mean(delays) == pytest.approx(0.06, abs=0.02)
