"""Robust least squares over windows: Levenberg-Marquardt whose derivatives and trial steps are one batch each.

The start of every window is a nuisance: what its first reading and speed were is only known as well as the sensor is. Its
directions are projected out window by window (variable projection), so they cost one extra column each and not one per
window. All parameters are places in the unit interval; see `scale`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from twinloop.identify.predict import Predictor, Window
from twinloop.identify.scale import PRIOR_DEVIATION, Scale, values_at

Array = NDArray[Any]

KNEE = 2.5
"""Standardized residuals beyond this count by their size and no longer by its square."""
_TRIALS = (0.1, 1.0, 10.0, 100.0)
_ROUNDS = 3
_SCREEN_S = 3.0
_STEPS = 12


@dataclass(frozen=True, eq=False)
class Noise:
    """Per channel: `sensor`, what readings scatter by, and `total`, with what the model cannot explain on top."""

    sensor: Array
    total: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """What is fitted: free parameters, windows, noise, and how wrong a window's start may be (handles,), 0 for exact."""

    predictor: Predictor
    scales: tuple[Scale, ...]
    windows: tuple[Window, ...]
    noise: Noise
    start_deviation: Array
    center: Array

    @property
    def window_rows(self) -> list[slice]:
        """Where each window's rows are in a stack of all."""
        ends = np.cumsum([len(window) for window in self.windows]).tolist()
        return [slice(end - len(window), end) for end, window in zip(ends, self.windows, strict=True)]


@dataclass(frozen=True, eq=False)
class Linear:
    """A problem at one place: weighted residuals (rows, channels) and derivatives with the windows' starts projected out.

    `information` (P, P) and `gradient` (P,) are of the projected problem, prior included. `curvature` is what the robust
    loss really curves by: residuals near the knee and beyond pull without stiffening.
    """

    residual: Array
    jacobian: Array
    information: Array
    curvature: Array
    gradient: Array
    start_steps: tuple[tuple[Array, Array], ...]


@dataclass(frozen=True, eq=False)
class Solution:
    """The best place (P,), the windows' start offsets (windows, handles), and what is left: residuals (rows, channels)."""

    place: Array
    offsets: Array
    residual: Array
    cost: float
    problem: Problem
    converged: bool
    iterations: int


Progress = Callable[[int, float], None]


def solve(
    problem: Problem, start: Array, progress: Progress | None = None, *, rounds: int = _ROUNDS
) -> Solution:
    """The most plausible place, from one start. Noise is estimated anew between rounds from what is left."""
    offsets = np.zeros((len(problem.windows), len(problem.start_deviation)))
    best = _evaluate(problem, start[None], offsets[None])[0]
    iterations = 0
    for round_number in range(rounds):
        problem = replace(problem, noise=estimated_noise(problem.noise.sensor, best.residual))
        best = replace(best, problem=problem, cost=_cost(problem, best.place, best.offsets, best.residual))
        best, done = _descend(problem, best, progress)
        iterations += done
        if round_number and not done:
            break
    return replace(best, iterations=iterations)


