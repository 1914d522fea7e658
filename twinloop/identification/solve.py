"""Robust least squares over windows: Levenberg-Marquardt whose derivatives and trial steps are one batch each.

The initial state of every window is a nuisance parameter, known only within the sensor's noise. Its directions are projected
out window by window (variable projection), so they cost one extra column each and not one per window. Simulation dominates
the cost: slopes are measured again only where those of the last step, after Broyden's correction, did not predict the next gain. All parameters are places in the unit interval; see `scale`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import qmc

from twinloop.episode import Array
from twinloop.identification.posterior import make_posterior, memory_rows
from twinloop.identification.predict import Window
from twinloop.identification.problem import KNEE, Linear, Noise, Problem, Solution
from twinloop.identification.scale import PRIOR_DEVIATION, values_at
from twinloop.identification.slopes import corrected_slopes, linearize, measured_slopes, project

_TRIALS: Sequence[float] = (0.1, 1.0, 10.0, 100.0)
_SCREEN_S = 3.0
_STEPS = 24
_FAR = 0.25
"""Starts differ by this part of some parameter's range, so that two searches can disagree."""
_DOUBT, _SURE = 10.0, 3.0
"""Lead in log likelihood beyond which the worse of two solutions is dropped: on some windows, and on all."""
_INTERVAL = 3.0
_TRUSTED, _USEFUL = 0.5, 0.1
"""Fraction of the predicted gain that a step must reach: to correct slopes only, and to measure again those by parameters only."""


@dataclass(frozen=True)
class Ending:
    """When a descent has converged: a step moves no parameter by more than `moved` deviations, or gains a fraction below `gained`.

    Deviations are those of the posterior: with correlated residuals, far smaller steps look like progress and are none.
    `exact` requires that central differences at that point confirm it.
    """

    moved: float
    gained: float
    exact: bool


_ROUGH = Ending(0.3, 5e-3, False)
_FINE = Ending(0.1, 1e-5, False)
_LAST = Ending(0.1, 1e-5, True)
GOOD, THOROUGH = (_FINE, _FINE), (_FINE, _FINE, _LAST)
"""Endings of one descent after the other: for values alone, and for values whose intervals are wanted."""


def solve(problem: Problem, start: Array, endings: Sequence[Ending] = THOROUGH) -> Solution:
    """The most plausible place, from one start: a descent to each of `endings`."""
    offsets = np.zeros((len(problem.windows), len(problem.start_deviation)))
    return refine(_evaluate(problem, start[None], offsets[None])[0], endings)


def refine(best: Solution, endings: Sequence[Ending]) -> Solution:
    """Descend from a solution to each of `endings`. Before each descent, noise is estimated again from the residuals."""
    problem, iterations = best.problem, best.iterations
    slopes: Array | None = None
    for ending in endings:
        problem = replace(problem, noise=estimated_noise(problem.noise.sensor, best.residual))
        best = replace(best, problem=problem, cost=_cost(problem, best))
        best, slopes, done = _descend(problem, best, slopes, ending)
        iterations += done
        if ending.exact and best.converged:
            best = replace(best, slopes=slopes)
    return replace(best, iterations=iterations)


