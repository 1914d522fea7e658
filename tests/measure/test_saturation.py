"""Plateaus at a limit and efforts at a limit, where they are known."""

import numpy as np
import pytest

from twinloop.measure.saturation import find_plateaus, measure_effort_limit
from twinloop.measure.trace import Trace

TIME_S = np.arange(0.0, 10.0, 0.02)
WAVE = np.sin(2 * np.pi * 0.7 * TIME_S)


def trace(values, **more):
    return Trace("elbow", "rad", TIME_S, values, **more)


def test_a_motion_that_is_cut_off_is_flat_at_its_limit_each_time():
    found = find_plateaus(trace(np.minimum(WAVE, 0.8)))
    assert 6 <= len(found) <= 7
    assert all(np.all(WAVE[first:stop] >= 0.8) for first, stop in found)


def test_a_motion_that_stops_smoothly_is_not_cut_off():
    assert find_plateaus(trace(WAVE)) == []
    assert find_plateaus(trace(0.01 * np.rint(WAVE / 0.01))) == []
    assert find_plateaus(trace(np.ones(len(TIME_S)))) == []


@pytest.mark.parametrize("given", [5.0, 12.0])
def test_the_effort_of_a_joint_that_presses_is_its_limit(given):
    rng = np.random.default_rng(0)
    command = np.where(TIME_S > 4.0, -1.0, 0.0)
    effort = np.where(TIME_S > 4.0, -given, 0.0) + 0.05 * rng.standard_normal(len(TIME_S))
    pressing = trace(np.zeros(len(TIME_S)), command=command, effort=effort)
    assert measure_effort_limit(pressing, stiffness=100.0, limit=20.0) == pytest.approx(given, abs=0.2)
    assert measure_effort_limit(pressing, stiffness=10.0, limit=20.0) is None
