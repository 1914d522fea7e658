"""How residuals change with the parameters and with the windows' starts: by differences, or by Broyden's update."""

from __future__ import annotations

import numpy as np

from twinloop.episode import Array
from twinloop.identification.problem import KNEE, Linear, Problem, Solution
from twinloop.identification.scale import PRIOR_DEVIATION, values_at


def linearize(problem: Problem, solution: Solution, central: bool = False) -> Linear:
    """The problem at a solution, its derivatives measured there, unless the search has done so."""
    if central and problem is solution.problem:
        return project(problem, solution, best_slopes(solution))
    return project(problem, solution, measured_slopes(problem, solution, central))


def best_slopes(solution: Solution) -> Array:
    """Derivatives at a solution by central differences, measured unless the search has done so."""
    if solution.slopes is not None:
        return solution.slopes
    return measured_slopes(solution.problem, solution, central=True)


def measured_slopes(
    problem: Problem,
    solution: Solution,
    central: bool = False,
    *,
    near: Array | None = None,
    grouped: bool = False,
) -> Array:
    """Derivatives (rows, channels, columns) by parameters, then by the start handles in use, all in one batch.

    `central` takes those by the parameters from both sides. `near` are slopes from close by whose columns of the starts
    are kept: what a start does to a window changes little with the parameters. `grouped` changes parameters of the same kind
    of all joints at once, and their starts, and takes each one's effect on its own joint only: nearly right, at a fraction of
    the cost.
    """
    count, handles = len(problem.scales), problem.handles
    steps = _difference_steps(problem, solution.place)
    everywhere = list(range(solution.residual.shape[1]))
    groups = problem.joint_groups if grouped else []
    joint = {index for group in groups for index, _ in group}
    groups = [*groups, *([(index, everywhere)] for index in range(count) if index not in joint)]
    places, offsets = [], []
    columns: list[list[tuple[int, list[int], float]]] = []
    for side in (1.0, -1.0) if central else (1.0,):
        for group in groups:
            at = solution.place.copy()
            changed = []
            for index, channels in group:
                move = side * steps[index]
                at[index] += move if 0.0 <= at[index] + move <= 1.0 else -move
                changed.append((index, channels, float(at[index] - solution.place[index])))
            places.append(at)
            offsets.append(solution.offsets)
            columns.append(changed)
    for together in problem.handle_groups(grouped) if near is None else ():
        moved = solution.offsets.copy()
        changed = []
        for position, channels in together:
            move = 0.5 * problem.start_deviation[handles[position]]
            moved[:, handles[position]] += move
            changed.append((count + position, channels, move))
        places.append(solution.place)
        offsets.append(moved)
        columns.append(changed)
    slopes = np.zeros((*solution.residual.shape, count + len(handles))) if near is None else near.copy()
    if not places:
        return slopes
    residuals = problem.predictor.residuals(
        values_at(problem.scales, np.stack(places)), problem.windows, np.stack(offsets)
    )
    sides: dict[int, list[tuple[list[int], float, Array]]] = {}
    for changed, residual in zip(columns, residuals, strict=True):
        for column, channels, move in changed:
            sides.setdefault(column, []).append((channels, move, residual))
    for column, found in sides.items():
        (channels, move, residual), (_, back, behind) = found[0], found[-1]
        slopes[:, :, column] = 0.0
        difference, distance = (
            (residual - behind, move - back) if move * back < 0.0 else (residual - solution.residual, move)
        )
        slopes[:, channels, column] = difference[:, channels] / distance
    return slopes


def corrected_slopes(
    problem: Problem, slopes: Array, before: Solution, after: Solution, deviation: Array
) -> Array:
    """Slopes after a step, changed as little as explains what the step did to each window (Broyden's update).

    `deviation` (P,) says how far each parameter usually moves, so that "little" means the same for all of them.
    """
    handles = problem.handles
    usual = np.concatenate([deviation, problem.start_deviation[handles]])
    slopes = slopes.copy()
    step = after.place - before.place
    for index, rows in enumerate(problem.window_rows):
        move = np.concatenate([step, after.offsets[index, handles] - before.offsets[index, handles]])
        along = move / usual
        if not (size := float(along @ along)) > 0.0:
            continue
        missed = after.residual[rows] - before.residual[rows] - slopes[rows] @ move
        slopes[rows] += missed[:, :, None] * (along / usual / size)
    return slopes


def project(problem: Problem, solution: Solution, slopes: Array) -> Linear:
    """The weighted problem at a solution with these slopes, the windows' starts projected out."""
    count, handles = len(problem.scales), problem.handles
    sigma = problem.noise.total
    standard = solution.residual / sigma
    weight = np.sqrt(weights(standard))
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


def weights(standard: Array) -> Array:
    """How much standardized residuals count under the robust loss, relative to least squares."""
    return np.asarray(1.0 / np.sqrt(1.0 + (standard / KNEE) ** 2))


def _difference_steps(problem: Problem, place: Array) -> Array:
    """Steps in place: two per cent of the value, yet no less than a thousandth and no more than a twentieth of the range."""
    made = []
    for index, scale in enumerate(problem.scales):
        value = float(scale.outward(place[index]))
        made.append(float(np.clip(0.02 * abs(value) / max(scale.slope(place[index]), 1e-300), 1e-3, 0.05)))
    return np.array(made)