def screen(problem: Problem, start: Array, count: int = 32, seed: int = 0) -> list[Array]:
    """Starts worth descending from, best first: nominal, a ladder of delays, and points spread over the prior."""
    ladder = [start]
    for index, scale in enumerate(problem.scales):
        if scale.name.endswith("_delay_s"):
            for place in np.linspace(0.0, 1.0, 41):
                ladder.append(np.where(np.arange(len(start)) == index, place, start))
    spread = qmc.Sobol(len(start), seed=seed).random(count) if len(start) else np.zeros((0, 0))
    for share in (0.25, 1.0):
        ladder += list(np.clip(start + share * (spread[: count // 2] - 0.5), 0.0, 1.0))
    places = np.stack(ladder)
    subset = replace(problem, windows=_some(problem, 6, _SCREEN_S))
    offsets = np.zeros((len(places), len(subset.windows), len(problem.start_deviation)))
    ranked = sorted(_evaluate(subset, places, offsets), key=lambda solution: solution.cost)
    return [solution.place for solution in ranked[:2]]


def solve_from_many(
    problem: Problem, start: Array, progress: Progress | None = None, seed: int = 0
) -> Solution:
    """Screen, descend from the best few on some of the windows, then from the best of those on all."""
    subset = replace(problem, windows=_some(problem, 12, np.inf))
    tried = [solve(subset, place, progress, rounds=1) for place in screen(problem, start, seed=seed)]
    best = min(tried, key=lambda s: float(np.sum(np.log(robust_deviation(s.residual) + 1e-12))))
    return solve(problem, best.place, progress)


def _some(problem: Problem, count: int, longest_s: float) -> tuple[Window, ...]:
    """About `count` of the windows, each cut to its first `longest_s`."""
    made = []
    for window in problem.windows[:: max(1, len(problem.windows) // count)]:
        time_s = problem.predictor.recordings[window.recording].time_s[window.start : window.stop]
        rows = int(np.searchsorted(time_s, time_s[0] + longest_s, side="right"))
        made.append(Window(window.recording, window.start, min(window.start + max(rows, 3), window.stop)))
    return tuple(made)


def linearize(problem: Problem, solution: Solution, central: bool = False) -> Linear:
    """Derivatives at a solution by differences, all in one batch."""
    count, handles = len(problem.scales), np.flatnonzero(problem.start_deviation > 0.0)
    steps = _difference_steps(problem, solution.place)
    sides = (1.0, -1.0) if central else (1.0,)
    places, offsets = [], []
    for side in sides:
        for index in range(count):
            move = side * steps[index]
            at = solution.place.copy()
            at[index] += move if 0.0 <= at[index] + move <= 1.0 else -move
            places.append(at)
            offsets.append(solution.offsets)
        for handle in handles:
            places.append(solution.place)
            moved = solution.offsets.copy()
            moved[:, handle] += side * 0.5 * problem.start_deviation[handle]
            offsets.append(moved)
    residuals = (
        problem.predictor.residuals(
            values_at(problem.scales, np.stack(places)), problem.windows, np.stack(offsets)
        )
        if places
        else np.zeros((0, *solution.residual.shape))
    )
    columns = count + len(handles)
    slopes = []
    for column in range(columns):
        rows = [column + side * columns for side in range(len(sides))]
        moves = [
            places[row][column] - solution.place[column]
            if column < count
            else offsets[row][0, handles[column - count]] - solution.offsets[0, handles[column - count]]
            for row in rows
        ]
        if central and moves[0] * moves[1] < 0.0:
            slopes.append((residuals[rows[0]] - residuals[rows[1]]) / (moves[0] - moves[1]))
        else:
            slopes.append((residuals[rows[0]] - solution.residual) / moves[0])
    return _projected(
        problem,
        solution,
        np.stack(slopes, axis=-1) if slopes else np.zeros((*solution.residual.shape, 0)),
        handles,
    )


def _projected(problem: Problem, solution: Solution, slopes: Array, handles: Array) -> Linear:
    count = len(problem.scales)
    sigma = problem.noise.total
    standard = solution.residual / sigma
    weight = np.sqrt(_weights(standard))
    residual = weight * standard
    jacobian = (weight / sigma)[:, :, None] * slopes
    channels = residual.shape[1]
    precision = 1.0 / problem.start_deviation[handles] if len(handles) else np.zeros(0)
    kept_r, kept_j = np.empty_like(residual), np.empty((*residual.shape, count))
    starts = []
    for index, rows in enumerate(problem.window_rows):
        r = residual[rows].reshape(-1)
        j = jacobian[rows].reshape(len(r), -1)
        if len(handles):
            a = np.concatenate([j[:, count:], np.diag(precision)])
            full_r = np.concatenate([r, precision * solution.offsets[index, handles]])
            full_j = np.concatenate([j[:, :count], np.zeros((len(handles), count))])
            q, upper = np.linalg.qr(a)
            starts.append((np.linalg.solve(upper, q.T @ full_r), np.linalg.solve(upper, q.T @ full_j)))
            r = (full_r - q @ (q.T @ full_r))[: len(r)]
            j = (full_j - q @ (q.T @ full_j))[: len(r)]
        else:
            j = j[:, :count]
        kept_r[rows] = r.reshape(-1, channels)
        kept_j[rows] = j.reshape(-1, channels, count)
    flat = kept_j.reshape(-1, count)
    prior = np.eye(count) / PRIOR_DEVIATION**2
    information = flat.T @ flat + prior
    stiffening = np.average(weight**4, weights=weight**2)
    gradient = flat.T @ kept_r.reshape(-1) + prior @ (solution.place - problem.center)
    curvature = stiffening * (flat.T @ flat) + prior
    return Linear(kept_r, kept_j, information, curvature, gradient, tuple(starts))


def _descend(problem: Problem, best: Solution, progress: Progress | None) -> tuple[Solution, int]:
    damping = 1e-2
    for iteration in range(_STEPS):
        linear = linearize(problem, best)
        handles = np.flatnonzero(problem.start_deviation > 0.0)
        free = ~(
            ((best.place <= 0.0) & (linear.gradient > 0.0)) | ((best.place >= 1.0) & (linear.gradient < 0.0))
        )
        if not free.any():
            return replace(best, converged=True), iteration
        places, offsets = [], []
        for factor in _TRIALS:
            step = np.zeros(len(best.place))
            matrix = linear.information[np.ix_(free, free)]
            matrix = matrix + damping * factor * np.diag(np.diag(matrix))
            step[free] = -np.linalg.solve(matrix, linear.gradient[free])
            place = np.clip(best.place + step, 0.0, 1.0)
            moved = best.offsets.copy()
            for index, (of_residual, of_step) in enumerate(linear.start_steps):
                moved[index, handles] -= of_residual + of_step @ (place - best.place)
            places.append(place)
            offsets.append(moved)
        tried = _evaluate(problem, np.stack(places), np.stack(offsets))
        costs = [solution.cost for solution in tried]
        chosen = int(np.argmin(costs))
        if not costs[chosen] < best.cost:
            damping *= 1e3
            if damping > 1e7:
                return replace(best, converged=True), iteration
            continue
        moved_by = np.abs(tried[chosen].place - best.place)
        deviation = np.sqrt(np.diag(np.linalg.inv(linear.information)))
        gained = (best.cost - costs[chosen]) / max(best.cost, 1e-12)
        best = tried[chosen]
        damping = max(damping * _TRIALS[chosen] * 0.3, 1e-7)
        if progress:
            progress(iteration, best.cost)
        if np.all(moved_by < 0.05 * deviation + 1e-6) or gained < 1e-5:
            return replace(best, converged=True), iteration + 1
    return best, _STEPS


def _evaluate(problem: Problem, places: Array, offsets: Array) -> list[Solution]:
    residuals = problem.predictor.residuals(values_at(problem.scales, places), problem.windows, offsets)
    return [
        Solution(place, moved, residual, _cost(problem, place, moved, residual), problem, False, 0)
        for place, moved, residual in zip(places, offsets, residuals, strict=True)
    ]


def _cost(problem: Problem, place: Array, offsets: Array, residual: Array) -> float:
    standard = residual / problem.noise.total
    cost = KNEE**2 * float(np.sum(np.sqrt(1.0 + (standard / KNEE) ** 2) - 1.0))
    used = problem.start_deviation > 0.0
    cost += 0.5 * float(np.sum((offsets[:, used] / problem.start_deviation[used]) ** 2))
    return cost + 0.5 * float(np.sum(((place - problem.center) / PRIOR_DEVIATION) ** 2))


def _weights(standard: Array) -> Array:
    return np.asarray(1.0 / np.sqrt(1.0 + (standard / KNEE) ** 2))


def _difference_steps(problem: Problem, place: Array) -> Array:
    """Steps in place: two per cent of the value, yet no less than a thousandth and no more than a twentieth of the range."""
    made = []
    for index, scale in enumerate(problem.scales):
        value = float(scale.outward(place[index]))
        made.append(float(np.clip(0.02 * abs(value) / max(scale.slope(place[index]), 1e-300), 1e-3, 0.05)))
    return np.array(made)


def robust_deviation(residual: Array) -> Array:
    """Per channel, the standard deviation that the middle of the residuals (rows, channels) speaks for, about zero."""
    return np.asarray(1.4826 * np.median(np.abs(residual), axis=0))


def estimated_noise(sensor: Array, residual: Array) -> Noise:
    """Noise with what the model leaves unexplained: between the robust and the plain size of what is left."""
    plain = np.sqrt(
        np.mean(
            np.minimum(residual**2, (KNEE * 4.0 * np.maximum(robust_deviation(residual), sensor)) ** 2),
            axis=0,
        )
    )
    return Noise(sensor, np.maximum(np.maximum(sensor, 0.5 * plain), robust_deviation(residual)))
