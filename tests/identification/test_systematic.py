"""What no data of the same kind reveals: clocks that run at another rate, and a twin whose time step is too long."""

from dataclasses import replace

import numpy as np
import pytest

from twinloop.identification.config import IdentifyConfig
from twinloop.identification.fit import prepare
from twinloop.identification.run import identify
from twinloop.identification.slopes import best_slopes, linearize
from twinloop.identification.solve import solve
from twinloop.identification.systematic import CLOCK_RATE, clock_shift, time_step_effect
from twinloop.tasks import make_cell
from twinloop.twins import load_twin, with_time_step

from .worlds import record

TRUTH = {"motor_damping_nms_rad": 0.02, "motor_armature_kgm2": 0.003, "action_delay_s": 0.0432}
COARSE_S = 0.004


def coarse_twin():
    return replace(with_time_step(load_twin("servo_pendulum"), COARSE_S), control_hz=125.0)


def fine_twin():
    return with_time_step(load_twin("servo_pendulum"), 5e-4)


@pytest.fixture(scope="module")
def recordings():
    """Recordings of a servo whose time moves on in far shorter steps than its twin's."""
    return [record(fine_twin(), TRUTH, seed, seconds=2.0, quantum=1e-4) for seed in range(4)]


@pytest.fixture(scope="module")
def problem(recordings):
    return prepare(coarse_twin(), recordings, list(TRUTH), IdentifyConfig(threads=1)).problem


@pytest.fixture(scope="module")
def solution(problem):
    return solve(problem, problem.center)


def moved(problem, solution, other):
    """How far the estimates move when `other` predicts."""
    return solve(replace(problem, predictor=other), solution.place).place - solution.place


def test_a_clock_of_another_rate_moves_estimates_as_foretold(problem, solution):
    slow = [
        replace(r, time_s=0.99 * r.time_s, command_s=0.99 * r.command_s, qvel=r.qvel / 0.99)
        for r in problem.predictor.recordings
    ]
    found = moved(problem, solution, problem.predictor.beside(slow))
    foretold = clock_shift(solution, linearize(solution.problem, solution, central=True)) * 0.01 / CLOCK_RATE
    assert foretold == pytest.approx(found, rel=0.2, abs=0.05 * np.abs(found).max())


def test_an_eighth_of_the_time_step_moves_estimates_as_foretold(problem, solution):
    finer = make_cell(with_time_step(coarse_twin(), COARSE_S / 8.0))
    found = moved(problem, solution, problem.predictor.beside(cell=finer))
    foretold = 7.0 / 8.0 * time_step_effect(solution, best_slopes(solution)).shift
    assert foretold == pytest.approx(found, rel=0.15, abs=0.05 * np.abs(found).max())


def test_intervals_reach_what_shorter_time_steps_find_and_the_report_says_so(recordings):
    config = IdentifyConfig(threads=1, held_out=[recordings[-1].id])
    found = identify(coarse_twin(), recordings, list(TRUTH), config=config)
    wrong = [name for name, truth in TRUTH.items() if abs(found[name].value / truth - 1.0) > 0.02]
    assert wrong, "this step is too long"
    for name, truth in TRUTH.items():
        assert found[name].low <= truth <= found[name].high, name
    said = next(warning for warning in found.warnings if "time step, 4 ms" in warning)
    assert all(name in said for name in wrong)
