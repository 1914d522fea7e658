"""What a fit takes for granted and more data of the same kind would not reveal: the rate of clocks, and the twin's time step.

Each moves every prediction in one known direction. Projected on the parameters, that is how far the estimates move with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from twinloop.episode import Array
from twinloop.generation.convergence import with_time_step
from twinloop.identification.posterior import Posterior
from twinloop.identification.predict import LOST, Predictor
from twinloop.identification.problem import Linear, Solution
from twinloop.identification.recording import Recording
from twinloop.identification.scale import Scale, values_at
from twinloop.identification.slopes import weights
from twinloop.tasks import make_cell

CLOCK_RATE = 5e-5
"""Standard deviation of a clock's rate: crystal oscillators are specified to 20 to 100 parts per million."""
_STRETCH = 1e-3
_BEYOND = 1.1
"""Intervals reach beyond the extrapolation to no time step, which is not exact."""
WORTH_SAYING = 0.5
"""A shift by the time step is named where it exceeds this fraction of half the interval, and a hundredth of the value."""


def clock_shift(solution: Solution, linear: Linear) -> Array:
    """How far places (P,) move when the clock that stamped the recordings runs fast by `CLOCK_RATE`."""
    predictor = solution.problem.predictor
    stretched = [_stretched(recording) for recording in predictor.recordings]
    return _shift(solution, linear, predictor.beside(stretched)) * (CLOCK_RATE / _STRETCH)


def time_step_shift(solution: Solution, linear: Linear) -> Array:
    """How far places (P,) would move with ever shorter time steps: twice what half the step does, whose error is proportional to it."""
    predictor = solution.problem.predictor
    finer = make_cell(with_time_step(predictor.cell.twin, 0.5 * predictor.dt_s))
    return 2.0 * _BEYOND * _shift(solution, linear, predictor.beside(cell=finer))


def widened(posterior: Posterior, shift: Array) -> Posterior:
    """The posterior with one more source of error, which moves places by `shift` (P,) times a standard normal number."""
    return replace(posterior, covariance=posterior.covariance + np.outer(shift, shift))


def find_coarse(scales: Sequence[Scale], posterior: Posterior, shift: Array, dt_s: float) -> list[str]:
    """What the twin's time step does to the values, where it matters."""
    half = posterior.half_width()
    listed = []
    for index, scale in enumerate(scales):
        place = float(posterior.mean[index])
        value, moved = float(scale.outward(place)), float(shift[index] * scale.slope(place))
        if abs(shift[index]) > WORTH_SAYING * half[index] and abs(moved) > 0.01 * abs(value):
            listed.append(f"{scale.name} by {moved:+.2g} {scale.parameter.unit}")
    if not listed:
        return []
    return [
        f"the twin's time step, {1e3 * dt_s:g} ms, stands for part of the robot: with ever shorter ones the fit would move "
        f"{', '.join(listed)}. Intervals reach that far; values replay best at this step. For the robot's own, shorten "
        '<option timestep="..."/> in the model'
    ]


def _stretched(recording: Recording) -> Recording:
    """The recording as a clock that is fast by `_STRETCH` less would have stamped it."""
    rate = 1.0 - _STRETCH
    return replace(
        recording,
        time_s=rate * recording.time_s,
        command_s=rate * recording.command_s,
        qvel=recording.qvel / rate,
    )


def _shift(solution: Solution, linear: Linear, other: Predictor) -> Array:
    """How far places (P,) move when `other` predicts instead."""
    problem, count = solution.problem, len(solution.place)
    residual = other.residuals(
        values_at(problem.scales, solution.place[None]), problem.windows, solution.offsets[None]
    )[0]
    change = np.where(residual == LOST, 0.0, residual - solution.residual) / problem.noise.total
    weighted = np.sqrt(weights(solution.residual / problem.noise.total)) * change
    score = linear.jacobian.reshape(-1, count).T @ weighted.reshape(-1)
    return np.asarray(-np.linalg.solve(linear.information, score))
