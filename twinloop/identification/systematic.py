"""What a fit takes for granted and more data of the same kind would not reveal: the rate of clocks, and the twin's time step.

Each moves every prediction in one known direction. Projected on the parameters, that is how far the estimates move with it.

What the time step does is also part of what a fit leaves unexplained, and no noise: at no time step, where less is left, intervals are
as wide as that says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinloop.episode import Array
from twinloop.identification.posterior import Posterior, make_posterior
from twinloop.identification.predict import LOST, Predictor
from twinloop.identification.problem import Linear, Solution
from twinloop.identification.recording import Recording
from twinloop.identification.scale import Scale, values_at
from twinloop.identification.slopes import project, weights
from twinloop.identification.solve import estimated_noise
from twinloop.tasks import make_cell
from twinloop.twins import with_time_step

CLOCK_RATE = 5e-5
"""Standard deviation of a clock's rate: crystal oscillators are specified to 20 to 100 parts per million."""
_STRETCH = 1e-3
_WORSE = 0.1
"""Shorter steps that leave this fraction more unexplained say nothing about what is left."""
_ROUNDS = 4
"""Steps to where shorter steps lead: residuals that shrink on the way count more."""
_UNSURE = 0.1
"""Standard deviation of the extrapolation to no time step, as a fraction of how far it leads: it is not exact."""
WORTH_SAYING = 0.5
"""A shift by the time step is named where it exceeds this fraction of half the interval, and a hundredth of the value."""


def clock_shift(solution: Solution, linear: Linear) -> Array:
    """How far places (P,) move when the clock that stamped the recordings runs fast by `CLOCK_RATE`."""
    predictor = solution.problem.predictor
    stretched = [_stretched(recording) for recording in predictor.recordings]
    return _shift(solution, linear, predictor.beside(stretched)) * (CLOCK_RATE / _STRETCH)


@dataclass(frozen=True, eq=False)
class StepEffect:
    """What ever shorter time steps would do to a fit.

    Attributes:
        shift: How far places (P,) would move.
        posterior: The posterior there, about the places of the fit; None where shorter steps leave more unexplained.
    """

    shift: Array
    posterior: Posterior | None

    def reach(self, posterior: Posterior) -> tuple[Array, Array]:
        """How far intervals reach below and above places (P,): to the places themselves, and to where shorter steps lead."""
        if self.posterior is None:
            half = posterior.half_width()
            return half - np.minimum(self.shift, 0.0), half + np.maximum(self.shift, 0.0)
        uncertain = np.diag((_UNSURE * self.shift) ** 2)
        half = replace(self.posterior, covariance=self.posterior.covariance + uncertain).half_width()
        return np.maximum(half - self.shift, 0.0), np.maximum(half + self.shift, 0.0)


def time_step_effect(solution: Solution, slopes: Array) -> StepEffect:
    """What ever shorter time steps would do: twice what half the step does, as its error is proportional to it.

    `slopes` (rows, channels, columns) are the derivatives at the solution, by parameters and by starts.
    """
    problem, count = solution.problem, len(solution.place)
    predictor = problem.predictor
    half = predictor.beside(cell=make_cell(with_time_step(predictor.cell.twin, 0.5 * predictor.dt_s)))
    finer = half.residuals(
        values_at(problem.scales, solution.place[None]), problem.windows, solution.offsets[None]
    )[0]
    change = np.where((finer == LOST) | (solution.residual == LOST), 0.0, 2.0 * (finer - solution.residual))
    pull = project(problem, solution, slopes).gradient
    shift, left, offsets = np.zeros(count), solution.residual + change, solution.offsets.copy()
    for _ in range(_ROUNDS):
        unexplained = estimated_noise(problem.noise.sensor, left)
        moved = replace(solution, residual=left, offsets=offsets, problem=replace(problem, noise=unexplained))
        there = project(moved.problem, moved, slopes)
        step = -np.linalg.solve(there.information, there.gradient - pull)
        shift, left, offsets = shift + step, left + slopes[:, :, :count] @ step, offsets.copy()
        for index, (rows, (at, by_step)) in enumerate(
            zip(problem.window_rows, there.start_steps, strict=False)
        ):
            start = -(at + by_step @ step)
            offsets[index, problem.handles] += start
            left[rows] += slopes[rows][:, :, count:] @ start
    if np.mean(np.log(unexplained.total / problem.noise.total)) > _WORSE:
        return StepEffect(shift, None)
    return StepEffect(shift, make_posterior(moved, there))


def widened(posterior: Posterior, shift: Array) -> Posterior:
    """The posterior with one more source of error, which moves places by `shift` (P,) times a standard normal number."""
    return replace(posterior, covariance=posterior.covariance + np.outer(shift, shift))


def find_coarse(scales: Sequence[Scale], posterior: Posterior, step: StepEffect, dt_s: float) -> list[str]:
    """What the twin's time step does to the values, where it matters."""
    half, shift = (step.posterior or posterior).half_width(), step.shift
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
