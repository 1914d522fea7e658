"""Dry friction and loads whose truth is known."""

import numpy as np
import pytest

from tests.measure.test_delay import TIME_S, motion
from twinloop.measure.friction import effort_equations, measure_friction, solve_effort
from twinloop.measure.trace import Trace


def joint(friction=0.4, load=0.2, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    position = motion(TIME_S)
    speed = np.gradient(position, TIME_S)
    effort = friction * np.tanh(speed / 0.02) + 0.3 * speed + 0.1 * np.gradient(speed, TIME_S) + load
    return Trace("elbow", "rad", TIME_S, position, effort=effort + noise * rng.standard_normal(len(TIME_S)))


@pytest.mark.parametrize("friction", [0.0, 0.1, 0.6])
def test_the_interval_of_friction_covers_the_truth(friction):
    found = [measure_friction(joint(friction, seed=seed)) for seed in range(60)]
    assert np.mean([one.value for one in found]) == pytest.approx(friction, abs=5e-3)
    assert np.mean([one.contains(friction) for one in found]) >= 0.88


def test_several_recordings_give_one_fit():
    parts = [effort_equations(joint(seed=seed), np.arange(len(TIME_S)) > 4) for seed in range(4)]
    fit = solve_effort(type(parts[0])(*(np.sum(column, axis=0) for column in zip(*parts, strict=True))))
    assert fit.friction == pytest.approx(0.4, abs=5e-3) and fit.load == pytest.approx(0.2, abs=5e-3)
    assert fit.viscosity == pytest.approx(0.3, abs=0.01) and fit.inertia == pytest.approx(0.1, abs=0.01)


def test_a_joint_that_rests_or_reports_no_effort_gives_no_friction():
    still = Trace("elbow", "rad", TIME_S, np.zeros(len(TIME_S)), effort=np.ones(len(TIME_S)))
    assert measure_friction(still) is None
    assert measure_friction(Trace("elbow", "rad", TIME_S, motion(TIME_S))) is None