def screen(problem: Problem, start: Array, count: int = 32, seed: int = 0) -> list[Array]:
    """Starts worth descending from, best first: nominal, a ladder of delays, and points spread over the prior."""
    ladder = [start]
    for index, scale in enumerate(problem.scales):
        if scale.name.endswith("_delay_s"):
            for place in np.linspace(0.0, 1.0, 25):
                ladder.append(np.where(np.arange(len(start)) == index, place, start))
    spread = qmc.Sobol(len(start), seed=seed).random(count) if len(start) else np.zeros((0, 0))
    for width in (0.25, 1.0):
        ladder += list(np.clip(start + width * (spread[: count // 2] - 0.5), 0.0, 1.0))
    places = np.stack(ladder)
    subset = replace(problem, windows=_some(problem, 6, _SCREEN_S))
    offsets = np.zeros((len(places), len(subset.windows), len(problem.start_deviation)))
    ranked = sorted(_evaluate(subset, places, offsets), key=lambda solution: solution.cost)
    best = ranked[0].place
    far = (s.place for s in ranked[1:] if len(best) and float(np.abs(s.place - best).max()) > _FAR)
    return [best, next(far, ranked[1].place)]


def solve_from_many(
    problem: Problem,
    start: Array,
    seed: int = 0,
) -> Solution:
    """Search for starts, then descend from them on all windows."""
    return solve_from(problem, find_starts(problem, start, seed))


def solve_from(problem: Problem, starts: Sequence[Array]) -> Solution:
    """The best of the descents from `starts`. Of those that fit about as well, the nearest to nominal is refined; the others are its
    `rivals` if they end elsewhere."""
    tried = [solve(problem, place, GOOD) for place in starts]
    best = min(tried, key=lambda solution: _cost(tried[0].problem, solution))
    level = [solution for solution in tried if _fits_as_well(solution, best, _SURE)]
    nearest = min(level, key=lambda solution: float(np.sum((solution.place - problem.center) ** 2)))
    found = refine(nearest, (_LAST,))
    rivals = [other.place for other in level if other is not nearest and _apart(other, found)]
    return replace(found, rivals=tuple(rivals))


def find_starts(problem: Problem, start: Array, seed: int) -> list[Array]:
    """Screen, and descend from two places far apart on some of the windows: the better end, and the other if it fits as well."""
    subset = replace(problem, windows=_some(problem, 8, _SCREEN_S))
    tried = [solve(subset, place, (_ROUGH,)) for place in screen(problem, start, seed=seed)]
    tried.sort(key=lambda s: float(np.sum(np.log(robust_deviation(s.residual) + 1e-12))))
    best = tried[0]
    others = (other for other in tried[1:] if _fits_as_well(other, best, _DOUBT) and _apart(other, best))
    return [best.place, *(other.place for other in others)]


def _fits_as_well(other: Solution, best: Solution, lead: float) -> bool:
    """Whether the log likelihood of `other` is behind by less than `lead`, counting correlated residuals once."""
    rows = best.problem.window_rows
    memory = float(np.median([memory_rows(best.residual[part]) for part in rows]))
    return (_cost(best.problem, other) - best.cost) / memory < lead


def _apart(other: Solution, best: Solution) -> bool:
    """Whether two solutions differ by more than the intervals of the second."""
    deviation = make_posterior(best, linearize(best.problem, best)).deviation
    return bool(np.any(np.abs(other.place - best.place) > _INTERVAL * deviation + 0.02))


def _some(problem: Problem, count: int, longest_s: float) -> tuple[Window, ...]:
    """About `count` of the windows, each cut to its first `longest_s`."""
    made = []
    for window in problem.windows[:: max(1, len(problem.windows) // count)]:
        time_s = problem.predictor.recordings[window.recording].time_s[window.start : window.stop]
        rows = int(np.searchsorted(time_s, time_s[0] + longest_s, side="right"))
        made.append(Window(window.recording, window.start, min(window.start + max(rows, 3), window.stop)))
    return tuple(made)


def _descend(
    problem: Problem, best: Solution, slopes: Array | None, ending: Ending
) -> tuple[Solution, Array | None, int]:
    """The lowest place from `best` on, slopes near it, and the steps it took. `slopes` may be from nearby."""
    damping, fresh, trials = 1e-2, False, _TRIALS
    resumed, grouped = slopes is not None, not ending.exact
    near: Array | None = None
    for iteration in range(_STEPS):
        if slopes is None:
            slopes = measured_slopes(problem, best, ending.exact, near=near, grouped=grouped)
            fresh = True
        linear = project(problem, best, slopes)
        free = ~(
            ((best.place <= 0.0) & (linear.gradient > 0.0)) | ((best.place >= 1.0) & (linear.gradient < 0.0))
        )
        if not free.any():
            return replace(best, converged=True), slopes, iteration
        tried = _try(problem, best, linear, free, [damping * factor for factor in trials])
        chosen = int(np.argmin([solution.cost for solution in tried]))
        after = tried[chosen]
        if not after.cost < best.cost:
            trials = _TRIALS
            if not fresh or (grouped and not resumed):
                slopes, near, grouped = None, None, grouped and not fresh
                continue
            damping *= 1e3
            if damping > 1e7:
                return replace(best, converged=True), slopes, iteration
            continue
        step = after.place - best.place
        deviation = make_posterior(best, linear).deviation
        gained = best.cost - after.cost
        settled = bool(
            np.all(np.abs(step) < ending.moved * deviation + 1e-6)
            or gained < ending.gained * max(best.cost, 1e-12)
        )
        predicted = -float(linear.gradient @ step + 0.5 * step @ linear.information @ step)
        damping = max(damping * trials[chosen] * 0.3, 1e-7)
        sure = settled and (fresh or not ending.exact)
        near = corrected_slopes(problem, slopes, best, after, deviation)
        trusted = sure or (not settled and gained > _TRUSTED * predicted)
        slopes, trials = (near, _TRIALS[1:2]) if trusted else (None, _TRIALS)
        if gained < _USEFUL * predicted:
            near, grouped = None, False
        best, fresh = after, False
        if sure:
            return replace(best, converged=True), near, iteration + 1
    return best, near, _STEPS


def _try(
    problem: Problem, best: Solution, linear: Linear, free: Array, dampings: Sequence[float]
) -> list[Solution]:
    """Solutions after steps of different damping, of parameters and starts; parameters that are not `free` stay on their edge."""
    handles = problem.handles
    places, offsets = [], []
    for damping in dampings:
        step = np.zeros(len(best.place))
        matrix = linear.information[np.ix_(free, free)]
        matrix = matrix + damping * np.diag(np.diag(matrix))
        step[free] = -np.linalg.solve(matrix, linear.gradient[free])
        place = np.clip(best.place + step, 0.0, 1.0)
        moved = best.offsets.copy()
        for index, (of_residual, of_step) in enumerate(linear.start_steps):
            moved[index, handles] -= (of_residual + of_step @ (place - best.place)) / (1.0 + damping)
        places.append(place)
        offsets.append(moved)
    return _evaluate(problem, np.stack(places), np.stack(offsets))


def _evaluate(problem: Problem, places: Array, offsets: Array) -> list[Solution]:
    residuals = problem.predictor.residuals(values_at(problem.scales, places), problem.windows, offsets)
    found = [
        Solution(place, moved, residual, np.nan, problem, False, 0)
        for place, moved, residual in zip(places, offsets, residuals, strict=True)
    ]
    return [replace(solution, cost=_cost(problem, solution)) for solution in found]


def _cost(problem: Problem, solution: Solution) -> float:
    """The cost of a solution with the noise of `problem`, which may be another than its own."""
    place, offsets = solution.place, solution.offsets
    standard = solution.residual / problem.noise.total
    cost = KNEE**2 * float(np.sum(np.sqrt(1.0 + (standard / KNEE) ** 2) - 1.0))
    used = problem.start_deviation > 0.0
    cost += 0.5 * float(np.sum((offsets[:, used] / problem.start_deviation[used]) ** 2))
    return cost + 0.5 * float(np.sum(((place - problem.center) / PRIOR_DEVIATION) ** 2))


def robust_deviation(residual: Array) -> Array:
    """Robust standard deviation about zero of residuals (rows, channels), per channel."""
    return np.asarray(1.4826 * np.median(np.abs(residual), axis=0))


def estimated_noise(sensor: Array, residual: Array) -> Noise:
    """Noise including model error: between the robust and the plain size of the residuals."""
    plain = np.sqrt(
        np.mean(
            np.minimum(residual**2, (KNEE * 4.0 * np.maximum(robust_deviation(residual), sensor)) ** 2),
            axis=0,
        )
    )
    return Noise(sensor, np.maximum(np.maximum(sensor, 0.5 * plain), robust_deviation(residual)))
